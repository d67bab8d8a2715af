package replay

import "time"

// waiting is the records that are held back: the earliest comes first, and of those of one time the one that arrived
// first. Nearly all lines of a log are in order, and need no sorting: a record that is no earlier than those before it
// stands in line, and only the others are in a heap. What orders them stands beside them, as records are seldom in the
// processor's cache. The zero value is empty.
type waiting struct {
	inLine []held // from begin on
	begin  int
	others lateHeap
}

func (w *waiting) len() int { return len(w.inLine) - w.begin + len(w.others) }

func (w *waiting) push(x held) {
	n := len(w.inLine)
	if n > w.begin && x.before(&w.inLine[n-1]) {
		w.others.push(x)
		return
	}
	if n == cap(w.inLine) && w.begin > n/2 { // rather than grow, move up
		n = copy(w.inLine, w.inLine[w.begin:])
		clear(w.inLine[n:])
		w.inLine, w.begin = w.inLine[:n], 0
	}
	w.inLine = append(w.inLine, x)
}

// first returns the first; nil if there is none.
func (w *waiting) first() *held {
	switch {
	case w.begin == len(w.inLine) && len(w.others) == 0:
		return nil
	case w.begin == len(w.inLine) || len(w.others) > 0 && w.others[0].before(&w.inLine[w.begin]):
		return &w.others[0]
	}
	return &w.inLine[w.begin]
}

// pop takes out the first; there must be one.
func (w *waiting) pop() *Record {
	x := w.first()
	if len(w.others) > 0 && x == &w.others[0] {
		return w.others.pop()
	}
	r := x.Record
	x.Record = nil
	if w.begin++; w.begin == len(w.inLine) {
		w.inLine, w.begin = w.inLine[:0], 0
	}
	return r
}

// lateHeap is a heap.
type lateHeap []held

type moment struct {
	unix int64
	nano int
}

func momentOf(at time.Time) moment { return moment{unix: at.Unix(), nano: at.Nanosecond()} }

func (m moment) before(o moment) bool { return m.unix < o.unix || m.unix == o.unix && m.nano < o.nano }

type held struct {
	at    moment
	order uint64 // of arrival
	*Record
}

func (h *held) before(o *held) bool { return h.at.before(o.at) || h.at == o.at && h.order < o.order }

func (w *lateHeap) push(x held) {
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
func (w *lateHeap) pop() *Record {
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
