package newcomers

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

// fits reports whether a way may be asked beside all others that are asked and cost no more. Who arrives in several of them is counted
// once, in the widest.
func (s *Service) fits(w *way, now int64) bool {
	a := &s.asked
	if a.at != now {
		a.at, a.n = now, 0
		for i := range s.ways {
			if s.ways[i].until > now && a.n < mostAsked {
				a.ways[a.n] = uint16(i) //nolint:gosec // below wayPlaces
				a.n++
			}
		}
	}
	if a.n == mostAsked && w.until <= now {
		return false
	}
	if s.within(w, w, now) {
		return true
	}
	people := w.peopleDay
	for _, i := range a.ways[:a.n] {
		if o := &s.ways[i]; o != w && o.until > now && !w.cheaper(o) && !s.within(o, w, now) {
			people += o.peopleDay
		}
	}
	return people <= askedPeople*s.visits
}

// within reports whether all who arrive in a way are asked anyhow, if w is: they arrive in w, too, or in a wider way that is asked and
// costs no more than w.
func (s *Service) within(o, w *way, now int64) bool {
	for p := s.known(o.wider); p != nil; p = s.known(p.wider) {
		if p == w || p.until > now && !w.cheaper(p) {
			return true
		}
	}
	return false
}

// cheaper reports whether a question concerns fewer people for each newcomer of a way than of another one.
func (w *way) cheaper(o *way) bool { return w.peopleDay*o.came < o.peopleDay*w.came }
