package verdict

import (
	"testing"
	"time"

	"antirobot/cbb"
	"antirobot/identity"
	"antirobot/request"
	"antirobot/spravka"
	"antirobot/verdict/bans"
)

// TestNothingIsAllocated checks invariant 1: no answer costs an allocation.
func TestNothingIsAllocated(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	w := newWorld(t)
	s := service(t, func(c *ServiceConfig) { c.Sync = true })
	s.Scorer, s.Rules = judgeSays(0), ruleSays(RuleNone)
	atTimes := service(t, func(c *ServiceConfig) { c.When.Networks = []string{"198.51.100.0/24", "hosting"} })
	known := sub(identity.KindI, 1)
	for day := range 2 {
		w.grades.Observe(known, ip("192.0.2.1").ID, day0.AddDate(0, 0, day), false)
	}
	w.ban(ip("192.0.2.1"))
	w.ban(sub(identity.KindI, 2))
	p := pass(w.now(), 1, 1_000_000, "192.0.2.1")
	if err := w.RevokePass(ctx, [16]byte{1}, 1<<40); err != nil {
		t.Fatal(err)
	}

	var d Decision
	var e Event
	f := func(name string, want Verdict, addr string, passes []spravka.Pass, subs ...identity.Subject) {
		t.Helper()
		v, id := newRequest(w.now(), addr, subs...)
		id.NPasses = copy(id.Passes[:], passes)
		n := testing.AllocsPerRun(2000, func() {
			rid := request.NewID(v.At)
			w.Decide(&d, v, id, s)
			d.Event(&e, v, id, s)
			w.Decisions().Record(rid, &d, v, id, s)
			w.Revoked(p.ID, p.Born)
		})
		if n != 0 || d.Verdict != want {
			t.Errorf("%s: %v allocations, %v", name, n, d.Verdict)
		}
	}
	f("human", Human, "192.0.2.9", nil, sub(identity.KindI, 3))
	f("banned address", Robot, "192.0.2.1", nil)
	f("excused", Human, "192.0.2.1", nil, known)
	f("banned i", Robot, "192.0.2.9", nil, sub(identity.KindI, 2))
	f("paid", Human, "192.0.2.1", []spravka.Pass{p})
	w.ban(ip("192.0.2.8"), func(b *bans.Ban) { b.Source, b.Score = bans.SourceProcessor, 0.9 })
	w.AskArrivals(&Campaign{Mark: 1, Until: w.now().Add(time.Hour)})
	f("new while there is a campaign", Human, "192.0.2.7", nil)
	f("banned by the slow half", Robot, "192.0.2.8", nil)
	s = atTimes
	f("from no network that is asked", Human, "192.0.2.8", nil)
	w.lists.Block = &cbb.Entry{List: "drop"}
	f("blocked", Blocked, "192.0.2.9", nil)
}
