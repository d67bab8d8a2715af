package cbb

import (
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

func TestProvisionalPassesAreBoundedInAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dns := zone()
		dns.set(nil, time.Hour)
		l := crawling(t, dns, func(c *Config) { c.Crawlers.DNS.LookupsPerSecond = 1000 })
		defer closeLists(t, l)
		n := 0
		for i := range 500 {
			if come(l, fmt.Sprintf("10.0.%d.%d", i/250, i%250), googleUA) == "maybe" {
				n++
			}
		}
		if n != 20 {
			t.Errorf("%d of 500 pretenders pass in one second, want 20", n)
		}
		n = 0
		for i := range 500 { // one /64 is one client
			time.Sleep(time.Second)
			if come(l, fmt.Sprintf("2001:db8::%x", i+1), googleUA) == "maybe" {
				n++
			}
		}
		if n > 5 {
			t.Errorf("%d of 500 addresses of one /64 pass", n)
		}
		// A resolver that hangs causes no more work than there are workers and queue slots.
		if st := l.Stats().Crawlers; st.Pending > 1024+8 {
			t.Errorf("%+v", st)
		}
	})
}

func TestLookupsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dns := zone()
		l := crawling(t, dns, func(c *Config) { c.Crawlers.DNS.LookupsPerSecond = 10 })
		defer closeLists(t, l)
		for i := range 200 {
			come(l, fmt.Sprintf("10.0.0.%d", i), googleUA)
		}
		time.Sleep(500 * time.Millisecond)
		if n := dns.questions(); n != 10 {
			t.Errorf("%d questions in a second, want 10", n)
		}
		if st := l.Stats().Crawlers; st.Shed != 190 {
			t.Errorf("%+v", st)
		}
	})
}

func TestBlockedAddressCostsNoLookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dns := zone()
		l := crawling(t, dns, func(c *Config) { c.Block = []string{"66.249.66.1"} })
		defer closeLists(t, l)
		come(l, "66.249.66.1", googleUA)
		time.Sleep(time.Second)
		if n := dns.questions(); n != 0 {
			t.Errorf("%d questions", n)
		}
	})
}

func TestBucket(t *testing.T) {
	b := bucket{rate: 3}
	at := time.Unix(1000, 0)
	take := func() (n int) {
		for range 10 {
			if b.take(at) {
				n++
			}
		}
		return n
	}
	f := func(d time.Duration, want int) {
		t.Helper()
		at = at.Add(d)
		if got := take(); got != want {
			t.Errorf("after %v: %d, want %d", d, got, want)
		}
	}
	f(0, 3)
	f(0, 0)
	f(time.Second/3+1, 1)
	f(time.Hour, 3)
	f(-time.Hour, 0) // a clock that goes back yields nothing
}

func TestNetwork64(t *testing.T) {
	if got := network64(netip.MustParseAddr("2001:db8:1:2:3::4")); got != netip.MustParseAddr("2001:db8:1:2::") {
		t.Error(got)
	}
}
