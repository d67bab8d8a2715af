package verdict

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"antirobot/identity"
	"antirobot/request"
	"antirobot/verdict/bans"
)

// TestWhen: who would be asked is asked only while all conditions hold; what an operator has banned is asked always.
func TestWhen(t *testing.T) {
	w := newWorld(t)
	visitor := ip("203.0.113.7")
	decide := func(s *Settings, sub identity.Subject) *Decision {
		addr, _ := sub.Addr()
		v, id := newRequest(w.clock.now(), addr.String())
		v.Path = []byte("/search/1")
		d := new(Decision)
		w.Decide(d, v, id, s)
		return d
	}
	ban := func(sub identity.Subject, source bans.Source) {
		t.Helper()
		b := bans.Ban{Subject: sub, Source: source, Until: w.clock.now().Add(time.Hour), Made: w.clock.now(), Score: 0.9, Threshold: 0.5, Reason: "test"}
		if err := w.Ban(context.Background(), b); err != nil {
			t.Fatal(err)
		}
	}
	ban(visitor, bans.SourceProcessor)
	ban(ip("203.0.113.8"), bans.SourceAPI)
	f := func(what string, edit func(*WhenConfig), sub identity.Subject, want Verdict, waiver Waiver) *Settings {
		t.Helper()
		s := service(t, func(c *ServiceConfig) { edit(&c.When) })
		if d := decide(s, sub); d.Verdict != want || d.Waived != waiver || d.Cause != CauseBan {
			t.Errorf("%s: %s, %s, waived %q", what, d.Verdict, d.Cause, d.Waived)
		} else if waiver != NotWaived && d.Told() != Robot {
			t.Errorf("%s: the service is told %s", what, d.Told())
		}
		return s
	}
	f("no condition", func(*WhenConfig) {}, visitor, Robot, NotWaived)
	f("from elsewhere", func(c *WhenConfig) { c.Networks = []string{"198.51.100.0/24"} }, visitor, Human, WaivedNetwork)
	f("from there", func(c *WhenConfig) { c.Networks = []string{"203.0.113.0/24"} }, visitor, Robot, NotWaived)
	partners := func(c *WhenConfig) { c.Networks = []string{"198.51.100.0/24", "strangers", "partners"} }
	f("from no list", partners, visitor, Human, WaivedNetwork)
	w.lists.named = map[string]netip.Prefix{"partners": netip.MustParsePrefix("203.0.113.0/29")}
	f("from a list that was refreshed", partners, visitor, Robot, NotWaived)
	f("an unknown path", func(c *WhenConfig) { c.Path = time.Second }, visitor, Human, WaivedPath)
	s := f("an idle service", func(c *WhenConfig) { c.Load.Slow = 2 * time.Second }, visitor, Human, WaivedLoad)
	f("the operator's ban", func(c *WhenConfig) { c.Load.Slow = 2 * time.Second }, ip("203.0.113.8"), Robot, NotWaived)

	answers := func(n int, path string, took time.Duration, waiting int64) {
		for i := range n {
			v := &request.View{At: w.clock.now().Add(time.Duration(i) * time.Millisecond), Path: []byte(path)}
			w.Took(v, s, took, waiting)
		}
	}
	answers(20, "/search/2", 3*time.Second, 0) // another path of the same shape
	f("a dear path", func(c *WhenConfig) { c.Path = time.Second }, visitor, Robot, NotWaived)
	f("dearer than that", func(c *WhenConfig) { c.Path = 4 * time.Second }, visitor, Human, WaivedPath)
	f("a busy service", func(c *WhenConfig) { c.Load.Slow = 2 * time.Second }, visitor, Robot, NotWaived)
	if d := decide(s, visitor); !d.Busy {
		t.Error("the visitor is not told that the site is busy")
	}
	f("no queue", func(c *WhenConfig) { c.Load.Queue = 10 }, visitor, Human, WaivedLoad)
	w.clock.advance(time.Minute)
	answers(1, "/", 0, 40)
	f("a long queue", func(c *WhenConfig) { c.Load.Queue = 10 }, visitor, Robot, NotWaived)
	w.clock.advance(5 * time.Minute)
	f("idle again", func(c *WhenConfig) { c.Load.Queue, c.Load.Slow = 10, 2*time.Second }, visitor, Human, WaivedLoad)
}

// TestLoadGrowsSmoothly: between half of a limit and the limit a growing share of addresses is asked, and each stays asked.
func TestLoadGrowsSmoothly(t *testing.T) {
	w := newWorld(t)
	s := service(t, func(c *ServiceConfig) { c.When.Load.Slow = 2 * time.Second })
	asked := map[identity.Subject]bool{}
	last := 0
	for _, took := range []time.Duration{900 * time.Millisecond, 1250 * time.Millisecond, 1500 * time.Millisecond, 1750 * time.Millisecond, 2500 * time.Millisecond} {
		w.clock.advance(time.Hour)
		w.Took(&request.View{At: w.clock.now().Add(-took)}, s, took, 0)
		n := 0
		for i := range 200 {
			sub := identity.Subject{Kind: identity.KindIP, ID: [16]byte{10: 0xff, 11: 0xff, 14: 1, 15: byte(i)}}
			id := &identity.Identity{N: 1}
			id.Subjects[0] = sub
			d := &Decision{Cause: CauseJudge}
			if w.waived(d, &request.View{At: w.clock.now()}, id, s) == NotWaived {
				n++
				asked[sub] = true
			} else if asked[sub] {
				t.Errorf("%v at %v is not asked any more", sub, took)
			}
		}
		if n < last || took == 900*time.Millisecond && n > 0 || took == 1500*time.Millisecond && (n < 60 || n > 140) || took > 2*time.Second && n != 200 {
			t.Errorf("at %v %d of 200 are asked, before %d", took, n, last)
		}
		last = n
	}
}
