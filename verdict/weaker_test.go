package verdict

import (
	"testing"

	"antirobot/identity"
	"antirobot/verdict/bans"
)

// TestBansOnWeakerAreFactors: bans on identities that are weaker than the one that decides, and on its address, stop nobody who
// stands alone; the slow half is told of each. A ban on what decides, and one on an address that shows nothing else, is
// none of these.
func TestBansOnWeakerAreFactors(t *testing.T) {
	w := newWorld(t)
	s := service(t)
	const addr, banned = "192.0.2.1", "192.0.2.2"
	login, cookie, bad := sub(identity.KindL, 1), sub(identity.KindI, 2), sub(identity.KindI, 3)
	judged := func(b *bans.Ban) { b.Source, b.Score = bans.SourceProcessor, 1 }
	w.ban(bad, judged)
	w.ban(ip(banned), judged)
	f := func(addr string, want Verdict, weak, on bool, who ...identity.Subject) {
		t.Helper()
		v, id := newRequest(w.now(), addr, who...)
		d := &Decision{}
		w.Decide(d, v, id, s)
		var e Event
		d.Event(&e, v, id, s)
		if d.Verdict != want || e.WeakBan != weak || e.OnBanned != on {
			t.Errorf("%v at %s: %v, a weaker ban %t, its address %t; want %v, %t, %t", who, addr, d.Verdict, e.WeakBan, e.OnBanned, want, weak, on)
		}
	}
	f(addr, Human, false, false, login, cookie)
	f(addr, Human, true, false, login, bad)
	f(banned, Human, true, true, login, bad)
	f(banned, Human, false, true, login)
	f(banned, Robot, false, true, cookie)
	f(banned, Robot, false, false)
	f(addr, Robot, false, false, bad)
}
