package processor

import (
	"testing"
	"time"

	"antirobot/verdict"
	"antirobot/verdict/client"
)

// crowd is a service's newcomers under test, and what was last told of each way.
type crowd struct {
	newcomers
	told map[uint64]verdict.Campaign
}

func newCrowd(visits int, at time.Time) *crowd {
	c := &crowd{told: map[uint64]verdict.Campaign{}}
	for i := range visits {
		e := newcomer7(at, i)
		e.Cookies |= client.CookieOurs
		c.page(e, 1, arriving{known: true}, new(toldCampaigns))
	}
	return c
}

// newcomer7 is the n-th newcomer, in a network of its own, with one browser.
func newcomer7(at time.Time, n int) *verdict.Event {
	e := outside(at, n, false)
	e.Method, e.Agent, e.Shape, e.Language, e.PathShape = 'G', 7, 5, 3, 9
	return e
}

func (c *crowd) heard(t *toldCampaigns) {
	for _, x := range t.list[:t.n] {
		c.told[x.Mark] = x
	}
}

// robot arrives, and is banned two minutes later.
func (c *crowd) robot(e *verdict.Event) {
	var t toldCampaigns
	c.page(e, 1, arriving{}, &t)
	c.heard(&t)
	t = toldCampaigns{}
	e.At = e.At.Add(2 * time.Minute)
	c.banned(e, 1, &t)
	c.heard(&t)
}

// person arrives, and follows a link with the cookie that it was given.
func (c *crowd) person(e *verdict.Event) { c.comesBack(e, false) }

// comesBack is person, of whom placed says whether people are known at its address.
func (c *crowd) comesBack(e *verdict.Event, placed bool) {
	var t toldCampaigns
	c.page(e, 1, arriving{placed: placed}, &t)
	c.heard(&t)
	t = toldCampaigns{}
	e.At, e.Cookies, e.Referer = e.At.Add(20*time.Second), client.CookieOurs, client.RefererSame
	c.page(e, 1, arriving{}, &t)
	c.heard(&t)
}

// asked is what is told of those who arrive as an event does, by how much they are alike.
func (c *crowd) asked(e *verdict.Event) (share [verdict.Likenesses]float32) {
	a, _ := e.Arrival(1)
	for like, mark := range a {
		if x := c.told[mark]; x.Until.After(e.At) {
			share[like] = x.Share
		}
	}
	return share
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
	if share := c.asked(newcomer7(at, 1)); share != [verdict.Likenesses]float32{} {
		t.Fatalf("two are enough: %v", share)
	}
	for i := range 60 {
		at = at.Add(time.Minute)
		c.robot(newcomer7(at, 3000+i))
	}
	if share := c.asked(newcomer7(at, 1)); share[verdict.LikeProgram] != askMost {
		t.Errorf("of the newcomers %v are asked", share)
	}
	if share := c.asked(other(at, 1)); share != [verdict.Likenesses]float32{} {
		t.Errorf("of those with another browser %v are asked", share)
	}
	at = at.Add(4 * time.Hour)
	c.person(newcomer7(at, 9000))
	if share := c.asked(newcomer7(at, 1)); share != [verdict.Likenesses]float32{} {
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
		if share := c.asked(newcomer7(at.Add(80*time.Minute), 1)); share[verdict.LikeProgram] != askMost {
			t.Errorf("after %d, of the next ones %v are asked", robots, share)
		}
		if share := c.asked(newcomer7(at.Add(3*time.Hour), 1)); share != [verdict.Likenesses]float32{} {
			t.Errorf("after %d and three hours, %v are asked", robots, share)
		}
	}
}

// TestWhatIsUsualDecidesHowManyAreEnough: where others with the same language are robots, three with another library are asked for already; where
// those are people, ten are not.
func TestWhatIsUsualDecidesHowManyAreEnough(t *testing.T) {
	f := func(others func(c *crowd, e *verdict.Event), robots int, want bool) {
		t.Helper()
		at := time.Unix(1.8e9, 0)
		c := newCrowd(4000, at)
		for i := range 40 {
			e := newcomer7(at, 1000+i)
			e.Agent, e.Shape = 100+uint64(i), 100+uint64(i)
			others(c, e)
		}
		for i := range robots {
			c.robot(newcomer7(at, 2000+i))
		}
		if share := c.asked(newcomer7(at, 1))[verdict.LikeProgram]; (share == askMost) != want {
			t.Errorf("after %d, %v are asked", robots, share)
		}
	}
	f((*crowd).robot, 2, false)
	f((*crowd).robot, 3, true)
	f((*crowd).person, 10, false)
	f((*crowd).person, 30, true)
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
			if share := c.asked(newcomer7(at, 1)); share != [verdict.Likenesses]float32{} {
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
		c.page(newcomer7(at, 1000+i), 1, arriving{}, new(toldCampaigns))
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
		if share := c.asked(newcomer7(at, 1)); share != [verdict.Likenesses]float32{} {
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
		c.page(e, 1, arriving{}, new(toldCampaigns))
		var told toldCampaigns
		e.Kind = verdict.EventSolved
		c.solved(e, false, &told)
		c.heard(&told)
	}
	if share := c.asked(newcomer7(at, 1)); share != [verdict.Likenesses]float32{} {
		t.Errorf("although ten have answered, %v are asked", share)
	}
	for i := range 10 {
		var told toldCampaigns
		c.banned(newcomer7(at, 2000+i), 1, &told)
		c.heard(&told)
	}
	if share := c.asked(newcomer7(at, 1)); share[verdict.LikeProgram] != askMost {
		t.Errorf("although those are robots, %v are asked", share)
	}
}

// TestWherePeopleAreMet: a newcomer who loads parts of the page, or answers, is known at its address, until somebody is banned there.
func TestWherePeopleAreMet(t *testing.T) {
	p, keeper := newProcessor(t, nil)
	know(t, p, []*verdict.Settings{{Name: "shop"}})
	r, at := p.service(0), time.Unix(1.8e9, 0)
	reads, answers, withholds := newcomer7(at, 1), newcomer7(at, 2), newcomer7(at, 3)
	p.arrive(reads, r, false, false)
	p.arrive(withholds, r, false, false)
	p.arrive(answers, r, false, false)
	if len(keeper.met) != 0 {
		t.Fatal("whoever arrives is a person")
	}
	part := *reads
	part.Page, part.Referer = false, client.RefererSame
	for range fewPictures {
		p.loads(&part, r)
	}
	p.answer(answers, r)
	silent := *withholds // the site wants no Referers of its own
	silent.Page, silent.Referer, silent.Site = false, client.RefererNone, client.SiteSame
	for range fewPictures {
		p.loads(&silent, r)
	}
	for _, e := range []*verdict.Event{reads, answers, withholds} {
		if !keeper.met[e.Subjects[0].ID] {
			t.Errorf("%v is not known", e.Subjects[0])
		}
	}
	p.unmask(reads)
	if keeper.met[reads.Subjects[0].ID] {
		t.Error("the address of a robot is still known as a person's")
	}
}

// TestNothingToTellCostsNothing: pages and parts, of which nothing follows, allocate nothing.
func TestNothingToTellCostsNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	p, _ := newProcessor(t, nil)
	know(t, p, []*verdict.Settings{{Name: "shop"}})
	r := p.service(0)
	e := newcomer7(time.Unix(1.8e9, 0), 1)
	p.arrive(e, r, false, false)
	if n := testing.AllocsPerRun(100, func() {
		p.arrive(e, r, false, false)
		p.loads(e, r)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
