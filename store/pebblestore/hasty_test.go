package pebblestore

import (
	"context"
	"errors"
	"testing"
	"time"

	"antirobot/servertest"
	"antirobot/store"
	"antirobot/store/storetest"
)

// TestHastyConformance: who is in haste finds the same store.
func TestHastyConformance(t *testing.T) {
	clock := storetest.NewClock()
	storetest.Run(t,
		func(t *testing.T) store.Store { return mustOpen(t, t.TempDir(), clock.Now).Hasten() },
		storetest.Options{
			Clock: clock, FeedKept: 256 + 256/8 + chunkEntries,
			Reopen: func(t *testing.T, s store.Store) store.Store {
				must(t, s.Close())
				return mustOpen(t, s.(hasty).dir, clock.Now).Hasten()
			},
		})
}

// TestHasteNeedsNoDisk: while the disk hangs who is in haste is answered, and sees what it wrote; others wait.
func TestHasteNeedsNoDisk(t *testing.T) {
	s, fs, dir := openFaulty(t)
	h := s.Hasten()
	fs.slow.Store(true)
	defer fs.slow.Store(false)
	for i := range int64(100) {
		if n, err := h.Incr(bg, []byte("n"), 1, 0); err != nil || n != i+1 {
			t.Fatalf("Incr %d: %d, %v", i, n, err)
		}
	}
	if ok, err := h.Swap(bg, []byte("k"), nil, []byte("v"), 0); err != nil || !ok {
		t.Fatalf("Swap: %t, %v", ok, err)
	}
	if v, err := s.Get(bg, nil, []byte("k")); err != nil || string(v) != "v" {
		t.Errorf("Get = %q, %v", v, err)
	}
	ctx, cancel := context.WithTimeout(bg, 50*time.Millisecond)
	defer cancel()
	if _, err := s.Incr(ctx, []byte("n"), 1, 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a durable write on a disk that hangs: %v", err)
	}
	fs.slow.Store(false)
	must(t, s.Close())
	again := mustOpen(t, dir, time.Now)
	if n, err := again.Incr(bg, []byte("n"), 0, 0); err != nil || n != 101 {
		t.Errorf("after reopening %d, %v", n, err)
	}
}

// TestHasteReachesTheDisk: what nobody waits for is synced all the same, without another write.
func TestHasteReachesTheDisk(t *testing.T) {
	s, fs, _ := openFaulty(t)
	must(t, s.Put(bg, []byte("k"), nil, 0))
	before := fs.synced.Load()
	if _, err := s.Hasten().Incr(bg, []byte("n"), 1, 0); err != nil {
		t.Fatal(err)
	}
	servertest.Eventually(t, "it is synced", func() bool { return fs.synced.Load() > before })
}

// BenchmarkCount counts in one place, as rules do: durably, and without waiting for the disk.
func BenchmarkCount(b *testing.B) {
	s := mustOpen(b, b.TempDir(), time.Now)
	for name, st := range map[string]store.Store{"durable": s, "hasty": s.Hasten()} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := st.Incr(bg, []byte("n"), 1, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
