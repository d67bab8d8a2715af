package upstream

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func addrs(s ...string) (out []netip.Addr) {
	for _, a := range s {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}

func TestResolverKeepsRefreshesAndFallsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		answer, fail := addrs("192.0.2.1"), error(nil)
		r := &resolver{lookupIP: func(context.Context, string, string) ([]netip.Addr, error) {
			asked.Add(1)
			time.Sleep(time.Millisecond)
			return answer, fail
		}}
		look := func() netip.Addr {
			ips, err := r.lookup(t.Context(), "app.example", 5*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			return ips[0]
		}
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() { look() })
		}
		wg.Wait()
		if asked.Load() != 1 {
			t.Fatalf("%d look-ups for one name at once", asked.Load())
		}
		answer = addrs("192.0.2.2")
		if look().String() != "192.0.2.1" {
			t.Fatal("not kept")
		}
		time.Sleep(6 * time.Second)
		if look().String() != "192.0.2.2" {
			t.Fatal("not refreshed")
		}
		time.Sleep(6 * time.Second)
		answer, fail = nil, errors.New("no such host")
		if look().String() != "192.0.2.2" {
			t.Fatal("the last known addresses must do while the name can't be resolved")
		}
		r2 := &resolver{lookupIP: r.lookupIP}
		if _, err := r2.lookup(t.Context(), "x", time.Second); err == nil {
			t.Fatal("no address and no error")
		}
	})
}

func TestResolverTurnsWithinTheFirstFamily(t *testing.T) {
	r := &resolver{lookupIP: func(context.Context, string, string) ([]netip.Addr, error) {
		return addrs("2001:db8::1", "2001:db8::2", "192.0.2.1"), nil
	}}
	seen := map[string]int{}
	for range 10 {
		ips, err := r.lookup(t.Context(), "app", time.Hour)
		if err != nil || len(ips) != 3 || ips[2].String() != "192.0.2.1" {
			t.Fatal(ips, err)
		}
		seen[ips[0].String()]++
	}
	if seen["2001:db8::1"] != 5 || seen["2001:db8::2"] != 5 {
		t.Fatal(seen)
	}
	if ips, err := (&resolver{}).lookup(t.Context(), "::1", 0); err != nil || ips[0].String() != "::1" {
		t.Fatal(ips, err)
	}
}

func TestNextAddressOfOneName(t *testing.T) {
	s := serve(t, listen(t), echoLines)
	_, port, _ := splitPort(s.Addr().String())
	g := group(t, nil, "http://app.example:"+port)
	g.addrs[0].names.lookupIP = func(context.Context, string, string) ([]netip.Addr, error) {
		return addrs("127.0.0.9", "127.0.0.8", "127.0.0.1"), nil // nobody listens at the first two
	}
	for range 6 {
		c, err := g.Get(t.Context(), true)
		if err != nil {
			t.Fatal(err)
		}
		ask(t, c, "found")
		c.Discard(nil)
	}
}
