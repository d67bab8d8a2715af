package processor

import (
	"testing"
	"time"

	"antirobot/verdict"
	"antirobot/verdict/client"
)

// TestWhatOnePageTells: what a page has to be told of has room where it is most: two newcomers are found bare whose ways are asked, and four more, all of
// whom are to be asked when they come back; and one who was to be asked goes on by a link with our cookie, is a person, and each of its ways is asked less.
func TestWhatOnePageTells(t *testing.T) {
	at := time.Unix(1.8e9, 0)
	var n newcomers
	n.begin()
	n.visits, n.at = 1e5, at.UnixMilli()
	usual := n.way(serviceWay, verdict.Likenesses, at.UnixMilli())
	usual.seenDay, usual.aliveDay = 1000, 900
	arrived := func(i int) (*verdict.Event, *newcomer) {
		e := newcomer7(at, i)
		e.Agent, e.PathShape, e.Client = uint64(i+1), uint64(i+100), uint32(i+1)
		a, ok := e.Arrival(1)
		if !ok {
			t.Fatal("it does not arrive")
		}
		for like, mark := range a {
			w := n.way(mark, verdict.Likeness(like), at.UnixMilli())
			w.came, w.lately, w.robots, w.people, w.peopleDay, w.networks, w.until = 20, 20, 20, 2, 2, 1<<40-1, at.Unix()+1
		}
		x := n.find(whoOf(e))
		*x = newcomer{who: whoOf(e), at: at.Unix() - 20, arrival: a, client: e.Client, shape: 7}
		return e, x
	}
	for i := range 6 {
		_, x := arrived(i)
		n.bare.who[i] = x.who
		x.waits, x.tells = i >= 4, i >= 4
	}
	n.bare.from, n.bare.n, n.bare.again = 4, 2, 5
	e, x := arrived(6)
	x.back, x.seen = true, uint8(verdict.Likenesses)
	e.Cookies, e.Referer = client.CookieOurs, client.RefererSame
	var told toldCampaigns
	n.page(e, 1, arriving{parts: true}, &told)
	if !told.met || told.n != 23 {
		t.Errorf("%d campaigns are told, a person is met: %v", told.n, told.met)
	}
}
