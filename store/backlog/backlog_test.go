package backlog

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"antirobot/servertest"
	"antirobot/store"
	"antirobot/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var bg = context.Background()

// remote is a shared store: it remembers the numbers of batches, and fails when the test says so.
type remote struct {
	store.Counters
	away, ill atomic.Bool // calls fail; and it knows that they would
	forgetful atomic.Bool // it counts, and then fails

	mu   sync.Mutex
	last map[uint64]uint64
	had  int // batches
}

var errAway = errors.New("the store is away")

func newRemote() *remote {
	return &remote{Counters: store.NewMemoryCounters(), last: map[uint64]uint64{}}
}

func (r *remote) Count(ctx context.Context, b *store.Batch) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.away.Load() {
		return errAway
	}
	if err := b.Valid(); err != nil {
		return err
	}
	r.had++
	if b.Number > r.last[b.Writer] {
		if err := errors.Join(r.AddUnique(ctx, b.Uniques), r.Add(ctx, b.Adds)); err != nil {
			return err
		}
		r.last[b.Writer] = b.Number
	}
	if r.forgetful.Load() {
		return errAway
	}
	return nil
}

func (r *remote) Healthy() error {
	if r.ill.Load() {
		return errAway
	}
	return nil
}

func (r *remote) Shared() bool { return true }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, r store.Repeatable, dir string) *Counters {
	t.Helper()
	c, err := Open(Deps{Store: r, Dir: dir, Log: zerolog.Nop()})
	must(t, err)
	t.Cleanup(func() { must(t, c.Close()) })
	return c
}

const slot0 = 2831519

func name(shingle uint64) store.Counter {
	return store.Counter{Prefix: "p", Shingle: shingle, Type: 15}
}

func add(shingle, n uint64) []store.Delta {
	return []store.Delta{{Counter: name(shingle), Slot: slot0, N: n}}
}

func pair(shingle, of uint64) []store.Unique {
	return []store.Unique{{Counter: name(shingle), PairType: 30, Pair: shingle<<32 | of, Slot: slot0}}
}

func count(t testing.TB, c store.Counters, shingle uint64) uint64 {
	t.Helper()
	dst := []uint64{99}
	must(t, storetest.Read(bg, c, dst, []store.Query{{Counter: name(shingle), From: slot0, To: slot0}}))
	return dst[0]
}

func TestConforms(t *testing.T) {
	t.Run("remote", func(t *testing.T) {
		storetest.RunRepeatable(t, func(*testing.T) store.Repeatable { return newRemote() })
	})
	storetest.RunCounters(t, func(t *testing.T) store.Counters { return open(t, newRemote(), t.TempDir()) },
		storetest.CounterOptions{Runs: 3})
}

// TestWaits: what the store does not take waits, over a restart too, and is counted once, in order.
func TestWaits(t *testing.T) {
	r, dir := newRemote(), filepath.Join(t.TempDir(), "queue")
	c := open(t, r, dir)
	must(t, c.Add(bg, add(1, 1)))
	r.forgetful.Store(true) // it counts, but its answer is lost: nobody knows
	must(t, c.Add(bg, add(1, 10)))
	r.ill.Store(true)
	r.away.Store(true)
	must(t, c.Add(bg, add(1, 100)))
	must(t, c.AddUnique(bg, pair(2, 7)))
	must(t, c.AddUnique(bg, pair(2, 7)))
	must(t, c.Sync(bg))
	if err := c.Healthy(); err != nil {
		t.Errorf("the queue takes updates, but: %v", err)
	}
	must(t, c.Close())
	if err := c.Add(bg, add(1, 1)); !errors.Is(err, store.ErrClosed) {
		t.Errorf("Add after Close: %v", err)
	}
	if n := count(t, r, 1); n != 11 {
		t.Fatalf("before: %d", n)
	}

	c = open(t, r, dir)
	must(t, c.Add(bg, add(1, 1000))) // comes after the others
	if n := count(t, r, 1); n != 11 {
		t.Fatalf("the store is away, and has %d", n)
	}
	if n := c.stats.batches.Load(); n != 5 || c.stats.bytes.Load() < 100 || c.stats.oldest.Load() == 0 {
		t.Errorf("%d batches of %d bytes wait, since %d", n, c.stats.bytes.Load(), c.stats.oldest.Load())
	}
	r.forgetful.Store(false)
	r.away.Store(false)
	r.ill.Store(false)
	servertest.Eventually(t, "the queue is empty", func() bool { return c.stats.batches.Load() == 0 })
	if a, b := count(t, r, 1), count(t, r, 2); a != 1111 || b != 1 {
		t.Errorf("counted %d and %d; want 1111 and 1", a, b)
	}
	if c.stats.bytes.Load() != 0 || c.Age() != 0 || c.stats.lost.Load() != 0 {
		t.Errorf("an empty queue: %d bytes, %v old, %d lost", c.stats.bytes.Load(), c.Age(), c.stats.lost.Load())
	}
	must(t, c.Add(bg, add(1, 1)))
	if n := count(t, r, 1); n != 1112 {
		t.Errorf("when Add returns, the store has %d", n)
	}
}

// TestFull: the queue is bounded, says so, and keeps nothing of what it refuses.
func TestFull(t *testing.T) {
	r := newRemote()
	c, err := Open(Deps{Store: r, Dir: t.TempDir(), Log: zerolog.Nop(), MaxBytes: 1 << 20})
	must(t, err)
	t.Cleanup(func() { must(t, c.Close()) })
	r.ill.Store(true)
	many := make([]store.Delta, 3*batchItems)
	for i := range many {
		many[i] = add(uint64(i), 1)[0] //nolint:gosec // not negative
	}
	taken := uint64(0)
	for err == nil {
		if err = c.Add(bg, many[:batchItems]); err == nil {
			taken++
		}
		if taken > 1000 {
			t.Fatal("the queue has no bound")
		}
	}
	if !errors.Is(err, ErrFull) || c.stats.bytes.Load() > c.maxBytes || taken < 5 {
		t.Fatalf("after %d batches: %v; %d bytes", taken, err, c.stats.bytes.Load())
	}
	if n := c.stats.refused.Load(); n != batchItems {
		t.Errorf("%d updates are counted as refused", n)
	}
	r.ill.Store(false)
	servertest.Eventually(t, "the queue is empty", func() bool { return c.stats.batches.Load() == 0 })
	if n := count(t, r, batchItems-1); n != taken {
		t.Errorf("counted %d of the %d that were taken", n, taken)
	}
	must(t, c.Healthy())
	must(t, c.Add(bg, many)) // larger than a batch
	if n := count(t, r, 3*batchItems-1); n != 1 {
		t.Errorf("the last of many: %d", n)
	}
}

// TestTogether: calls that wait share a batch, and each gets its answer.
func TestTogether(t *testing.T) {
	r := newRemote()
	c := open(t, r, t.TempDir())
	r.mu.Lock() // the store is busy with the first
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() { must(t, c.Add(bg, add(1, 1))) })
	}
	ctx, cancel := context.WithCancel(bg)
	cancel()
	if err := c.Add(ctx, add(1, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("a call whose context has ended: %v", err)
	}
	r.mu.Unlock()
	wg.Wait()
	if n := count(t, r, 1); n != 50 {
		t.Errorf("counted %d of 50", n)
	}
}

// TestHurry: who has no time to wait for a slow store has what it gave on disk.
func TestHurry(t *testing.T) {
	r, dir := newRemote(), t.TempDir()
	c := open(t, r, dir)
	r.mu.Lock() // the store does not answer
	ctx, cancel := context.WithCancel(bg)
	first := make(chan error, 1)
	go func() { first <- c.Add(ctx, add(1, 1)) }()
	servertest.Eventually(t, "it is on disk", func() bool { return c.waiting() == 1 })
	cancel()
	if err := <-first; err != nil {
		t.Errorf("what is on disk is refused: %v", err)
	}
	c.Hurry()
	r.mu.Unlock()
	must(t, c.Add(bg, add(1, 10)))
	must(t, c.Add(bg, add(1, 100)))
	if c.waiting() < 2 {
		t.Errorf("%d batches wait", c.waiting())
	}
	must(t, c.Close())
	c = open(t, r, dir)
	servertest.Eventually(t, "the queue is empty", func() bool { return c.waiting() == 0 })
	if n := count(t, c, 1); n != 111 {
		t.Errorf("counted %d", n)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(encode(&store.Batch{Writer: 1, Number: 2, Adds: add(1, 3), Uniques: pair(2, 7)}, time.Unix(1_700_000_000, 0)))
	f.Add([]byte{version})
	f.Fuzz(func(t *testing.T, text []byte) {
		b, err := decode(text)
		if err != nil {
			return
		}
		again, err := decode(encode(b, time.Unix(writtenAt(text), 0)))
		must(t, err)
		if len(again.Adds) != len(b.Adds) || len(again.Uniques) != len(b.Uniques) || again.Number != b.Number || again.Writer != b.Writer {
			t.Fatalf("%+v became %+v", b, again)
		}
		for i := range b.Adds {
			if again.Adds[i] != b.Adds[i] {
				t.Fatalf("%+v became %+v", b.Adds[i], again.Adds[i])
			}
		}
		for i := range b.Uniques {
			if again.Uniques[i] != b.Uniques[i] {
				t.Fatalf("%+v became %+v", b.Uniques[i], again.Uniques[i])
			}
		}
	})
}

// waiting returns how many batches wait.
func (c *Counters) waiting() int64 { return c.stats.batches.Load() }
