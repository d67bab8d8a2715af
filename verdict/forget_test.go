package verdict

import (
	"testing"
	"time"

	"antirobot/identity"
	"antirobot/request"
)

// TestForgottenIsNowhere: who is forgotten is in no decision and no doubt any more; others, at the same address too, stay.
func TestForgottenIsNowhere(t *testing.T) {
	w := newWorld(t)
	s := service(t)
	gone, stays := sub(identity.KindI, 1), sub(identity.KindI, 2)
	record := func(who identity.Subject, addr string) request.ID {
		v, id := newRequest(w.now(), addr, who)
		rid := request.NewID(v.At)
		var d Decision
		w.Decide(&d, v, id, s)
		w.Decisions().Record(rid, &d, v, id, s)
		return rid
	}
	w.ban(ip("192.0.2.1"))
	stopped, human, other := record(gone, "192.0.2.1"), record(gone, "192.0.2.2"), record(stays, "192.0.2.1")
	for _, who := range []identity.Subject{gone, stays} {
		w.Doubt(&Doubt{Subject: who, Group: s.Group, Until: w.now().Add(time.Hour), Score: 0.4})
	}

	w.Forget(gone)
	f := func(rid request.ID, want bool) {
		t.Helper()
		if _, ok := w.Decisions().Get(rid); ok != want {
			t.Errorf("the decision is there: %t", ok)
		}
	}
	f(stopped, false)
	f(human, false)
	f(other, true)
	doubted := func(who identity.Subject, want bool) {
		t.Helper()
		var d Doubt
		if w.hasDoubt(&d, who, s.Group, w.now().UnixNano()) != want {
			t.Errorf("%s is doubted: %t", who, !want)
		}
	}
	doubted(gone, false)
	doubted(stays, true)

	w.Forget(ip("192.0.2.1"))
	f(other, false)
}
