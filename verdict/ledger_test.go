package verdict

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"antirobot/spravka"
	"antirobot/verdict/bans"
)

// TestAllowanceIsExact: many payments at once take the configured number and not one more.
func TestAllowanceIsExact(t *testing.T) {
	w := newWorld(t).start()
	defer w.Close()
	s := service(t)
	w.ban(ip("192.0.2.1"))
	p := pass(w.now(), 1, 100, "192.0.2.1")
	var paid atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 50 {
				if w.askWith(s, &p, "192.0.2.1").Paid {
					paid.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if n := paid.Load(); n != 100 {
		t.Errorf("%d requests paid, want 100", n)
	}
}

// TestPitfall3AllowanceOverRestarts: what was spent stays spent, after a clean shutdown and after a kill.
func TestPitfall3AllowanceOverRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore(false, nil)
		p := pass(time.Now(), 1, 100, "192.0.2.1")
		spend := func(w *world, most int) (n int) {
			for range most {
				if w.ledger.Spend(&p, 1, time.Now(), Open).OK {
					n++
				}
			}
			return n
		}
		total := 0
		w := newWorldOver(t, st, nil).start()
		total += spend(w, 30)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		w = newWorldOver(t, st, nil).start()
		total += spend(w, 30)
		synctest.Wait() // the writes behind are done: the window has closed
		w.cancel()      // killed: nothing is flushed
		w.wg.Wait()
		w = newWorldOver(t, st, nil).start()
		defer w.Close()
		if total += spend(w, 100); total != 100 {
			t.Errorf("%d requests paid over two restarts, want 100", total)
		}
	})
}

func TestLedgerFullGivesNothing(t *testing.T) {
	w := newWorld(t, func(o *options) { o.Config.MaxPasses = 2 })
	for n := range 3 {
		p := pass(w.now(), n, 10, "192.0.2.1")
		got := w.ledger.Spend(&p, 1, w.now(), Open)
		if want := n < 2; got.OK != want || got.Degraded == want {
			t.Errorf("pass %d: %+v", n, got)
		}
	}
	w.ledger.Sweep(w.now().Add(31 * 24 * time.Hour))
	if n := w.ledger.n.Load(); n != 0 {
		t.Errorf("%d expired passes are kept", n)
	}
}

func TestStoreFailurePolicy(t *testing.T) {
	for _, shared := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			st := newStore(shared, nil)
			w := newWorldOver(t, st, nil).start()
			defer w.Close()
			p := pass(time.Now(), 1, 80, "192.0.2.1")
			w.ledger.Issued(&p, w.now())
			synctest.Wait()
			st.down.Store(true)
			for range 20 {
				w.ledger.Spend(&p, 1, time.Now(), Open)
			}
			time.Sleep(time.Second)
			if got := w.ledger.Spend(&p, 1, time.Now(), Closed); got.OK || !got.Degraded {
				t.Errorf("shared %v, closed: %+v", shared, got)
			}
			n := 0
			for range 200 {
				got := w.ledger.Spend(&p, 1, time.Now(), Open)
				if !got.Degraded {
					t.Fatal("not degraded")
				}
				if got.OK {
					n++
				}
			}
			if n != 60 {
				t.Errorf("shared %v, open: %d more paid, want 60", shared, n)
			}
			st.down.Store(false)
			time.Sleep(2 * time.Second)
			if got := w.ledger.Spend(&p, 1, time.Now(), Closed); got.OK || got.Degraded {
				t.Errorf("shared %v, after the failure: %+v", shared, got)
			}
		})
	}
}

// TestLeases simulates nodes over one store: no pass is overspent, and what all nodes were granted never exceeds the limit.
func TestLeases(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		nodes := rapid.IntRange(1, 4).Draw(rt, "nodes")
		limit := uint32(rapid.IntRange(1, 300).Draw(rt, "limit"))
		burst := rapid.IntRange(1, 40).Draw(rt, "burst")
		clock := newClock()
		st := newStore(true, clock.now)
		var ledgers []*ledger
		for range nodes {
			ledgers = append(ledgers, newLedger(st, 10, clock.now))
		}
		p := pass(clock.now(), 1, limit, "192.0.2.1")
		ledgers[0].Issued(&p, clock.now())
		paid := uint32(0)
		for range 1000 {
			l := ledgers[rapid.IntRange(0, nodes-1).Draw(rt, "node")]
			for range burst {
				if l.Spend(&p, 1, clock.now(), Open).OK {
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
	st := newStore(true, clock.now)
	nodes := [2]*ledger{newLedger(st, 10, clock.now), newLedger(st, 10, clock.now)}
	p := pass(clock.now(), 1, 100, "192.0.2.1")
	nodes[0].Issued(&p, clock.now())
	var paid atomic.Int64
	var wg sync.WaitGroup
	for n := range 500 {
		wg.Go(func() {
			if nodes[n%2].Spend(&p, 1, clock.now(), Open).OK {
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
	l := newLedger(newStore(true, clock.now), 10, clock.now)
	p := pass(clock.now(), 1, 100, "192.0.2.1")
	l.Issued(&p, clock.now())
	for i := range 101 {
		if err := l.behind.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		if got := l.Spend(&p, 1, clock.now(), Open).OK; got != (i < 100) {
			t.Fatalf("request %d: paid %v", i+1, got)
		}
		if a, _ := l.load(p.ID); a.debt() > 0 {
			t.Fatalf("request %d: in debt, so the lease was not asked for ahead of need", i+1)
		}
	}
}

// TestLeaseIsGivenBack: an idle one soon, the rest when the node stops; so a visitor who moved to another node has all
// of it.
func TestLeaseIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore(true, nil)
		a, b := newWorldOver(t, st, nil).start(), newWorldOver(t, st, nil).start()
		p := pass(time.Now(), 1, 80, "192.0.2.1")
		a.ledger.Issued(&p, a.now())
		synctest.Wait()
		if n, _ := st.Incr(ctx, spentKey(p.ID), 0, time.Hour); n != 10 {
			t.Errorf("%d leased at issue, want 10", n)
		}
		a.ledger.Spend(&p, 1, time.Now(), Open)
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		if n, _ := st.Incr(ctx, spentKey(p.ID), 0, time.Hour); n != 1 {
			t.Errorf("%d spent after the node ended, want 1", n)
		}
		n := 0
		for range 200 {
			if b.ledger.Spend(&p, 1, time.Now(), Open).OK {
				n++
			}
			synctest.Wait()
		}
		if n != 79 {
			t.Errorf("the other node paid %d, want 79", n)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestRevocations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore(true, nil)
		a, b := newWorldOver(t, st, nil).start(), newWorldOver(t, st, nil).start()
		p, q := pass(time.Now(), 1, 9, "192.0.2.1"), pass(time.Now().Add(time.Hour), 2, 9, "192.0.2.1")
		revoked := func(w *world, p *spravka.Pass) bool { return w.Revoked(p.ID, p.Born) }
		if err := a.RevokePass(ctx, p.ID, time.Hour); err != nil {
			t.Fatal(err)
		}
		if !revoked(a, &p) || revoked(a, &q) {
			t.Error("by ID: the wrong ones")
		}
		time.Sleep(100 * time.Millisecond)
		if !revoked(b, &p) {
			t.Error("by ID: not on the other node")
		}
		time.Sleep(time.Hour)
		if revoked(a, &p) || revoked(b, &p) {
			t.Error("the revocation does not end")
		}
		if err := a.RevokePassesBornBefore(ctx, time.Now().Add(time.Minute)); err == nil {
			t.Error("the future is accepted")
		}
		before := time.Now().Add(-30 * time.Minute)
		if err := b.RevokePassesBornBefore(ctx, before); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
		if !revoked(a, &p) || revoked(a, &q) {
			t.Error("by time: the wrong ones")
		}
		c := newWorldOver(t, st, nil).start()
		if !revoked(c, &p) || revoked(c, &q) {
			t.Error("by time: forgotten over a restart")
		}
		for _, w := range []*world{a, b, c} {
			if err := w.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestRevocationsAreBounded(t *testing.T) {
	w := newWorld(t, func(o *options) { o.Config.MaxRevocations = 3 })
	var err error
	for n := range 5 {
		p := pass(w.now(), 64*n, 9, "192.0.2.1") // all in one shard
		err = w.RevokePass(ctx, p.ID, time.Hour)
		if (err != nil) != (n > 2) {
			t.Errorf("revocation %d: %v", n, err)
		}
	}
	if !errors.Is(err, bans.ErrFull) {
		t.Errorf("%v, want ErrFull", err)
	}
	w.clock.advance(2 * time.Hour)
	p := pass(w.now(), 64*9, 9, "192.0.2.1")
	if err := w.RevokePass(ctx, p.ID, time.Hour); err != nil {
		t.Errorf("after the others ended: %v", err)
	}
}
