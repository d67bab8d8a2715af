package ledger

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"antirobot/spravka"
	"antirobot/store"
)

var ctx = context.Background()

// clock is a time that tests set.
type clock struct{ ns atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.ns.Store(time.Date(2026, 3, 4, 10, 0, 0, 0, time.UTC).UnixNano())
	return c
}

func (c *clock) now() time.Time          { return time.Unix(0, c.ns.Load()) }
func (c *clock) advance(d time.Duration) { c.ns.Add(int64(d)) }

// sharedStore is a store that several nodes use.
type sharedStore struct{ *store.Memory }

func (sharedStore) Shared() bool { return true }

func shared(c *clock) sharedStore { return sharedStore{store.NewMemory(c.now)} }

// over makes the ledger of a node.
func over(st store.Store, c *clock) *Ledger {
	return New(Options{Store: st, Tariff: Tariff{Parts: 128, Calls: 16, Browser: 10, Move: 4}, Most: 1 << 20, Now: c.now})
}

func pass(c *clock, n int, allowance uint32) spravka.Pass {
	return spravka.Pass{
		ID: [16]byte{byte(n), 15: 1}, Earned: true, Allowance: allowance,
		Born: c.now().Unix(), Expires: c.now().Add(30 * 24 * time.Hour).Unix(),
	}
}

func spend(l *Ledger, p *spravka.Pass, c *clock) Payment {
	got, _ := l.Settle(p, &Bill{Cost: 1}, c.now(), Open, true)
	return got
}

// TestLeases simulates nodes over one store: no pass is overspent, and what all nodes were granted never exceeds the limit.
func TestLeases(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		nodes := rapid.IntRange(1, 4).Draw(rt, "nodes")
		limit := uint32(rapid.IntRange(1, 300).Draw(rt, "limit"))
		burst := rapid.IntRange(1, 40).Draw(rt, "burst")
		clock := newClock()
		st := shared(clock)
		var ledgers []*Ledger
		for range nodes {
			ledgers = append(ledgers, over(st, clock))
		}
		p := pass(clock, 1, limit)
		ledgers[0].Issued(&p, clock.now())
		paid := uint32(0)
		for range 1000 {
			l := ledgers[rapid.IntRange(0, nodes-1).Draw(rt, "node")]
			for range burst {
				if spend(l, &p, clock).OK {
					paid++
				}
			}
			if rapid.Bool().Draw(rt, "refill") {
				if err := l.behind.Flush(ctx); err != nil {
					rt.Fatal(err)
				}
			}
			if rapid.IntRange(0, 9).Draw(rt, "idle") == 0 {
				clock.advance(leaseIdle)
				if err := l.GiveBack(ctx, false); err != nil {
					rt.Fatal(err)
				}
			}
		}
		if paid > limit {
			rt.Fatalf("%d paid of %d by %d nodes", paid, limit, nodes)
		}
		if taken, _ := st.Incr(ctx, spentKey(p.ID), 0, time.Hour); taken > int64(limit) {
			rt.Fatalf("%d leased of %d", taken, limit)
		}
	})
}

// TestPaymentsAtTwoNodesAreExact: of 500 requests at once at two nodes, a pass of 100 pays for exactly 100.
func TestPaymentsAtTwoNodesAreExact(t *testing.T) {
	clock := newClock()
	st := shared(clock)
	nodes := [2]*Ledger{over(st, clock), over(st, clock)}
	p := pass(clock, 1, 100)
	nodes[0].Issued(&p, clock.now())
	var paid atomic.Int64
	var wg sync.WaitGroup
	for n := range 500 {
		wg.Go(func() {
			if spend(nodes[n%2], &p, clock).OK {
				paid.Add(1)
			}
		})
	}
	wg.Wait()
	if n := paid.Load(); n != 100 {
		t.Errorf("a pass of 100 paid for %d", n)
	}
}

// TestLeaseIsThereInTime: with one node, and a store that answers between requests, the allowance is exact and can be
// spent in full, with no captcha in between.
func TestLeaseIsThereInTime(t *testing.T) {
	clock := newClock()
	l := over(shared(clock), clock)
	p := pass(clock, 1, 100)
	l.Issued(&p, clock.now())
	for i := range 101 {
		if err := l.behind.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		if got := spend(l, &p, clock).OK; got != (i < 100) {
			t.Fatalf("request %d: paid %v", i+1, got)
		}
		if a, _ := l.load(p.ID); a.debt() > 0 {
			t.Fatalf("request %d: in debt, so the lease was not asked for ahead of need", i+1)
		}
	}
}

// BenchmarkWriteBehind measures how many spent counts per second reach a store that answers at once.
func BenchmarkWriteBehind(b *testing.B) {
	clock := newClock()
	l := over(store.NewMemory(clock.now), clock)
	var passes []spravka.Pass
	for n := range 1000 {
		p := pass(clock, n, 1<<31)
		p.ID[14] = byte(n >> 8)
		passes = append(passes, p)
	}
	b.ReportAllocs()
	for i := range b.N {
		spend(l, &passes[i%1000], clock)
		if i%1000 == 999 {
			if err := l.behind.Flush(ctx); err != nil {
				b.Fatal(err)
			}
		}
	}
}
