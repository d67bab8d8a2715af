package upstream

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"antirobot/servertest"
)

func TestLimitIsKeptAndEveryWaiterServed(t *testing.T) {
	s := serve(t, listen(t), echoLines)
	g := group(t, func(c *Config) { c.MaxConns = 3; c.MaxWait = 20 * time.Second }, s.url())
	var most, now atomic.Int64
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			for j := range 50 {
				c, err := g.Get(t.Context(), j%11 == 0)
				if err != nil {
					t.Error(err)
					return
				}
				n := now.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				if open := g.addrs[0].open.Load(); open > 4 { // reserve counts before it gives up
					t.Log("open", open)
				}
				now.Add(-1)
				if (i+j)%7 == 0 {
					c.Discard(nil)
				} else {
					c.Release()
				}
			}
		})
	}
	wg.Wait()
	if most.Load() > 3 {
		t.Fatalf("%d connections at once", most.Load())
	}
	if g.queue.waiting.Load() != 0 || g.queue.line.Len() != 0 {
		t.Fatal("someone still waits")
	}
}

func TestWaitersAreBoundedInNumberAndTime(t *testing.T) {
	s := serve(t, listen(t), echoLines)
	g := group(t, func(c *Config) { c.MaxConns = 1; c.MaxWaiters = 1; c.MaxWait = 200 * time.Millisecond }, s.url())
	c := get(t, g)
	first := make(chan error, 1)
	began := time.Now()
	go func() {
		_, err := g.Get(context.Background(), false)
		first <- err
	}()
	servertest.Eventually(t, "one waits", func() bool { return g.queue.waiting.Load() == 1 })
	if _, err := g.Get(t.Context(), false); !errors.Is(err, ErrBusy) {
		t.Fatal(err)
	}
	if err := <-first; !errors.Is(err, ErrBusy) || time.Since(began) < 200*time.Millisecond {
		t.Fatal(err, time.Since(began))
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, err := g.Get(ctx, false)
		first <- err
	}()
	servertest.Eventually(t, "one waits", func() bool { return g.queue.waiting.Load() == 1 })
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	c.Release()
	if d := get(t, g); d != c {
		t.Fatal("not the same")
	} else {
		d.Discard(nil)
	}
}

func TestFirstComeFirstServed(t *testing.T) {
	s := serve(t, listen(t), echoLines)
	g := group(t, func(c *Config) { c.MaxConns = 1 }, s.url())
	c := get(t, g)
	order := make(chan int, 5)
	var wg sync.WaitGroup
	for i := range 5 {
		wg.Go(func() {
			c, err := g.Get(context.Background(), false)
			if err != nil {
				t.Error(err)
				return
			}
			order <- i // the only connection is held, so nobody else gets here
			c.Release()
		})
		servertest.Eventually(t, "in line", func() bool {
			g.queue.mu.Lock()
			defer g.queue.mu.Unlock()
			return g.queue.line.Len() == i+1
		})
	}
	c.Release()
	wg.Wait()
	for want := range 5 {
		if got := <-order; got != want {
			t.Fatalf("%d came before %d", got, want)
		}
	}
}

func TestFreshMakesRoomAtTheLimit(t *testing.T) {
	s := serve(t, listen(t), echoLines)
	g := group(t, func(c *Config) { c.MaxConns = 1 }, s.url())
	c := get(t, g)
	c.Release()
	d, err := g.Get(t.Context(), true)
	if err != nil || d == c {
		t.Fatal(err)
	}
	d.Discard(nil)
}

func TestFullAddressIsPassedOver(t *testing.T) {
	a, b := serve(t, listen(t), echoLines), serve(t, listen(t), echoLines)
	g := group(t, func(c *Config) { c.MaxConns = 2 }, a.url(), b.url())
	var all []*Conn
	for range 4 {
		all = append(all, get(t, g))
	}
	for _, h := range g.Healthy() {
		if h.Active != 2 {
			t.Fatalf("%+v", h)
		}
	}
	for _, c := range all {
		c.Release()
	}
}
