package verdict

import (
	"testing"
	"time"

	"antirobot/identity"
	"antirobot/verdict/bans"
)

// TestStrongestIdentityDecides: L=alice with a banned i passes, and a ban on something weaker stops nobody who stands
// for themselves.
func TestStrongestIdentityDecides(t *testing.T) {
	alice, i, fuid, svc := sub(identity.KindL, 1), sub(identity.KindI, 1), sub(identity.KindFuid, 1), sub(identity.KindService, 1)
	const addr = "192.0.2.1"
	f := func(name string, want Verdict, banned []identity.Subject, presented ...identity.Subject) {
		t.Helper()
		w := newWorld(t)
		for day := range 2 { // both are known
			w.grades.Observe(i, ip(addr).ID, day0.Add(time.Duration(day-2)*oneDay), false)
			w.grades.Observe(fuid, ip(addr).ID, day0.Add(time.Duration(day-2)*oneDay), false)
		}
		for _, b := range banned {
			w.ban(b)
		}
		d := w.ask(service(t), addr, presented...)
		if d.Verdict != want {
			t.Errorf("%s: %v for %v, want %v", name, d.Verdict, d.Cause, want)
		}
		if excused := d.Excused.Kind != identity.KindNone; want == Human && (!excused || d.Cause != CauseNone || d.Ban.Reason != "") {
			t.Errorf("%s: nobody is excused: %+v", name, d)
		}
	}
	subs := func(s ...identity.Subject) []identity.Subject { return s }
	f("a login over a banned i", Human, subs(i), alice, i)
	f("a login over all that is weaker", Human, subs(fuid, i, svc, ip(addr)), alice, fuid, i, svc)
	auth := sub(identity.KindAuth, 1)
	f("an honoured Authorization over a banned i and address", Human, subs(i, ip(addr)), auth, i)
	f("a banned Authorization", Robot, subs(auth), auth)
	f("a banned login", Robot, subs(alice), alice, i)
	f("a fuid over a banned i", Human, subs(i), fuid, i)
	f("a banned fuid over an i", Robot, subs(fuid), fuid, i)
	f("an i over a banned service cookie", Human, subs(svc), i, svc)
	f("a service cookie under a banned i", Robot, subs(i), i, svc)
	f("an unknown i, banned, under nothing", Robot, subs(sub(identity.KindI, 9)), sub(identity.KindI, 9))
	f("an unknown fuid shields nobody", Robot, subs(i), sub(identity.KindFuid, 9), i)
}

// TestYesterdayIsEnough: a visitor who read yesterday is not asked today because of a neighbour's robot, although the
// cookie was new then; one who came today is.
func TestYesterdayIsEnough(t *testing.T) {
	i, fuid, addr := sub(identity.KindI, 1), sub(identity.KindFuid, 1), "192.0.2.1"
	f := func(name string, want Verdict, e *Event, later time.Duration, presented ...identity.Subject) {
		t.Helper()
		if presented == nil {
			presented = []identity.Subject{i}
		}
		w := newWorld(t)
		if e != nil {
			w.Observe(e)
		}
		w.ban(ip(addr), func(b *bans.Ban) { b.Until = day0.Add(10 * oneDay) })
		w.clock.advance(later)
		if d := w.ask(service(t), addr, presented...); d.Verdict != want {
			t.Errorf("%s: %v", name, d.Verdict)
		}
	}
	young := page(day0, addr)
	young.Young = i
	stopped := page(day0, addr)
	stopped.Young, stopped.Verdict = i, Robot
	f("a young cookie's page, the day after", Human, young, oneDay+time.Hour)
	f("the cookie's own page, the day after", Human, page(day0, addr, i), oneDay+time.Hour)
	f("the same day", Robot, young, time.Hour)
	f("never seen", Robot, nil, oneDay)
	f("seen as a robot", Robot, stopped, oneDay+time.Hour)
	shown := page(day0, addr)
	shown.Young = fuid
	f("a young fuid's page, the day after", Human, shown, oneDay+time.Hour, fuid)
	f("with a browser cookie that is new", Human, shown, oneDay+time.Hour, fuid, i)
	f("another fuid", Robot, shown, oneDay+time.Hour, sub(identity.KindFuid, 2))
}

// TestYesterdayIsEnoughForANetwork: whoever read yesterday is not asked for what others of its network read; the address may
// read more for it. Whoever came today is asked, and makes no difference.
func TestYesterdayIsEnoughForANetwork(t *testing.T) {
	w := newWorld(t)
	const addr = "192.0.2.1"
	back, fresh := sub(identity.KindI, 1), sub(identity.KindI, 2)
	e := page(day0, addr)
	e.Young = back
	w.Observe(e)
	if e.Subjects[0], e.N, e.Subjects[1] = back, 2, e.Subjects[0]; w.Returns(e) {
		t.Error("on the first day it has come back")
	}
	w.clock.advance(oneDay + time.Hour)
	w.Observe(page(w.now(), addr, fresh))
	s := service(t)
	w.excess(s, addr)
	for who, want := range map[identity.Subject]Verdict{back: Human, fresh: Robot} {
		if d := w.ask(s, addr, who); d.Verdict != want {
			t.Errorf("%v: %v for %v", who, d.Verdict, d.Cause)
		}
		if got := w.Returns(page(w.now(), addr, who)); got != (want == Human) {
			t.Errorf("%v has come back: %v", who, got)
		}
	}
	for n := range 32 + 1 {
		w.Observe(page(w.now(), addr, sub(identity.KindI, 10+n)))
	}
	if w.Returns(page(w.now().Add(oneDay), addr, back)) {
		t.Error("one of a crowd counts")
	}
}

// TestYesterdayIsNoCrowd: cookies created by the dozen the day before still wait for a second day, and make nobody
// established.
func TestYesterdayIsNoCrowd(t *testing.T) {
	w := newWorld(t)
	const addr = "192.0.2.1"
	made := func(n int) identity.Subject { s := sub(identity.KindI, n); s.ID[14] = byte(n >> 8); return s }
	for n := range 500 {
		e := page(day0, addr)
		e.Young = made(n)
		w.Observe(e)
	}
	w.clock.advance(oneDay + time.Hour)
	w.ban(ip(addr))
	for n := range 500 {
		if d := w.ask(service(t), addr, made(n)); d.Verdict != Robot {
			t.Fatalf("cookie %d of the crowd: %v", n, d.Verdict)
		}
		w.Observe(page(w.now(), addr, made(n)))
	}
	if n := w.KnownAt(ip(addr).ID); n != 0 {
		t.Errorf("%d are established by one day of their own", n)
	}
	if n := w.grades.Len(); n > 32*8 {
		t.Errorf("%d candidates of one address", n)
	}
}

// TestSpentPassIsAUser: a visitor with a spent pass is not stopped because its address is banned; in another browser, by a ban on
// the pass itself or on a login, or by an operator's ban it is.
func TestSpentPassIsAUser(t *testing.T) {
	y := newPayer(t, 5, "192.0.2.1")
	for range 5 {
		if d := y.get("192.0.2.1", "/p", "text/html", ""); !d.Paid {
			t.Fatal("the pass does not pay")
		}
	}
	if d := y.get("192.0.2.1", "/p", "text/html", ""); d.Verdict != Robot {
		t.Error("a spent pass passes an operator's ban")
	}
	if _, err := y.Unban(ctx, ip("192.0.2.1"), ""); err != nil {
		t.Fatal(err)
	}
	y.ban(ip("192.0.2.1"), func(b *bans.Ban) { b.Source, b.Score = bans.SourceProcessor, 1 })
	for range 50 {
		if d := y.get("192.0.2.1", "/p", "text/html", ""); d.Verdict != Human || d.Paid || d.Excused.Kind != identity.KindSpravka {
			t.Fatalf("%v for %v: the ban on its address reaches the holder of a pass", d.Verdict, d.Cause)
		}
	}
	if d := y.get("192.0.2.1", "/p", "text/html", "curl/8"); d.Verdict != Robot {
		t.Error("another browser is excused")
	}
	me := identity.Subject{Kind: identity.KindSpravka, ID: y.p.ID}
	y.ban(me)
	if d := y.get("192.0.2.1", "/p", "text/html", ""); d.Verdict != Robot || !d.Own {
		t.Error("a ban on the pass itself does not reach it")
	}
	if _, err := y.Unban(ctx, me, ""); err != nil {
		t.Fatal(err)
	}
	y.ban(sub(identity.KindL, 1))
	v, id := newRequest(y.now(), "192.0.2.1", me, sub(identity.KindL, 1))
	id.Passes[0], id.NPasses = y.p, 1
	var d Decision
	if y.Decide(&d, v, id, y.s); d.Verdict != Robot {
		t.Error("a spent pass excuses a login that is banned")
	}
}

// TestNoLoops: a visitor who answered correctly is not asked again within the minute, with the smallest pass that
// exists, even if the browser changes its address, uses both IPv4 and IPv6, or its parts come first.
func TestNoLoops(t *testing.T) {
	home, phone, six := "192.0.2.1", "198.51.100.1", "2001:db8::1"
	for name, way := range map[string][]string{
		"one address":  {home, home, home, home, home},
		"two stacks":   {home, six, home, six, home},
		"on the phone": {home, phone, phone, phone, phone},
		"on the move":  {phone, home, six, phone, home},
	} {
		y := newPayer(t, 5, home, phone, six)
		for n, addr := range way {
			if d := y.get(addr, "/p", "text/html", ""); d.Verdict != Human {
				t.Errorf("%s: asked again for document %d", name, n+1)
			}
			for range 20 {
				if d := y.get(addr, "/static/x.png", "image/png", ""); d.Verdict != Human && n+1 < len(way) {
					t.Fatalf("%s: asked again for a part of document %d", name, n+1)
				}
			}
			y.clock.advance(10 * time.Second)
		}
	}
}
