package verdict

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"antirobot/store"
	"antirobot/store/pebblestore"
	"antirobot/verdict/bans"
	"antirobot/verdict/ledger"
)

// ahead is a clock that can be set: it is this far ahead of the time.
type ahead struct{ by atomic.Int64 }

func (a *ahead) now() time.Time { return time.Now().Add(time.Duration(a.by.Load())) }

func (a *ahead) set(d time.Duration) { a.by.Store(int64(d)) }

// keeping is a node's own store whose clock is watched, as the embedded one's is.
type keeping struct {
	*sharedStore
	clock *store.Clock
}

func (k *keeping) Horizon() time.Time { return k.clock.Horizon() }

func (k *keeping) Jumps() uint64 { return k.clock.Jumps() }

func (k *keeping) ScanKept(c context.Context, prefix []byte, f func(k, v []byte, ttl time.Duration) error) error {
	return k.Scan(c, prefix, f)
}

// TestClockAheadAndBack: while the clock is a day ahead, memory forgets no ban and no spent allowance, an unban is
// final, and a ban lasts as long as it was meant to.
func TestClockAheadAndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		c := &ahead{}
		st := &keeping{sharedStore: newStore(false, c.now)}
		st.clock = store.NewClock(c.now, func() time.Duration { return time.Since(begin) }, time.Time{}, 0, 24*time.Hour, zerolog.Nop())
		w := newWorldOver(t, st.sharedStore, nil, func(o *options) { o.Store, o.Now = st, c.now }).start()
		defer w.Close()
		s := service(t)
		hour := func(b *bans.Ban) { b.Until = c.now().Add(3 * time.Hour) }
		w.ban(ip("192.0.2.1"), hour)
		w.ban(ip("192.0.2.2"), hour)
		p := pass(c.now(), 1, 100, "192.0.2.1")
		p.Expires = c.now().Add(5 * time.Hour).Unix()
		for range 100 {
			if !w.spend(&p, ledger.Open).OK {
				t.Fatal("the pass does not pay")
			}
		}
		id := [16]byte{7}
		if err := w.RevokePass(ctx, id, 4*time.Hour); err != nil {
			t.Fatal(err)
		}

		c.set(24 * time.Hour)
		time.Sleep(10 * time.Minute) // several sweeps
		if w.ask(s, "192.0.2.1").Verdict != Human {
			t.Error("a ban that has ended by the clock still stops")
		}
		if n, err := w.Unban(ctx, ip("192.0.2.2"), ""); n != 1 || err != nil {
			t.Errorf("unban while the clock is ahead: %d, %v", n, err)
		}
		w.ban(ip("192.0.2.3"), func(b *bans.Ban) { b.Until = c.now().Add(30 * time.Minute) })
		if err := w.RevokePass(ctx, [16]byte{8}, time.Hour); err != nil { // tidies the map that holds the other one
			t.Fatal(err)
		}

		c.set(0)
		time.Sleep(2 * time.Minute)
		if w.ask(s, "192.0.2.1").Verdict != Robot {
			t.Error("the ban is forgotten")
		}
		if w.ask(s, "192.0.2.2").Verdict != Human {
			t.Error("the ban that was lifted is back")
		}
		if w.spend(&p, ledger.Open).OK {
			t.Error("the spent pass pays again")
		}
		if !w.Revoked(id, c.now().Unix()) {
			t.Error("the revocation is forgotten")
		}
		if w.ask(s, "192.0.2.3").Verdict != Robot {
			t.Error("the ban that was made meanwhile is gone")
		}
		time.Sleep(30 * time.Minute)
		if w.ask(s, "192.0.2.3").Verdict != Human {
			t.Error("the ban that was made meanwhile lasts for longer than it was to")
		}
		if n, err := w.Unban(ctx, ip("192.0.2.1"), ""); n != 1 || err != nil || w.ask(s, "192.0.2.1").Verdict != Human {
			t.Errorf("unban: %d, %v", n, err)
		}
	})
}

// TestClockAheadAtAStart: a node with the embedded store that starts while its clock is a day ahead has everything
// again when the clock goes back.
func TestClockAheadAtAStart(t *testing.T) {
	dir, c := t.TempDir(), &ahead{}
	begin := func() (*world, func()) {
		st, err := pebblestore.New(pebblestore.Deps{Dir: dir, Log: zerolog.Nop(), Now: c.now})
		if err != nil {
			t.Fatal(err)
		}
		w := newWorldOver(t, newStore(false, nil), nil, func(o *options) { o.Store, o.Now = st, c.now }).start()
		return w, func() {
			if err := w.Close(); err != nil {
				t.Error(err)
			}
			if err := st.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	w, end := begin()
	w.ban(ip("192.0.2.1"), func(b *bans.Ban) { b.Until = c.now().Add(3 * time.Hour) })
	p := pass(c.now(), 1, 100, "192.0.2.1")
	p.Expires = c.now().Add(5 * time.Hour).Unix()
	for range 100 {
		w.spend(&p, ledger.Open)
	}
	id := [16]byte{7}
	if err := w.RevokePass(ctx, id, 4*time.Hour); err != nil {
		t.Fatal(err)
	}
	end()
	c.set(24 * time.Hour)
	w, end = begin()
	defer func() { end() }()
	s := service(t)
	if w.ask(s, "192.0.2.1").Verdict != Human {
		t.Error("a ban that has ended by the clock still stops")
	}
	c.set(0)
	if w.ask(s, "192.0.2.1").Verdict != Robot || w.spend(&p, ledger.Open).OK || !w.Revoked(id, c.now().Unix()) {
		t.Error("what the store had is forgotten")
	}
	w.sweepOnce()
	if w.ask(s, "192.0.2.1").Verdict != Robot {
		t.Error("the ban is forgotten")
	}
}

// TestSkewedNodeIsSet: the clock of one of two nodes is set ahead, and then right again. By the store's clock nothing
// has happened: the node's bans last as long as before, it writes none that lasts longer, and one that the other node
// lifts is lifted.
func TestSkewedNodeIsSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore(true, nil)
		c := &ahead{}
		skewed := &setStore{st, c}
		a := newWorldOver(t, st, nil, func(o *options) { o.Store, o.Now = skewed, c.now }).start()
		b := newWorldOver(t, st, nil).start()
		s := service(t)
		b.ban(ip("192.0.2.1"), func(b *bans.Ban) { b.Until = time.Now().Add(time.Hour) })
		synctest.Wait()
		for _, by := range []time.Duration{3 * time.Hour, 0, -3 * time.Hour, 0} {
			c.set(by)
			time.Sleep(6 * time.Minute) // more than one scan
			if a.ask(s, "192.0.2.1").Verdict != Robot {
				t.Errorf("%v ahead: the ban is forgotten", by)
			}
			for _, w := range []*world{a, b} {
				for _, ban := range w.Bans(BanFilter{}) {
					if left := ban.Until.Sub(w.Cacher.now()); left > time.Hour {
						t.Errorf("%v ahead: %v is left of an hour", by, left)
					}
				}
			}
		}
		c.set(3 * time.Hour)
		time.Sleep(6 * time.Minute)
		c.set(0)
		if n, err := b.Unban(ctx, ip("192.0.2.1"), ""); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		time.Sleep(6 * time.Minute)
		for name, w := range map[string]*world{"a": a, "b": b} {
			if w.ask(s, "192.0.2.1").Verdict != Human {
				t.Errorf("%s has the lifted ban", name)
			}
			if err := w.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestPassesGoByTheStoresClock: a pass of ten minutes pays for ten minutes at a node whose clock is an hour ahead, and is forgotten
// then.
func TestPassesGoByTheStoresClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &ahead{}
		c.set(time.Hour)
		st := newStore(true, nil)
		w := newWorldOver(t, st, nil, func(o *options) { o.Store, o.Now = &setStore{st, c}, c.now }).start()
		defer w.Close()
		s := service(t)
		w.ban(ip("192.0.2.1"), func(b *bans.Ban) { b.Until = c.now().Add(time.Hour) })
		p := pass(time.Now(), 1, 100, "192.0.2.1")
		p.Expires = time.Now().Add(10 * time.Minute).Unix()
		v, id := newRequest(w.now(), "192.0.2.1")
		w.Issued(&p, v, id)
		synctest.Wait()
		time.Sleep(9 * time.Minute)
		if d := w.askWith(s, &p, "192.0.2.1"); !d.Paid || d.Degraded {
			t.Errorf("after nine minutes: %+v", d)
		}
		time.Sleep(3 * time.Minute)
		if n := w.ledger.Totals().Passes; n != 0 {
			t.Error("after twelve minutes it is not forgotten")
		}
	})
}

// setStore is a shared store whose clock is right while the node's is set.
type setStore struct {
	*sharedStore
	c *ahead
}

func (s *setStore) Skew() time.Duration { return -time.Duration(s.c.by.Load()) }
