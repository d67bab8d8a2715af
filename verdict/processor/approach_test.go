package processor

import (
	"sync"
	"testing"
	"time"

	"antirobot/identity"
)

// TestApproachRaces: what is approached may be moved, evicted and made at the same time, by others; a record is found as before.
func TestApproachRaces(t *testing.T) {
	s := newSeed()
	table := newTable[identity.Subject, int](2*cached, s.subject)
	table.live.Store(cached) // as if it were large from the first on
	key := func(i int) identity.Subject {
		return identity.Subject{Kind: identity.KindI, ID: [16]byte{byte(i), byte(i >> 8), byte(i >> 16), 1}}
	}
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for i := range 3 * cached {
				k := key(i*4 + w)
				x := table.approach(k)
				x.fetch()
				sh, h := table.lock(k)
				r, fresh := table.open(sh, h, k)
				if !fresh || *r != 0 {
					t.Errorf("the record of %d is another's", i)
				}
				*r = i + 1
				sh.mu.Unlock()
			}
		})
	}
	all.Go(func() {
		for range 20 {
			table.sweep(func(_ identity.Subject, r *int) bool { return *r%7 == 1 })
		}
	})
	all.Wait()
	if table.evicted.Load() == 0 {
		t.Error("none was evicted")
	}
}

// TestApproachChangesNothing: a large table is judged by as a small one is; fetching is no use of a record.
func TestApproachChangesNothing(t *testing.T) {
	p, _ := newProcessor(t, nil)
	at := time.Unix(1e9, 0)
	p.Process(event(at, 1, cookie(1)))
	before := *p.sessions.shards[p.sessions.hash(cookie(1))%tableShards].at(0)
	p.sessions.live.Add(cached)
	p.approach(event(at, 1, cookie(1)), p.service(0))
	p.approach(event(at, 2), p.service(0))
	if after := *p.sessions.shards[p.sessions.hash(cookie(1))%tableShards].at(0); after != before {
		t.Errorf("%+v, was %+v", after, before)
	}
	if p.sessions.live.Load() != cached+1 {
		t.Error("there are other records")
	}
}
