package verdict

import (
	"testing"
	"time"

	"antirobot/identity"
)

const oneDay = 24 * time.Hour

// page is the event of a page that a subject received as a human.
func page(at time.Time, addr string, subs ...identity.Subject) *Event {
	e := &Event{At: at, Status: 200}
	for _, s := range append(subs, ip(addr)) {
		e.Subjects[e.N] = s
		e.N++
	}
	return e
}

func TestStandingIsEarned(t *testing.T) {
	i := sub(identity.KindI, 1)
	f := func(name string, want bool, events ...*Event) {
		t.Helper()
		w := newWorld(t)
		for _, e := range events {
			w.Observe(e)
		}
		if got := isKnown(w, i); got != want {
			t.Errorf("%s: established %v", name, got)
		}
	}
	edit := func(e *Event, f func(*Event)) *Event { f(e); return e }
	next := func() *Event { return page(day0.Add(oneDay), "192.0.2.1", i) }
	f("pages on two days", true, page(day0, "192.0.2.1", i), next())
	f("from two addresses", true, page(day0, "192.0.2.9", i), next())
	f("behind a stronger identity", true, page(day0, "192.0.2.1", sub(identity.KindFuid, 1), i), next())
	f("one day", false, page(day0, "192.0.2.1", i), page(day0.Add(time.Hour), "192.0.2.1", i))
	f("the day before", false, next(), page(day0, "192.0.2.1", i))
	f("as a robot", false, edit(page(day0, "192.0.2.1", i), func(e *Event) { e.Verdict = Robot }), next())
	f("paid by a pass", false, edit(page(day0, "192.0.2.1", i), func(e *Event) { e.Paid, e.Cause = true, CauseBan }), next())
	f("an error", false, edit(page(day0, "192.0.2.1", i), func(e *Event) { e.Status = 404 }), next())
	f("a static file", false, edit(page(day0, "192.0.2.1", i), func(e *Event) { e.Static = true }), next())
	advised := func(at time.Time) *Event {
		return edit(page(at, "192.0.2.1", i), func(e *Event) { e.Advised, e.Page, e.Method, e.Status = true, true, 'G', 0 })
	}
	f("pages that a balancer gave", true, advised(day0), advised(day0.Add(oneDay)))
	f("one of them", true, advised(day0), next())
	f("a balancer's, but no navigation", false, edit(advised(day0), func(e *Event) { e.Page = false }), next())
	f("a balancer's form", false, edit(advised(day0), func(e *Event) { e.Method = 'P' }), next())
	f("a balancer's static file", false, edit(advised(day0), func(e *Event) { e.Static = true }), next())
	f("a balancer's robot", false, edit(advised(day0), func(e *Event) { e.Verdict = Robot }), next())
	f("the client left first", false, edit(page(day0, "192.0.2.1", i), func(e *Event) { e.Status, e.Page = 0, true }), next())
	f("a captcha shown", false, edit(page(day0, "192.0.2.1", i), func(e *Event) { e.Kind = EventShown }), next())
}

func TestStandingSurvivesARestart(t *testing.T) {
	c := newClock()
	st := newStore(false, c.now)
	w := newWorldOver(t, st, c).start()
	known, candidate, gone := sub(identity.KindI, 1), sub(identity.KindI, 2), sub(identity.KindI, 3)
	for _, s := range []identity.Subject{known, candidate, gone} {
		w.Observe(page(c.now(), "192.0.2.1", s))
	}
	c.advance(oneDay)
	w.Observe(page(c.now(), "192.0.2.1", known))
	w.Observe(page(c.now(), "192.0.2.1", gone))
	w.ban(gone)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	w = newWorldOver(t, st, c).start()
	defer w.Close()
	if !isKnown(w, known) || isKnown(w, candidate) || isKnown(w, gone) {
		t.Error("not as before")
	}
	if n := w.KnownAt(ip("192.0.2.1").ID); n != 1 {
		t.Errorf("%d counted at the address", n)
	}
	w.Observe(page(c.now(), "192.0.2.1", candidate))
	if !isKnown(w, candidate) {
		t.Error("the first day was forgotten")
	}
	c.advance(31 * oneDay)
	w.grades.Sweep(c.now())
	if isKnown(w, known) || w.KnownAt(ip("192.0.2.1").ID) != 0 {
		t.Error("not forgotten after 31 days")
	}
}

// TestNobodyComesBackWhereNothingIsShared: where strangers share nothing of what they read, to have been seen once says nothing; who is
// established, and people at other addresses, are as before.
func TestNobodyComesBackWhereNothingIsShared(t *testing.T) {
	c := newClock()
	w := newWorldOver(t, newStore(false, c.now), c)
	defer w.Close()
	known, once, elsewhere := page(c.now(), "192.0.2.1", sub(identity.KindI, 1)), page(c.now(), "192.0.2.1", sub(identity.KindI, 2)), page(c.now(), "192.0.2.2", sub(identity.KindI, 3))
	for _, e := range []*Event{known, once, elsewhere} {
		w.Observe(e)
	}
	c.advance(oneDay)
	for _, e := range []*Event{known, once, elsewhere} {
		e.At = c.now()
	}
	w.Observe(known)
	f := func(what string, want bool) {
		t.Helper()
		if got := w.Returns(once); got != want || !w.Returns(known) || !w.Returns(elsewhere) {
			t.Errorf("%s: seen once: %v, established: %v, elsewhere: %v", what, got, w.Returns(known), w.Returns(elsewhere))
		}
	}
	f("on the next day", true)
}
