package verdict

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"antirobot/spravka"
	"antirobot/verdict/bans"
	"antirobot/verdict/ledger"
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
				if w.spend(&p, ledger.Open).OK {
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
		got := w.spend(&p, ledger.Open)
		if want := n < 2; got.OK != want || got.Degraded == want {
			t.Errorf("pass %d: %+v", n, got)
		}
	}
	w.ledger.Sweep(w.now().Add(31 * 24 * time.Hour))
	if n := w.ledger.Totals().Passes; n != 0 {
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
				w.spend(&p, ledger.Open)
			}
			time.Sleep(time.Second)
			if got := w.spend(&p, ledger.Closed); got.OK || !got.Degraded {
				t.Errorf("shared %v, closed: %+v", shared, got)
			}
			n := 0
			for range 200 {
				got := w.spend(&p, ledger.Open)
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
			if got := w.spend(&p, ledger.Closed); got.OK || got.Degraded {
				t.Errorf("shared %v, after the failure: %+v", shared, got)
			}
		})
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
		a.spend(&p, ledger.Open)
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		if n, _ := st.Incr(ctx, spentKey(p.ID), 0, time.Hour); n != 1 {
			t.Errorf("%d spent after the node ended, want 1", n)
		}
		n := 0
		for range 200 {
			if b.spend(&p, ledger.Open).OK {
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
		closeAll(t, a, b, c)
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
