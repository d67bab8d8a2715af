package identity

import (
	"net/netip"
	"strings"
	"testing"

	"antirobot/spravka"
)

// TestPassOfAnotherBrowser: a pass that is bound to a browser's key is nobody where that browser has not proved
// itself, and is only kept for the proof; where it has, it is a pass like any other.
func TestPassOfAnotherBrowser(t *testing.T) {
	b, s := newBench(t, nil), newService(t, nil)
	net := func(a string) uint64 { return NetKey(NetOf(netip.MustParseAddr(a))) }
	cookie := b.pass(start, func(p *spravka.Pass) {
		p.Net, p.Key, p.Places[0] = net("203.0.113.7"), spravka.NewID(), net("198.51.100.1")
	})
	for range 2 {
		for addr, want := range map[string]string{
			"203.0.113.99": "spravka ip", "198.51.100.99": "spravka ip", "192.0.2.1": "ip -spravka:away", "2001:db8::1": "ip -spravka:away",
		} {
			var id Identity
			b.Resolve(&id, page(start, addr, cookie), s)
			if got := told(&id); got != want || id.Away.Keyed() != strings.Contains(want, "away") ||
				id.NPasses != id.N-1 {
				t.Errorf("%s: %s, %d passes, away %v", addr, got, id.NPasses, id.Away.Keyed())
			}
			b.Resolve(&id, page(start, addr, ""), s)
			if id.Away.Keyed() {
				t.Error("the pass is kept for the next request")
			}
		}
	}
}
