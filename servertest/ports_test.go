package servertest

import (
	"net"
	"testing"
)

// TestPortsAreFree: all are given out, again and again, but for those on which, or above which, somebody listens.
func TestPortsAreFree(t *testing.T) {
	const n, above = 20, 40
	p := NewPorts(32700, n)
	seen := map[int]int{}
	for range 3 * n {
		seen[p.Next(t, above)]++
	}
	for port := range seen {
		if port < 32700 || port >= 32700+n {
			t.Errorf("%d is none of them", port)
		}
	}
	taken, over := p.Next(t, above), p.Next(t, above)
	for _, port := range []int{taken, over + above} {
		l, err := net.Listen("tcp", addr(port))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
	}
	for range 2 * n {
		if port := p.Next(t, above); port == taken || port == over {
			t.Fatalf("%d is given while somebody listens", port)
		}
	}
	if len(seen) < n/2 {
		t.Errorf("only %d of %d were given", len(seen), n)
	}
}
