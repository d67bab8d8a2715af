package replay

// waiting is a heap of the records that are held back: the earliest comes first, and of those of one time the one that arrived first. What
// orders them stands in the heap itself, as records are seldom in the processor's cache. The zero value is empty.
type waiting []held

type held struct {
	unix  int64
	nano  int
	order uint64 // of arrival
	*Record
}

func hold(r *Record, order uint64) held {
	return held{unix: r.At.Unix(), nano: r.At.Nanosecond(), order: order, Record: r}
}

func (h *held) before(o *held) bool {
	switch {
	case h.unix != o.unix:
		return h.unix < o.unix
	case h.nano != o.nano:
		return h.nano < o.nano
	}
	return h.order < o.order
}

func (w *waiting) push(x held) {
	*w = append(*w, x)
	h := *w
	i := len(h) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !x.before(&h[up]) {
			break
		}
		h[i] = h[up]
		i = up
	}
	h[i] = x
}

// pop takes out the first; there must be one.
func (w *waiting) pop() *Record {
	h := *w
	first, n := h[0].Record, len(h)-1
	x := h[n]
	h[n] = held{}
	h = h[:n]
	*w = h
	i := 0
	for {
		down := 2*i + 1
		if down >= n {
			break
		}
		if down+1 < n && h[down+1].before(&h[down]) {
			down++
		}
		if !h[down].before(&x) {
			break
		}
		h[i] = h[down]
		i = down
	}
	if n > 0 {
		h[i] = x
	}
	return first
}
