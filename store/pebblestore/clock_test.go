package pebblestore

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"antirobot/store"
	"antirobot/store/storetest"
)

// setClock is a clock that can be set while time runs on.
type setClock struct {
	mu  sync.Mutex
	at  time.Time
	ran time.Duration
}

func (c *setClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *setClock) runs() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ran
}

// move lets time pass and, independently, sets the clock.
func (c *setClock) move(ran, set time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ran += ran
	c.at = c.at.Add(ran + set)
}

func openSet(t *testing.T, dir string, c *setClock) *Store {
	t.Helper()
	s, err := New(Deps{Dir: dir, Log: zerolog.Nop(), Now: c.now, ran: c.runs, limit: few})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// sweepAll makes one pass of the sweep.
func sweepAll(t *testing.T, s *Store) {
	t.Helper()
	for from, ok := []byte(nil), true; ok; ok = from != nil {
		var err error
		if from, err = s.sweepChunk(bg, from); err != nil {
			t.Fatal(err)
		}
	}
}

// TestClockAheadAndBack: if the clock jumps ahead by an hour, a day or a year, stays there for an hour and goes back, the
// store forgets nothing, with or without a restart in between; health reports it. A clock that stays ahead is believed.
func TestClockAheadAndBack(t *testing.T) {
	for _, by := range []time.Duration{time.Hour, 24 * time.Hour, 365 * 24 * time.Hour} {
		for _, restart := range []bool{false, true} {
			clock := &setClock{at: time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)}
			dir := t.TempDir()
			s := openSet(t, dir, clock)
			k, err := s.OpenCounters()
			if err != nil {
				t.Fatal(err)
			}
			again := func() {
				t.Helper()
				if err := s.keepHorizon(bg); err != nil { // as happens every minute
					t.Fatal(err)
				}
				must(t, s.Close())
				s = openSet(t, dir, clock)
				if k, err = s.OpenCounters(); err != nil {
					t.Fatal(err)
				}
			}
			const long = 3 * time.Hour // outlasts everything that follows, by a correct clock
			must(t, s.Put(bg, []byte("ban"), []byte("v"), long))
			must(t, s.Put(bg, []byte("old"), []byte("v"), time.Minute))
			if first, err := s.Spend(bg, []byte("answer"), long); err != nil || !first {
				t.Fatal(first, err)
			}
			if n, err := s.Take(bg, []byte("pass"), 7, 10, long); err != nil || n != 7 {
				t.Fatal(n, err)
			}
			counter := store.Counter{Prefix: "p", Shingle: 1}
			slot := store.TenMinutes.Number(clock.now())
			must(t, k.Add(bg, []store.Delta{{Counter: counter, Slot: slot, N: 5}}))
			clock.move(10*time.Minute, 0)
			sweepAll(t, s)
			if err := s.Healthy(); err != nil {
				t.Fatalf("before the jump: %v", err)
			}

			clock.move(0, by)
			if s.Healthy() == nil {
				t.Errorf("%v ahead: health says nothing", by)
			}
			clock.move(30*time.Minute, 0)
			if restart {
				again()
			}
			clock.move(30*time.Minute, 0)
			sweepAll(t, s)
			must(t, k.Drop(bg, store.Period{Unit: store.TenMinutes, Number: store.TenMinutes.Number(clock.now()) - store.SlotsPerDay}))
			if _, err := s.Get(bg, nil, []byte("ban")); (err == nil) != (by < long) {
				t.Errorf("%v ahead: Get: %v", by, err)
			}
			var kept []string
			err = s.ScanKept(bg, nil, func(key, _ []byte, ttl time.Duration) error {
				if (ttl < 0) == (by < long) {
					t.Errorf("%v ahead: %s has %v left", by, key, ttl)
				}
				kept = append(kept, string(key))
				return nil
			})
			if err != nil || !slices.Equal(kept, []string{"ban"}) {
				t.Errorf("%v ahead: %q is kept, %v", by, kept, err)
			}

			clock.move(0, -by)
			if err := s.Healthy(); err == nil || !strings.Contains(err.Error(), "clock") {
				t.Errorf("back by %v: health says %v", by, err)
			}
			if restart {
				again()
			}
			sweepAll(t, s)
			if v, err := s.Get(bg, nil, []byte("ban")); err != nil || string(v) != "v" {
				t.Errorf("ahead by %v and back, restart %v: the ban: %q, %v", by, restart, v, err)
			}
			if first, err := s.Spend(bg, []byte("answer"), long); err != nil || first {
				t.Errorf("ahead by %v and back, restart %v: the answer can be spent again: %v", by, restart, err)
			}
			if n, err := s.Take(bg, []byte("pass"), 7, 10, long); err != nil || n != 3 {
				t.Errorf("ahead by %v and back, restart %v: of the pass %d are left, %v", by, restart, n, err)
			}
			var got [1]uint64
			if err := storetest.Read(bg, k, got[:], []store.Query{{Counter: counter, From: slot, To: slot}}); err != nil || got[0] != 5 {
				t.Errorf("ahead by %v and back, restart %v: the counter is %d, %v", by, restart, got[0], err)
			}

			clock.move(0, by+long) // now this is the correct time
			for range 26 {
				clock.move(time.Hour, 0)
				s.clock.Look()
			}
			before := s.swept.Load()
			sweepAll(t, s)
			if n := s.swept.Load() - before; n != 3 {
				t.Errorf("a day after %v ahead %d of 3 are removed", by, n)
			}
			must(t, s.Close())
		}
	}
}

// TestClockMetrics checks that a jump shows in the metrics.
func TestClockMetrics(t *testing.T) {
	clock := &setClock{at: time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)}
	s := openSet(t, t.TempDir(), clock)
	s.clock.Look()
	clock.move(time.Second, time.Hour)
	var b strings.Builder
	s.WriteMetrics(&b)
	for _, want := range []string{"antirobot_clock_jumps_total 1", "antirobot_clock_doubted_seconds 3600"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

// TestClockOfAMoment: a process that lives for a moment leaves its time, by which the next one doubts a clock that is ahead.
func TestClockOfAMoment(t *testing.T) {
	clock := &setClock{at: time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)}
	for range 20 {
		s := openSet(t, t.TempDir(), clock)
		if horizon, _ := s.lastHorizon(); !horizon.Equal(clock.at) {
			t.Fatalf("the directory knows %v", horizon)
		}
		must(t, s.Close())
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
