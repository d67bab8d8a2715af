package newcomers

import (
	"testing"
	"time"

	"antirobot/verdict"
	"antirobot/verdict/client"
)

// TestABareNewcomerIsNobodysAtANewSite: who loads nothing is not asked before the site has seen some visits of people, however many others load their
// pages; afterwards it is.
func TestABareNewcomerIsNobodysAtANewSite(t *testing.T) {
	f := func(visits float32) (asked bool) {
		at := time.Unix(1.8e9, 0)
		c := newCrowd(1, at)
		arrives := func(n, agent int) *verdict.Event {
			at = at.Add(5 * time.Second)
			c.visits = visits
			e := newcomer7(at, n)
			e.Agent, e.Shape = uint64(agent), uint64(agent)
			var told Told
			c.Page(e, 1, Arriving{Parts: true, Shown: true, Deep: true}, &told)
			c.heard(&told)
			return e
		}
		for i := range 150 {
			e := arrives(100+i, 100+i%20)
			e.Page, e.Referer = false, client.RefererSame
			for range fewPictures {
				c.Part(e, new(Told))
			}
		}
		for i := range 100 {
			asked = asked || c.asked(arrives(1000+i, 7)) != [verdict.Likenesses]float32{}
		}
		return asked
	}
	if f(bareVisits - 1) {
		t.Error("asked at a site that has hardly seen anybody")
	}
	if !f(1000) {
		t.Error("not asked although nearly everybody else loads the parts of the page")
	}
}
