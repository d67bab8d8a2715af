package backlog

import (
	"testing"

	"antirobot/servertest"
	"antirobot/store"
)

// TestJoins: the batches of small calls that wait go out as few, and count what they would have counted one after the other. What may have been
// sent already goes out as it was.
func TestJoins(t *testing.T) {
	r := newRemote()
	c := open(t, r, t.TempDir())
	r.forgetful.Store(true)
	must(t, c.Add(bg, add(1, 1))) // the store has it, and its answer was lost
	for range 300 {
		must(t, c.Add(bg, append(add(1, 10), add(2, 1)...)))
	}
	known := store.Delta{Counter: (&pair(3, 7)[0]).PairCounter(), Slot: slot0, N: 1}
	must(t, c.AddUnique(bg, pair(3, 6)))
	must(t, c.Add(bg, []store.Delta{known}))
	must(t, c.AddUnique(bg, pair(3, 7))) // its pair is counted before
	must(t, c.Add(bg, add(2, 1000)))
	r.mu.Lock()
	had := r.had
	r.mu.Unlock()
	r.forgetful.Store(false)
	servertest.Eventually(t, "the queue is empty", func() bool { return c.waiting() == 0 })
	for shingle, want := range map[uint64]uint64{1: 3001, 2: 1300, 3: 1} {
		if n := count(t, r, shingle); n != want {
			t.Errorf("counted %d of %d: %d", n, shingle, want)
		}
	}
	if c.stats.bytes.Load() != 0 || c.Age() != 0 {
		t.Errorf("an empty queue: %d bytes, %v old", c.stats.bytes.Load(), c.Age())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if had = r.had - had; had > 10 {
		t.Errorf("the store had %d batches more", had)
	}
}

// TestJoinsAfterARestart: what the last process has left is joined under its own name, but for the oldest.
func TestJoinsAfterARestart(t *testing.T) {
	r, dir := newRemote(), t.TempDir()
	c := open(t, r, dir)
	r.ill.Store(true)
	for range 100 {
		must(t, c.Add(bg, add(1, 1)))
	}
	must(t, c.Close())
	c = open(t, r, dir)
	for range 100 {
		must(t, c.Add(bg, add(1, 1)))
	}
	r.ill.Store(false)
	servertest.Eventually(t, "the queue is empty", func() bool { return c.waiting() == 0 })
	if n := count(t, r, 1); n != 200 || r.had != 3 || len(r.last) != 2 {
		t.Errorf("counted %d of 200, in %d batches of %d writers; want 3 of 2", n, r.had, len(r.last))
	}
}
