package backlog

import (
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"antirobot/servertest"
	"antirobot/store"
	"antirobot/store/redisstore"
	"antirobot/store/redisstore/redistest"
)

// TestThroughFaults counts through a connection that is cut again and again, over restarts of the queue and of a server that
// keeps its data: every update that was taken is counted once. A cut leaves it open whether the server had the batch.
func TestThroughFaults(t *testing.T) {
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	link := redistest.StartProxy(t, server.Addr)
	link.Slow(time.Millisecond) // so that cuts meet batches under way
	cfg := redisstore.DefaultConfig()
	cfg.Timeout = 5 * time.Second
	s, err := redisstore.New(cfg, redisstore.Deps{URL: "redis://" + link.Addr, Log: zerolog.Nop(), ProbeEvery: 50 * time.Millisecond})
	must(t, err)
	defer s.Close()
	dir := filepath.Join(t.TempDir(), "queue")
	c := open(t, s.Counters(), dir)
	var want, pairs uint64
	for round := range uint64(4) {
		var wg sync.WaitGroup
		wg.Go(func() {
			for range 5 {
				time.Sleep(time.Duration(rand.IntN(5)) * time.Millisecond)
				link.Cut()
				time.Sleep(time.Duration(rand.IntN(5)) * time.Millisecond)
				link.Heal()
				link.Slow(time.Millisecond)
			}
		})
		for i := range uint64(60) {
			d := make([]store.Delta, 200)
			for j := range d {
				d[j] = add(uint64(j), 1)[0] //nolint:gosec // not negative
			}
			must(t, c.Add(bg, d))
			want++
			must(t, c.AddUnique(bg, pair(1000, round*30+i%30)))
		}
		pairs += 30
		wg.Wait()
		servertest.Eventually(t, "the queue is empty", func() bool { return s.Healthy() == nil && c.stats.batches.Load() == 0 })
		switch round {
		case 1:
			must(t, c.Close())
			c = open(t, s.Counters(), dir)
		case 2:
			server.Kill()
			must(t, c.Add(bg, add(0, 1)))
			must(t, c.Add(bg, add(1, 1)))
			must(t, c.Sync(bg))
			server.Restart(t)
		}
	}
	servertest.Eventually(t, "the store is well and the queue empty", func() bool { return s.Healthy() == nil && c.stats.batches.Load() == 0 })
	if a, b, p := count(t, c, 0), count(t, c, 199), count(t, c, 1000); a != want+1 || b != want || p != pairs {
		t.Errorf("counted %d, %d and %d uniques; want %d, %d and %d", a, b, p, want+1, want, pairs)
	}
	t.Logf("%d batches failed on the way", c.stats.failed.Load())
	if c.stats.failed.Load() == 0 {
		t.Error("nothing failed: this test shows nothing")
	}
}
