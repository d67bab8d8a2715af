package sources

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"antirobot/rules"
	"antirobot/servertest"
	"antirobot/store"
)

// crowded is a store that lets others run between a look and a change, as every store does on a busy day.
type crowded struct {
	store.Store
	swaps atomic.Int64
}

func (c *crowded) Swap(ctx context.Context, key, old, val []byte, ttl time.Duration) (bool, error) {
	c.swaps.Add(1)
	for range 100 {
		runtime.Gosched()
	}
	return c.Store.Swap(ctx, key, old, val, ttl)
}

// TestDrawsTogether: whoever draws at the same time gets a token while there are tokens, at one gateway and at three.
func TestDrawsTogether(t *testing.T) {
	c := newClock()
	st := &crowded{Store: store.NewMemory(c.now)}
	defer st.Close()
	gateways := []*StoreStorage{NewStoreStorage(st, "p/", c.now), NewStoreStorage(st, "p/", c.now), NewStoreStorage(st, "p/", c.now)}
	b := rules.Bucket{Every: time.Hour, Burst: 500}
	const many = 600
	var got, empty atomic.Int64
	var all sync.WaitGroup
	begin := make(chan struct{})
	for i := range many {
		all.Go(func() {
			<-begin
			wait, err := gateways[i%len(gateways)].Draw(context.Background(), []byte("k"), b, true)
			switch {
			case err != nil:
				t.Error(err)
			case wait == 0:
				got.Add(1)
			case wait == time.Hour:
				empty.Add(1)
			default:
				t.Errorf("wait %s", wait)
			}
		})
	}
	close(begin)
	all.Wait()
	if got.Load() != b.Burst || empty.Load() != many-b.Burst {
		t.Errorf("%d tokens of %d, and %d times none", got.Load(), b.Burst, empty.Load())
	}
	if n := st.swaps.Load(); n > many/2 {
		t.Errorf("%d changes of the value for %d who drew together", n, many)
	}
	for _, g := range gateways { // who draws for others goes after they have theirs
		servertest.Eventually(t, "nobody draws any more", func() bool {
			g.draws.mu.Lock()
			defer g.draws.mu.Unlock()
			return len(g.draws.under) == 0
		})
	}
}

// TestDrawGivesUp: who waits for others goes when its time is over, and the others get theirs.
func TestDrawGivesUp(t *testing.T) {
	c := newClock()
	st := &stuck{Store: store.NewMemory(c.now), free: make(chan struct{}), in: make(chan struct{}, 10)}
	defer st.Close()
	s := NewStoreStorage(st, "p/", c.now)
	b := rules.Bucket{Every: time.Hour, Burst: 3}
	first, third := make(chan time.Duration, 1), make(chan time.Duration, 1)
	draw := func(ctx context.Context, to chan time.Duration) {
		wait, err := s.Draw(ctx, []byte("k"), b, true)
		if err != nil {
			t.Error(err)
		}
		to <- wait
	}
	go draw(context.Background(), first)
	<-st.in
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if _, err := s.Draw(ctx, []byte("k"), b, true); err == nil {
		t.Error("drew from a store that hangs")
	}
	go draw(context.Background(), third)
	close(st.free)
	if a, b := <-first, <-third; a != 0 || b != 0 {
		t.Errorf("waits of %s and %s", a, b)
	}
}

// stuck is a store whose first change waits.
type stuck struct {
	store.Store
	free, in chan struct{}
}

func (s *stuck) Swap(ctx context.Context, key, old, val []byte, ttl time.Duration) (bool, error) {
	s.in <- struct{}{}
	<-s.free
	return s.Store.Swap(ctx, key, old, val, ttl)
}
