package processor

// Questions for how newcomers arrive concern people, too, of whom a few arrive as robots do. How many that may be is shared out among the
// ways to arrive: those come first of which a question concerns the fewest people for each newcomer. A dearer one gives way with the next
// newcomer who arrives so.

// mostAsked is how many ways are asked at a time, as many as gateways keep.
const mostAsked = 256

// asked are the ways that are asked, as of a second.
type asked struct {
	at   int64 // unix seconds
	n    int
	ways [mostAsked]uint16 // places
}

// fits reports whether a way may be asked beside all others that are asked and cost no more.
func (n *newcomers) fits(w *way, now int64) bool {
	a := &n.asked
	if a.at != now {
		a.at, a.n = now, 0
		for i := range n.ways {
			if n.ways[i].until > now && a.n < mostAsked {
				a.ways[a.n] = uint16(i) //nolint:gosec // below wayPlaces
				a.n++
			}
		}
	}
	people := w.peopleDay
	for _, i := range a.ways[:a.n] {
		if o := &n.ways[i]; o != w && o.until > now && !w.cheaper(o) {
			people += o.peopleDay
		}
	}
	return people <= askedPeople*n.visits && (a.n < mostAsked || w.until > now)
}

// cheaper reports whether a question concerns fewer people for each newcomer of a way than of another one.
func (w *way) cheaper(o *way) bool { return w.peopleDay*o.came < o.peopleDay*w.came }
