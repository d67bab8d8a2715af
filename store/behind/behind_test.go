package behind

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

var errDown = errors.New("down")

// TestNeverLosesAChange: keys that change while they are written, and writes that fail, end up written with their
// last value.
func TestNeverLosesAChange(t *testing.T) {
	var mem, disk [50]atomic.Int64
	var calls atomic.Int64
	b := New(func(_ context.Context, k int) error {
		v := mem[k].Load()
		if calls.Add(1)%7 == 0 {
			return errDown
		}
		disk[k].Store(v)
		return nil
	})
	waiting := func() int64 { n, _ := b.Backlog(); return n }
	run, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { b.Run(run) })
	for i := range 5000 {
		mem[i%50].Add(1)
		b.Add(i % 50)
	}
	cancel()
	wg.Wait()
	for waiting() > 0 {
		if err := b.Flush(t.Context()); err != nil && !errors.Is(err, errDown) {
			t.Fatal(err)
		}
	}
	for k := range mem {
		if m, d := mem[k].Load(), disk[k].Load(); m != d {
			t.Errorf("key %d: %d in memory, %d written", k, m, d)
		}
		if b.Pending(k) {
			t.Errorf("key %d is still pending", k)
		}
	}
}

// TestWritesAgain: a key that is added while it is being written is written again.
func TestWritesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, release := 0, make(chan struct{})
		b := New(func(context.Context, int) error {
			calls++
			<-release
			return nil
		})
		run, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { b.Run(run) })
		b.Add(1)
		synctest.Wait()
		b.Add(1)
		b.Add(1)
		close(release)
		synctest.Wait()
		if calls != 2 || b.Pending(1) {
			t.Errorf("written %d times, pending %v", calls, b.Pending(1))
		}
		cancel()
		wg.Wait()
	})
}
