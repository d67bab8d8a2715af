package cbb

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestProvisionalPassesAreBoundedInAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dns := zone()
		dns.set(nil, time.Hour)
		l := crawling(t, dns, func(b *bounds) { b.lookupsPerSecond = 1000 })
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
		l := crawling(t, dns, func(b *bounds) { b.lookupsPerSecond = 10 })
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
		l := crawling(t, dns, nil, func(c *Config) { c.Block = []string{"66.249.66.1"} })
		defer closeLists(t, l)
		come(l, "66.249.66.1", googleUA)
		time.Sleep(time.Second)
		if n := dns.questions(); n != 0 {
			t.Errorf("%d questions", n)
		}
	})
}
