package newcomers

import (
	"net/netip"
	"testing"
	"time"

	"antirobot/identity"
	"antirobot/verdict"
	"antirobot/verdict/client"
)

const firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:144.0) Gecko/20100101 Firefox/144.0"

// newcomer7 is the n-th newcomer, in a network of its own, with one browser.
func newcomer7(at time.Time, n int) *verdict.Event {
	e := &verdict.Event{At: at, Status: 200, Method: 'G', Agent: 7, PathShape: 9, N: 1}
	e.Subjects[0] = identity.AddrSubject(netip.AddrFrom4([4]byte{10, byte(n >> 8), byte(n), 0}))
	e.Claim, e.Referer, e.Page, e.Shape, e.Language = client.ParseClaim([]byte(firefox)), client.RefererNone, true, 5, 3
	return e
}

// crowd is a service's newcomers under test, and what was last told of each fingerprint.
type crowd struct {
	Service
	told map[uint64]verdict.Campaign
}

func newCrowd(visits int, at time.Time) *crowd {
	c := &crowd{told: map[uint64]verdict.Campaign{}}
	for i := range visits {
		e := newcomer7(at, i)
		e.Cookies |= client.CookieOurs
		c.Page(e, 1, Arriving{Known: true}, new(Told))
	}
	return c
}

func (c *crowd) heard(t *Told) {
	if t.Changes {
		c.told[t.Campaign.Mark] = t.Campaign
	}
}

// robot arrives, and is banned two minutes later.
func (c *crowd) robot(e *verdict.Event) {
	var t Told
	c.Page(e, 1, Arriving{}, &t)
	c.heard(&t)
	t = Told{}
	e.At = e.At.Add(2 * time.Minute)
	c.Banned(e, 1, &t)
	c.heard(&t)
}

// person arrives, and follows a link with the cookie that it was given.
func (c *crowd) person(e *verdict.Event) { c.comesBack(e, false) }

// comesBack is person, of whom placed says whether people are known at its address.
func (c *crowd) comesBack(e *verdict.Event, placed bool) {
	var t Told
	c.Page(e, 1, Arriving{Placed: placed}, &t)
	c.heard(&t)
	t = Told{}
	e.At, e.Cookies, e.Referer = e.At.Add(20*time.Second), client.CookieOurs, client.RefererSame
	c.Page(e, 1, Arriving{}, &t)
	c.heard(&t)
}

// asked is the share of those who arrive as an event does that is asked.
func (c *crowd) asked(e *verdict.Event) float32 {
	mark, _ := e.Arrival(1)
	if x := c.told[mark]; x.Until.After(e.At) {
		return x.Share
	}
	return 0
}

// TestCampaignOfNewcomers: once several newcomers from several networks who arrive alike were judged to be robots, the next ones are
// asked, who arrive just like them; those with another browser are not; and that ends when no more come.
func TestCampaignOfNewcomers(t *testing.T) {
	at := time.Unix(1.8e9, 0)
	c := newCrowd(200, at)
	other := func(at time.Time, n int) *verdict.Event {
		e := newcomer7(at, n)
		e.Agent, e.Shape = 8, 6
		return e
	}
	for i := range 2 {
		at = at.Add(time.Minute)
		c.robot(newcomer7(at, 1000+i))
		c.person(other(at, 2000+i))
	}
	if share := c.asked(newcomer7(at, 1)); share != 0 {
		t.Fatalf("two are enough: %v", share)
	}
	for i := range 60 {
		at = at.Add(time.Minute)
		c.robot(newcomer7(at, 3000+i))
	}
	if share := c.asked(newcomer7(at, 1)); share != askMost {
		t.Errorf("of the newcomers %v are asked", share)
	}
	if share := c.asked(other(at, 1)); share != 0 {
		t.Errorf("of those with another browser %v are asked", share)
	}
	at = at.Add(4 * time.Hour)
	c.person(newcomer7(at, 9000))
	if share := c.asked(newcomer7(at, 1)); share != 0 {
		t.Errorf("hours after it has ended %v are asked", share)
	}
}

// TestSlowCampaignsGoOn: where robots come every twenty minutes, one who takes an hour longer is asked, too, however many came before; hours after the
// last one nobody is.
func TestSlowCampaignsGoOn(t *testing.T) {
	for robots := 12; robots < 18; robots++ {
		at := time.Unix(1.8e9, 0)
		c := newCrowd(400, at)
		for i := range robots {
			at = at.Add(20 * time.Minute)
			c.robot(newcomer7(at, 1000+i))
		}
		if share := c.asked(newcomer7(at.Add(80*time.Minute), 1)); share != askMost {
			t.Errorf("after %d, of the next ones %v are asked", robots, share)
		}
		if share := c.asked(newcomer7(at.Add(3*time.Hour), 1)); share != 0 {
			t.Errorf("after %d and three hours, %v are asked", robots, share)
		}
	}
}

// TestNobodyIsAskedWhoArrivesAsPeopleDo: where one in three turns out to be a person; where robots are a small part of those who arrive
// so; where they are all in one network; on a site that has hardly seen anybody yet.
func TestNobodyIsAskedWhoArrivesAsPeopleDo(t *testing.T) {
	f := func(name string, visits int, arrive func(c *crowd, at time.Time, i int)) {
		t.Helper()
		at := time.Unix(1.8e9, 0)
		c := newCrowd(visits, at)
		for i := range 100 {
			at = at.Add(time.Minute)
			arrive(c, at, i)
			if share := c.asked(newcomer7(at, 1)); share != 0 {
				t.Errorf("%s: after %d, %v are asked", name, i, share)
				return
			}
		}
	}
	f("people", 4000, func(c *crowd, at time.Time, i int) {
		if i%3 == 0 {
			c.person(newcomer7(at, 1000+i))
		} else {
			c.robot(newcomer7(at, 1000+i))
		}
	})
	f("guests", 4000, func(c *crowd, at time.Time, i int) {
		if i%5 == 0 {
			c.robot(newcomer7(at, 1000+i))
			return
		}
		c.Page(newcomer7(at, 1000+i), 1, Arriving{}, new(Told))
	})
	f("one network", 4000, func(c *crowd, at time.Time, i int) {
		e := newcomer7(at, 1000)
		e.Subjects[0].ID[15] = byte(i)
		c.robot(e)
	})
	f("a new site", 20, func(c *crowd, at time.Time, i int) { c.robot(newcomer7(at, 1000+i)) })
}

// TestWhoMakesVisitsUpHasNobodyAsked: a hundred networks that pass for people again and again, under a name of its own each time, have no more people
// asked: those who arrive as robots of these networks do are more than what all visits of the site's people allow.
func TestWhoMakesVisitsUpHasNobodyAsked(t *testing.T) {
	at := time.Unix(1.8e9, 0)
	c := newCrowd(2000, at)
	for i := range 60 {
		at = at.Add(4 * time.Minute)
		c.person(newcomer7(at, 1000+i))
	}
	for i := range 20_000 {
		e := newcomer7(at, 5000+i%100)
		e.Agent, e.Shape = 1000+uint64(i), 1000+uint64(i)
		c.person(e)
	}
	for i := range 400 {
		at = at.Add(2 * time.Second)
		e := newcomer7(at, 5000+i%100)
		e.Subjects[0].ID[15] = byte(i / 100)
		c.robot(e)
		if share := c.asked(newcomer7(at, 1)); share != 0 {
			t.Fatalf("after %d robots, of %v visits, %v of people are asked", i+1, c.visits, share)
		}
	}
}

// TestWhoSolvesIsAPerson: an answer takes newcomers off a campaign as a followed link does; whoever is banned later was none.
func TestWhoSolvesIsAPerson(t *testing.T) {
	at := time.Unix(1.8e9, 0)
	c := newCrowd(4000, at)
	for i := range 40 {
		at = at.Add(time.Minute)
		c.robot(newcomer7(at, 1000+i))
	}
	for i := range 10 {
		e := newcomer7(at, 2000+i)
		c.Page(e, 1, Arriving{}, new(Told))
		var told Told
		e.Kind = verdict.EventSolved
		c.Solved(e, false, &told)
		c.heard(&told)
	}
	if share := c.asked(newcomer7(at, 1)); share != 0 {
		t.Errorf("although ten have answered, %v are asked", share)
	}
	for i := range 10 {
		var told Told
		c.Banned(newcomer7(at, 2000+i), 1, &told)
		c.heard(&told)
	}
	if share := c.asked(newcomer7(at, 1)); share != askMost {
		t.Errorf("although those are robots, %v are asked", share)
	}
}
