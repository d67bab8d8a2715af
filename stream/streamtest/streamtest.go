// Package streamtest holds the conformance suite that every engine of package stream passes.
package streamtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"antirobot/store"
	"antirobot/stream"
)

// patience is how long anything that must happen may take.
const patience = 60 * time.Second

// Lease is for engines under test: a consumer on a busy machine may get no CPU for seconds.
const Lease = 4 * time.Second

// Engine is an engine under test, empty when a test begins.
type Engine struct {
	// Join opens a connection of its own, as another process would.
	Join func(t *testing.T) stream.Stream
	// Lose cuts a consumer's connection to the leases.
	Lose func(t *testing.T, s stream.Stream)
}

// Run runs the suite. open is called for each test; the engine has at least two partitions.
func Run(t *testing.T, open func(t *testing.T) Engine) {
	t.Run("order", func(t *testing.T) { testOrder(t, open(t)) })
	t.Run("sharing", func(t *testing.T) { testSharing(t, open(t)) })
	t.Run("giving back", func(t *testing.T) { testTakeOver(t, open(t), false) })
	t.Run("loss of a consumer", func(t *testing.T) { testTakeOver(t, open(t), true) })
	t.Run("ends", func(t *testing.T) { testEnds(t, open(t)) })
}

// got is what a consumer received.
type got struct {
	mu    sync.Mutex
	fresh map[int][]string
	again map[int][]string
}

func newGot() *got { return &got{fresh: map[int][]string{}, again: map[int][]string{}} }

func (g *got) take(d stream.Delivery) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if d.Again {
		g.again[d.Partition] = append(g.again[d.Partition], string(d.Data))
		return
	}
	g.fresh[d.Partition] = append(g.fresh[d.Partition], string(d.Data))
}

func (g *got) count() (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, list := range g.fresh {
		n += len(list)
	}
	return n
}

func consume(t *testing.T, s stream.Stream, g *got) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.Consume(ctx, g.take); ctx.Err() == nil {
			t.Errorf("Consume ends by itself: %v", err)
		}
	}()
	return sync.OnceFunc(func() {
		cancel()
		<-done
	})
}

func publish(t *testing.T, s stream.Stream, from, to int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for i := from; i < to; i++ {
		var batches []stream.Batch
		for p := range s.Partitions() {
			batches = append(batches, stream.Batch{Partition: p, Data: fmt.Appendf(nil, "%d/%d", p, i)})
		}
		if err := s.Publish(ctx, batches); err != nil {
			t.Fatal(err)
		}
		for _, b := range batches {
			clear(b.Data) // the data is the caller's again
		}
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for began := time.Now(); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

func inOrder(t *testing.T, of map[int][]string, from, to int) {
	t.Helper()
	for p, list := range of {
		for i, text := range list {
			if want := fmt.Sprintf("%d/%d", p, from+i); text != want {
				t.Fatalf("partition %d: batch %d is %q, want %q", p, i, text, want)
			}
		}
		if len(list) != to-from {
			t.Errorf("partition %d: %d batches, want %d", p, len(list), to-from)
		}
	}
}

func testOrder(t *testing.T, e Engine) {
	s := e.Join(t)
	const n = 50
	publish(t, s, 0, n/2) // before anybody consumes
	g := newGot()
	defer consume(t, s, g)()
	publish(t, e.Join(t), n/2, n)
	eventually(t, "all batches", func() bool { return g.count() >= n*s.Partitions() })
	g.mu.Lock()
	defer g.mu.Unlock()
	inOrder(t, g.fresh, 0, n)
	if len(g.fresh) != s.Partitions() || len(g.again) > 0 {
		t.Errorf("batches of %d partitions, and %d came again", len(g.fresh), len(g.again))
	}
	if st := s.Status(); st.Held != s.Partitions() {
		t.Errorf("it holds %d of %d partitions", st.Held, s.Partitions())
	}
}

func shared(t *testing.T, a, b stream.Stream) {
	t.Helper()
	n := a.Partitions()
	eventually(t, "both hold their share", func() bool {
		x, y := a.Status().Held, b.Status().Held
		return x+y == n && x <= (n+1)/2 && y <= (n+1)/2
	})
}

func testSharing(t *testing.T, e Engine) {
	a, b := e.Join(t), e.Join(t)
	ga, gb := newGot(), newGot()
	defer consume(t, a, ga)()
	defer consume(t, b, gb)()
	shared(t, a, b)
	const n = 20
	publish(t, a, 0, n)
	eventually(t, "all batches", func() bool { return ga.count()+gb.count() >= n*a.Partitions() })
	ga.mu.Lock()
	defer ga.mu.Unlock()
	gb.mu.Lock()
	defer gb.mu.Unlock()
	inOrder(t, ga.fresh, 0, n)
	inOrder(t, gb.fresh, 0, n)
	for p := range ga.fresh {
		if gb.fresh[p] != nil {
			t.Errorf("both have partition %d", p)
		}
	}
	if len(ga.fresh) == 0 || len(gb.fresh) == 0 {
		t.Error("one of them has had nothing")
	}
}

// testTakeOver ends one of two consumers: the other replays its partitions, and then gets new batches.
func testTakeOver(t *testing.T, e Engine, lose bool) {
	a, b := e.Join(t), e.Join(t)
	ga, gb := newGot(), newGot()
	stop := consume(t, a, ga)
	defer consume(t, b, gb)()
	shared(t, a, b)
	const n = 20
	publisher := e.Join(t)
	publish(t, publisher, 0, n)
	eventually(t, "all batches", func() bool { return ga.count()+gb.count() >= n*a.Partitions() })
	if lose {
		e.Lose(t, a)
	} else {
		stop()
	}
	eventually(t, "the other one holds all", func() bool { return b.Status().Held == b.Partitions() })
	if lose {
		eventually(t, "who is cut off holds nothing", func() bool { return a.Status().Held == 0 })
	}
	defer stop()
	publish(t, publisher, n, 2*n)
	last := func(g *got, p int) string {
		g.mu.Lock()
		defer g.mu.Unlock()
		if list := g.fresh[p]; len(list) > 0 {
			return list[len(list)-1]
		}
		return ""
	}
	for p := range b.Partitions() {
		eventually(t, "the last batch", func() bool { return last(gb, p) == fmt.Sprintf("%d/%d", p, 2*n-1) })
	}
	gb.mu.Lock()
	defer gb.mu.Unlock()
	for p, list := range gb.fresh {
		all := append(append([]string{}, gb.again[p]...), list...)
		inOrder(t, map[int][]string{p: all}, 0, 2*n)
	}
	ga.mu.Lock()
	defer ga.mu.Unlock()
	for p := range ga.fresh {
		if !lose && len(gb.again[p]) != n {
			t.Errorf("partition %d: %d batches came again, want %d", p, len(gb.again[p]), n)
		}
	}
}

func testEnds(t *testing.T, e Engine) {
	s := e.Join(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	batch := []stream.Batch{{Partition: 0, Data: []byte("x")}}
	if err := s.Publish(ctx, batch); err == nil {
		t.Error("it publishes although its context has ended")
	}
	if err := s.Consume(ctx, func(stream.Delivery) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("Consume: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// Link is a store.KV whose connection can be cut.
type Link struct {
	store.KV
	mu  sync.Mutex
	cut bool
}

// Cut makes every call fail from now on.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
}

var errCut = errors.New("streamtest: the link is cut")

func (l *Link) err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		return errCut
	}
	return nil
}

// Put implements store.KV.
func (l *Link) Put(ctx context.Context, key, val []byte, ttl time.Duration) error {
	if err := l.err(); err != nil {
		return err
	}
	return l.KV.Put(ctx, key, val, ttl)
}

// Swap implements store.KV.
func (l *Link) Swap(ctx context.Context, key, old, val []byte, ttl time.Duration) (bool, error) {
	if err := l.err(); err != nil {
		return false, err
	}
	return l.KV.Swap(ctx, key, old, val, ttl)
}

// Delete implements store.KV.
func (l *Link) Delete(ctx context.Context, key []byte) error {
	if err := l.err(); err != nil {
		return err
	}
	return l.KV.Delete(ctx, key)
}
