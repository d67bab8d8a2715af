package processor

import (
	"math"
	"net/netip"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"antirobot/identity"
	"antirobot/verdict"
	"antirobot/verdict/formula"
)

// TestBareness: who reads without the parts that the site's people load is told apart from who loads them, also when a pass
// has paid, and when each page comes from another address of a network.
func TestBareness(t *testing.T) {
	p, _ := newAsker(t, nil)
	at := time.Unix(1.8e9, 0)
	r := p.service(reading(at, 0, one(0)).Service)
	read := func(a string, n, parts int, paid bool) {
		e := reading(at, n, identity.AddrSubject(netip.MustParseAddr(a)).ID)
		e.Paid = paid
		p.Process(e)
		for i := range parts {
			part := picture(reading(at, 1000*n+i, e.Subjects[0].ID))
			part.Paid = paid
			p.Process(part)
		}
		at = at.Add(time.Second)
	}
	like := func(a string) float64 { return p.Bareness(r.Name, netip.MustParseAddr(a)) }
	read("203.0.113.1", 1, 0, false)
	read("203.0.113.1", 2, 0, false)
	if got := like("203.0.113.1"); got != 0 {
		t.Errorf("nobody knows how many parts pages have: %v", got)
	}
	banned := reading(at, 3, identity.AddrSubject(netip.MustParseAddr("192.0.4.1")).ID)
	p.Process(banned)
	p.misbehaved(banned)
	if got := like("192.0.4.1"); got != 0.5 {
		t.Errorf("nobody knows how many parts pages have, but it was banned: %v", got)
	}
	for i := range uint64(20) {
		r.people.vote(vote{network: i*2 + 1, at: at.Unix(), established: true, value: 5})
	}
	for n := range 20 {
		read("198.51.100.1", 100+n, 4, n > 10)
		read("192.0.2.1", 200+n, 0, n > 3)
		read(netip.AddrFrom16([16]byte{0x2a, 5, 0xd0, 0x14, byte(n), 6: byte(n), 15: 1}).String(), 300+n, 0, n > 3)
	}
	for a, most := range map[string][2]float64{
		"198.51.100.1": {0, 0}, "198.51.100.77": {0, 0}, "203.0.113.1": {0.9, 1}, "192.0.2.1": {1, 1}, "192.0.2.9": {1, 1},
		"2a05:d014:ffff::1": {1, 1}, "2a05:d015::1": {0, 0},
	} {
		if got := like(a); got < most[0] || got > most[1] {
			t.Errorf("%s: %v, not in %v", a, got, most)
		}
	}
	e := reading(at, 400, identity.AddrSubject(netip.MustParseAddr("192.0.3.1")).ID)
	e.Cause, e.Verdict = verdict.CauseCampaign, verdict.Unsure
	p.Process(e)
	if got := like("192.0.3.1"); got < 0.5 {
		t.Errorf("it arrived as nearly only robots do: %v", got)
	}
	if got := p.Bareness("another", netip.MustParseAddr("192.0.2.1")); got != 0 {
		t.Errorf("at a service that does not exist: %v", got)
	}
}

// TestGatewaysAreToldHowBarelyNetworksRead: from the first captcha on that is shown there, whenever it has changed, and at each further one.
func TestGatewaysAreToldHowBarelyNetworksRead(t *testing.T) {
	p, a := newAsker(t, nil)
	at := time.Unix(1.8e9, 0)
	addr := netip.MustParseAddr("192.0.2.1")
	id := identity.AddrSubject(addr).ID
	r := p.service(reading(at, 0, id).Service)
	for i := range uint64(20) {
		r.people.vote(vote{network: i*2 + 1, at: at.Unix(), established: true, value: 5})
	}
	do := func(n int, change func(e *verdict.Event)) {
		at = at.Add(10 * time.Second)
		e := reading(at, n, id)
		change(e)
		p.Process(e)
	}
	shown := func(e *verdict.Event) { e.Kind = verdict.EventShown }
	f := func(name string, news bool) {
		t.Helper()
		if (len(a.barely) > 0) != news {
			t.Errorf("%s: told %v", name, a.barely)
		}
		want := float32(p.Bareness(r.Name, addr))
		for x, share := range a.barely {
			if x.Group != r.Group || math.Abs(float64(share-want)) > 0.01 {
				t.Errorf("%s: told %v of %v, want %v", name, share, x, want)
			}
		}
		clear(a.barely)
	}
	for n := range 10 {
		do(n, func(*verdict.Event) {})
	}
	f("nobody was asked", false)
	do(0, shown)
	f("a captcha", true)
	do(10, func(*verdict.Event) {})
	f("a page more", false)
	do(0, shown)
	f("another captcha", true)
	for n := range 40 {
		do(1000+n, func(e *verdict.Event) { picture(e) })
	}
	if clear(a.barely); p.Bareness(r.Name, addr) > 0.5 {
		t.Fatalf("parts were loaded: still %v", p.Bareness(r.Name, addr))
	}
	do(0, shown)
	do(11, func(*verdict.Event) {})
	for n := range 30 {
		do(2000+n, func(*verdict.Event) {})
	}
	f("many pages more", true)
}

// TestBanOnAPassIsOnItsAddress: whoever is banned with one pass after another is banned at its address for ever longer; where
// others read, it is that client alone. A ban on a login stays with the login.
func TestBanOnAPassIsOnItsAddress(t *testing.T) {
	m, err := formula.Load([]byte("version: t\nbias: 2\nfactors: []\n"), FactorNames())
	if err != nil {
		t.Fatal(err)
	}
	f := func(colleagues int, kind identity.Kind, client uint32, lengths ...time.Duration) {
		t.Helper()
		o := newOffice(t)
		for n := range colleagues {
			o.reads(uint32(10+n%20), 4)
		}
		o.p.formula = live(t, m, metrics.NewSet())
		for n := range byte(3) {
			for range 2 {
				o.at = o.at.Add(time.Minute)
				e := event(o.at, 0, identity.Subject{Kind: kind, ID: [16]byte{1, n}})
				e.Subjects[1].ID, e.Client = one(0), 7
				o.p.Process(e)
			}
			o.at = o.at.Add(time.Hour)
		}
		passes := 0
		for _, b := range o.a.bans {
			switch {
			case b.Subject.Kind == kind:
				passes++
			case len(lengths) == 0 || b.Until.Sub(b.Made) != lengths[0] || b.Only != client || b.Subject.ID != one(0):
				t.Errorf("%d colleagues, %v: %+v", colleagues, kind, b)
			default:
				lengths = lengths[1:]
			}
		}
		if passes != 3 || len(lengths) > 0 {
			t.Errorf("%d colleagues, %v: %d bans on it, on the address none for %v", colleagues, kind, passes, lengths)
		}
	}
	f(0, identity.KindSpravka, 0, 10*time.Minute, 20*time.Minute, 40*time.Minute)
	f(300, identity.KindSpravka, 7, 10*time.Minute, 20*time.Minute, 40*time.Minute)
	f(0, identity.KindL, 0)
}

// TestEachBanSaysMore: one ban says of half of what is read there at most that it is a robot's, the next ones of more, and none
// of more than some documents each.
func TestEachBanSaysMore(t *testing.T) {
	for _, x := range []struct{ judged, docs, least, most float32 }{{0, 100, 0, 0}, {1, 10, 0.5, 0.5}, {1, 300, 0.09, 0.11}, {3, 10, 0.87, 0.88}, {3, 900, 0.09, 0.11}} {
		b := budget{judged: x.judged, docs: x.docs}
		if got := float32(b.robots()); got < x.least || got > x.most {
			t.Errorf("%v bans among %v documents: %v", x.judged, x.docs, got)
		}
	}
}
