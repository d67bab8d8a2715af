package verdict

import (
	"net/netip"
	"testing"
	"time"

	"antirobot/identity"
)

func addressID(s string) [16]byte { return identity.AddrSubject(netip.MustParseAddr(s)).ID }

// TestQuestionIsForANetwork: whoever comes from it is asked, at the services of the group, until it is over;
// established visitors are spared unless all are asked.
func TestQuestionIsForANetwork(t *testing.T) {
	q := newQuestions(10)
	at := day0
	ask := func(addr string, bits uint8, all bool) {
		var of [4]identity.Prefix
		for _, p := range of[:identity.Prefixes(&of, addressID(addr), 7)] {
			if p.Bits == bits {
				q.put(&Question{Prefix: p, Until: at.Add(time.Hour), All: all, Window: "1h"})
			}
		}
	}
	ask("2001:db8:1:2::1", 48, false)
	ask("192.0.2.1", 128, true)
	ask("198.51.100.9", 120, false)
	f := func(addr string, group uint32, after time.Duration, established, want bool) {
		t.Helper()
		var x Question
		if got := q.find(&x, addressID(addr), group, at.Add(after).UnixNano(), func(bool, bool) bool { return established }, func(only uint32) bool { return only == 1 }); got != want {
			t.Errorf("%s, group %d, after %v, established %v: %v", addr, group, after, established, got)
		}
	}
	f("2001:db8:1:ffff::1", 7, 0, false, true)
	f("2001:db8:1:ffff::1", 7, 0, true, false)
	f("2001:db8:2:2::1", 7, 0, false, false)
	f("2001:db8:1:ffff::1", 8, 0, false, false)
	f("2001:db8:1:ffff::1", 7, 2*time.Hour, false, false)
	f("192.0.2.1", 7, 0, true, true)
	f("192.0.2.2", 7, 0, false, false)
	f("198.51.100.200", 7, 0, false, true)
	only := Question{Prefix: identity.Prefix{ID: addressID("192.0.2.7"), Bits: 128, Group: 7}, Until: at.Add(time.Hour), Only: 2}
	q.put(&only)
	f("192.0.2.7", 7, 0, false, false)
	only.Only = 1
	q.put(&only)
	f("192.0.2.7", 7, 0, false, true)
	q.Sweep(at.Add(2 * time.Hour).UnixNano())
	if n := q.Len(); n != 0 {
		t.Errorf("%d are left", n)
	}
}

// TestAuthorizationIsNotAsked: a question to all clients of an address is not one to a program with honoured credentials.
func TestAuthorizationIsNotAsked(t *testing.T) {
	w, s := newWorld(t), service(t)
	const addr = "192.0.2.1"
	w.Ask(&Question{
		Prefix: identity.Prefix{ID: ip(addr).ID, Bits: 128, Group: s.Group}, Until: w.now().Add(time.Hour), All: true, Window: "1h",
	})
	for kind, want := range map[identity.Kind]Verdict{identity.KindAuth: Human, identity.KindI: Robot} {
		if d := w.ask(s, addr, sub(kind, 1)); d.Verdict != want {
			t.Errorf("%s: %v for %v, want %v", kind, d.Verdict, d.Cause, want)
		}
	}
}

// TestReturnIsLookedUpOnce: however many networks around an address are asked, whether the visitor has come back is looked up once;
// a question for the young is another matter.
func TestReturnIsLookedUpOnce(t *testing.T) {
	q := newQuestions(10)
	var of [4]identity.Prefix
	for _, p := range of[:identity.Prefixes(&of, addressID("2001:db8::1"), 7)] {
		q.put(&Question{Prefix: p, Until: day0.Add(time.Hour), Young: p.Bits == 32, Window: "1h"})
	}
	for _, want := range []bool{false, true} {
		returns, proven := 0, 0
		var x Question
		asked := q.find(&x, addressID("2001:db8::1"), 7, day0.UnixNano(), func(young, _ bool) bool {
			if !young {
				returns++
				return true
			}
			proven++
			return !want
		}, func(only uint32) bool { return only == 1 })
		if asked != want || returns != 1 || proven != 1 {
			t.Errorf("asked %v, want %v, after %d looks for whether it has come back and %d for whether it has read for longer", asked, want, returns, proven)
		}
	}
}

// TestQuestionsAreBounded: a full table refuses new questions, and counts that.
func TestQuestionsAreBounded(t *testing.T) {
	q := newQuestions(2)
	for i := range byte(5) {
		q.put(&Question{Prefix: identity.Prefix{ID: [16]byte{i}, Bits: 48}, Until: day0})
	}
	if q.Len() != 2 || q.Refused() != 3 {
		t.Errorf("%d kept, %d refused", q.Len(), q.Refused())
	}
}

// TestBudgetAsksForLittle: whose network has read too much is asked for a silent check, unless the service wants a captcha; the verdict is
// the same.
func TestBudgetAsksForLittle(t *testing.T) {
	for step, checks := range map[string]bool{"check": true, "captcha": false} {
		w := newWorld(t)
		s := service(t, func(c *ServiceConfig) { c.Budget = step })
		w.Ask(&Question{Prefix: identity.Prefix{ID: ip("192.0.2.1").ID, Bits: 128, Group: s.Group}, Until: w.now().Add(time.Hour)})
		if d := w.ask(s, "192.0.2.1"); d.Verdict != Robot || d.Cause != CauseBudget || d.Checks() != checks {
			t.Errorf("budget: %s: %v for %v, step %v", step, d.Verdict, d.Cause, d.Step)
		}
		w.ban(ip("192.0.2.2"))
		if d := w.ask(s, "192.0.2.2"); d.Cause != CauseBan || d.Checks() {
			t.Errorf("budget: %s: a ban: %v, step %v", step, d.Cause, d.Step)
		}
	}
	for _, step := range []string{"", "nothing", "digits"} {
		c := DefaultServiceConfig()
		if c.Budget = step; c.Validate() == nil {
			t.Errorf("budget: %q is accepted", step)
		}
	}
}
