package processor

import (
	"net/netip"
	"testing"
	"time"

	"antirobot/identity"
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
	if got := p.Bareness("another", netip.MustParseAddr("192.0.2.1")); got != 0 {
		t.Errorf("at a service that does not exist: %v", got)
	}
}
