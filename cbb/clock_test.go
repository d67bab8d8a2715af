package cbb

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"antirobot/store"
)

// setStore is the store of a node whose own clock gets set: shared, or the node's own with a watch over the clock.
type setStore struct {
	*fakeStore
	by    *atomic.Int64 // how far the node's clock is ahead
	clock *store.Clock
}

func (s *setStore) now() time.Time { return time.Now().Add(time.Duration(s.by.Load())) }

func newSetStore(fs *fakeStore) *setStore {
	begin := time.Now()
	s := &setStore{fakeStore: fs, by: new(atomic.Int64)}
	s.clock = store.NewClock(
		s.now, func() time.Duration { return time.Since(begin) }, time.Time{}, 0, 24*time.Hour, zerolog.Nop(),
	)
	return s
}

func (s *setStore) Horizon() time.Time { return s.clock.Horizon() }

func (s *setStore) Jumps() uint64 { return s.clock.Jumps() }

func (s *setStore) ScanKept(ctx context.Context, prefix []byte, f func(k, v []byte, ttl time.Duration) error) error {
	return s.Scan(ctx, prefix, f)
}

// skewedStore is a shared store whose clock is right.
type skewedStore struct{ *setStore }

func (s skewedStore) Skew() time.Duration { return -time.Duration(s.by.Load()) }

// TestClockAheadAndBack: entries come back when the clock goes ahead and back, and one that was removed in the meantime
// does not.
func TestClockAheadAndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newFakeStore()
		st := newSetStore(fs)
		l := open(t, config(nil), func(d *Deps) { d.KV, d.Feed, d.Now = st, fs, st.now })
		if err := l.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer closeLists(t, l)
		for _, addr := range []string{"10.0.0.1", "10.0.0.2"} {
			if err := l.Add(t.Context(), Block, addr, 3*time.Hour, "", ""); err != nil {
				t.Fatal(err)
			}
		}
		st.by.Store(int64(24 * time.Hour))
		time.Sleep(rescanEvery + time.Minute)
		if n := len(l.List(Block)); n != 0 {
			t.Errorf("a day ahead %d entries are in force", n)
		}
		if err := l.Remove(t.Context(), Block, "10.0.0.2", ""); err != nil {
			t.Errorf("remove: %v", err)
		}
		st.by.Store(0)
		if got := l.List(Block); len(got) != 1 || got[0].Text != "10.0.0.1" {
			t.Errorf("after that: %v", got)
		}
	})
}

// TestSkewedNodeIsSet: the clock of one of two nodes is set ahead, and then right again: no entry lasts longer than
// before, and one that the other node removes is gone.
func TestSkewedNodeIsSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newFakeStore()
		st := newSetStore(fs)
		a := open(t, config(nil), func(d *Deps) { d.KV, d.Feed, d.Now, d.Shared = skewedStore{st}, fs, st.now, true })
		b := open(t, config(nil), func(d *Deps) { d.KV, d.Feed, d.Shared = fs, fs, true })
		for _, l := range []*Lists{a, b} {
			if err := l.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			defer closeLists(t, l)
		}
		if err := b.Add(t.Context(), Block, "10.0.0.1", time.Hour, "", ""); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for _, by := range []time.Duration{3 * time.Hour, 0, -3 * time.Hour, 0} {
			st.by.Store(int64(by))
			time.Sleep(rescanEvery + time.Minute)
			for _, l := range []*Lists{a, b} {
				list := l.List(Block)
				if len(list) != 1 {
					t.Fatalf("%v ahead: %v", by, list)
				}
				if left := list[0].Until.Sub(l.now()); left > time.Hour {
					t.Errorf("%v ahead: %v is left of an hour", by, left)
				}
			}
		}
		st.by.Store(int64(3 * time.Hour))
		time.Sleep(rescanEvery + time.Minute)
		st.by.Store(0)
		if err := b.Remove(t.Context(), Block, "10.0.0.1", ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(rescanEvery + time.Minute)
		if n, m := len(a.List(Block)), len(b.List(Block)); n+m != 0 {
			t.Errorf("the entry that was taken out is back: %d, %d", n, m)
		}
	})
}
