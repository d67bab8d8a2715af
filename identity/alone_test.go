//go:build !race

// One goroutine works here, in which the race detector finds nothing, and takes long.

package identity

import (
	"testing"
	"time"
)

// TestCacheKeepsWhoIsThere: passes that are presented once do not evict one that is presented again and again.
func TestCacheKeepsWhoIsThere(t *testing.T) {
	b, s := newBench(t, nil, func(d *Deps) { d.TokenCache = 512 << 10 }), newService(t, nil)
	regular := b.pass(start, nil)
	var id Identity
	opened := func(at time.Time, cookie string) bool {
		before := b.cache.MissCount()
		b.Resolve(&id, page(at, "203.0.113.7", cookie), s)
		return b.cache.MissCount() > before
	}
	lost := 0
	for n := range 10_000 {
		at := start.Add(time.Duration(n) * time.Second)
		opened(at, b.pass(start, nil))
		if opened(at, regular) {
			lost++
		}
	}
	if b.cache.EvacuateCount() < 5000 {
		t.Fatalf("only %d were pushed out: the flood is none", b.cache.EvacuateCount())
	}
	if lost > 1 { // the first time
		t.Errorf("the regular was pushed out %d times", lost)
	}
}
