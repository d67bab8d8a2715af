package processor

import (
	"testing"
	"time"

	"antirobot/verdict"
	"antirobot/verdict/client"
)

// outside is a page that a browser opens from outside: the n-th visitor, and whether it says where it comes from.
func outside(at time.Time, n int, told bool) *verdict.Event {
	e := event(at, n*256)
	e.Claim, e.Referer, e.Page = client.ParseClaim([]byte(firefox)), client.RefererNone, true
	if told {
		e.Referer = client.RefererForeign
	}
	return e
}

// TestCampaign: many addresses that open what nobody else opens, while people open what others open, are known by their
// number and by how rare their pages are; who follows a link, or never says where it comes from, is none of them; and it
// is forgotten after a day.
func TestCampaign(t *testing.T) {
	var c campaigns
	at := time.Unix(1.8e9, 0)
	hopper := func(told bool, rarity float32) *trail {
		return &trail{nMoves: 2, told: told, known: 2, rarity: rarity, moves: [moveCount]uint8{moveEntry: 2}}
	}
	for i := range enoughRestPages {
		c.note(outside(at, i, true), false, 4)
	}
	e := outside(at, 1, true)
	if p := c.part(e, hopper(true, 0)); p.size == p.size {
		t.Errorf("without anybody else: %+v", p)
	}
	for i := range 80 {
		c.note(outside(at, 1000+i, true), true, 0.5)
	}
	if p := c.part(e, hopper(true, 0.5)); !(p.size > 60 && p.size < 100) || p.rare != 3.5 || p.own != 3.5 {
		t.Errorf("one of the campaign: %+v", p)
	}
	if p := c.part(e, hopper(true, 4)); p.own != 0 {
		t.Errorf("one of them who opens what everybody opens: %+v", p)
	}
	reader := hopper(true, 0)
	reader.moves[moveEntry], reader.moves[moveChain] = 1, 1
	for name, tr := range map[string]*trail{"follows a link": reader, "never says": hopper(false, 0)} {
		if p := c.part(e, tr); p.size == p.size {
			t.Errorf("%s: %+v", name, p)
		}
	}
	tool := outside(at, 2, true)
	tool.Claim = client.ParseClaim([]byte("curl/8.0"))
	if p := c.part(tool, hopper(true, 0)); p.size == p.size {
		t.Errorf("no browser: %+v", p)
	}
	if p := c.part(outside(at.Add(25*time.Hour), 1, true), hopper(true, 0)); p.size == p.size {
		t.Errorf("a day later: %+v", p)
	}
}

// TestReturnsByTheClock: who comes back every four hours shows it after four visits; whose nights are longer than breaks
// does not.
func TestReturnsByTheClock(t *testing.T) {
	spread := func(hours ...float64) float32 {
		tr := new(trail)
		at := time.Unix(1.8e9, 0)
		for i, h := range hours {
			at = at.Add(time.Duration(h * float64(time.Hour)))
			tr.load(&verdict.Event{At: at, Path: uint64(i%2) * 0x9e3779b97f4a7c15, Type: verdict.TypeHTML}, true, false, -1)
		}
		return returns(3, func(m *moments) float32 { return m.spreadMost() })(&evidence{t: *tr})
	}
	if s := spread(0, 4, 3.9, 4.1, 4); !(s < 0.1) {
		t.Errorf("by the clock: %v", s)
	}
	if s := spread(0, 4, 5, 15, 3.5, 5); s < 0.5 {
		t.Errorf("with nights: %v", s)
	}
	if s := spread(0, 4, 4); s == s {
		t.Errorf("two returns are enough: %v", s)
	}
}

// TestCookieIsSomebodyWhenItReturns: behind an address, a cookie counts as a client when a page is requested with it, and
// not when it comes with the parts of one page only.
func TestCookieIsSomebodyWhenItReturns(t *testing.T) {
	clients := func(returns bool) float32 {
		s := new(session)
		at := time.Unix(1.8e9, 0)
		for i := range 20 {
			e := event(at.Add(time.Duration(i)*time.Minute), 1)
			e.Agent = 7
			s.turn(e, true, false)
			e.Browser = uint32(i + 1)
			if returns {
				s.turn(e, true, false)
			}
			s.part(e)
		}
		return s.clients()
	}
	if dropped, kept := clients(false), clients(true); dropped != 1 || kept < 10 {
		t.Errorf("%v clients that drop their cookie, %v that keep it", dropped, kept)
	}
}

// TestWhoIsAskedIsOfTheJob: newcomers who are asked because of how they arrive go on showing that many do one job, each of them
// once, and don't show that anybody reads the pages that they want; who is served is counted by its way through the site.
func TestWhoIsAskedIsOfTheJob(t *testing.T) {
	p, _ := newProcessor(t, nil)
	know(t, p, []*verdict.Settings{{Name: "shop"}})
	at, r := time.Unix(1.8e9, 0), p.service(0)
	for i := range 300 { // so many page loads show what is rare
		r.people.entrances.Read(hash32(i%20), at)
	}
	for i := range enoughRestPages {
		r.people.campaigns.note(outside(at, i, true), false, 4)
	}
	f := func(mode verdict.Mode) partIn {
		var e *verdict.Event
		for i := range 60 {
			e = newcomer7(at, 1000+i)
			e.Site, e.Path, e.Mode = client.SiteNone, uint64(hash32(5000+i)), mode
			e.Verdict, e.Cause = verdict.Unsure, verdict.CauseCampaign
			p.arrive(e, r, false, false)
			p.arrive(e, r, false, false)
		}
		if n := r.people.entrances.Readers(uint32(e.Path), at); n != 0 {
			t.Errorf("mode %v: %v have read the page", mode, n)
		}
		at = at.Add(time.Hour)
		return r.people.campaigns.part(e, &trail{nMoves: 2, told: true, known: 2, moves: [moveCount]uint8{moveEntry: 2}})
	}
	if j := f(verdict.Observe); j.size == j.size {
		t.Errorf("who is served: %+v", j)
	}
	if j := f(verdict.Enforce); !(j.size > 50 && j.size < 70) || j.rare != 4 {
		t.Errorf("who is asked: %+v", j)
	}
	if n := r.people.campaigns.jobs[0][0].pages; n != 60 {
		t.Errorf("%d pages of 60 newcomers", n)
	}
}
