package processor

import "math"

// A gleaner is a client that reads what nobody else wants. People want what others want: of the pages that somebody reads whom the service
// knows, some share was read by others within a day, and that share is learnt (verdict/tastes). Who takes a whole catalogue reads such pages a
// fraction as often. The odds add up page by page (Wald's sequential test, as a cumulative sum), for each client with a young cookie.
//
// One such client may have a rare taste. Several of them at one address are one robot, or as good as one: they are listed, as those that load nothing
// are (habit), and have together what a household has.

const (
	gleanOdds  = 2.   // odds, as a logarithm, from which on a client is a gleaner …
	gleanMore  = 1    // … where there are several …
	gleanMost  = 4.   // … and the most that are added up: few pages that others want make it one no longer
	gleanRate  = 8    // gleaners read what others want less often than people by this factor
	gleanLeast = 0.05 // share of what people read that others have read, from which on something is expected
	gleanFrom  = 4    // gleaners at an address in a day, from which on they are listed
)

// glean takes a page that a client has read, of which people would have read one that others want with a given chance.
func (x *habit) glean(chance float32, wanted bool) {
	if chance < gleanLeast {
		return
	}
	add := float32(-math.Log(gleanRate))
	if !wanted {
		add = float32(math.Log(float64((1 - chance/gleanRate) / (1 - chance))))
	}
	x.odds = min(max(x.odds+add, 0), gleanMost)
}

// gleans reports whether a client is a gleaner, and counts it at its address when it becomes one.
func (x *habit) gleans(b *budget, settled bool) bool {
	enough := float32(gleanOdds)
	if settled && b.gleaners >= gleanFrom {
		enough = gleanMore
	}
	switch {
	case x.gleaner && x.odds <= 0:
		x.gleaner = false
		b.gleaners = max(b.gleaners-1, 0)
	case !x.gleaner && x.odds >= enough:
		x.gleaner = true
		b.gleaners++
	}
	return x.gleaner && b.gleaners >= gleanFrom
}
