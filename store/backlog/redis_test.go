package backlog

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
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
	cfg.ProbeEvery, cfg.Timeout = 50*time.Millisecond, 5*time.Second
	s, err := redisstore.New(cfg, redisstore.Deps{URL: "redis://" + link.Addr, Log: zerolog.Nop()})
	must(t, err)
	defer s.Close()
	dir := filepath.Join(t.TempDir(), "queue")
	c := open(t, s.Counters(), dir, DefaultConfig())
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
			c = open(t, s.Counters(), dir, DefaultConfig())
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

// asleep is a store that says that it takes nothing while the test says so.
type asleep struct {
	store.Repeatable
	ill atomic.Bool
}

func (a *asleep) Healthy() error {
	if a.ill.Load() {
		return errAway
	}
	return a.Repeatable.Healthy()
}

// BenchmarkDrain measures how fast what has waited goes out, where each call brought a hundred updates; and for comparison the same calls, sent one
// after the other. It runs on the servers of ANTIROBOT_STORE_URL, such as Kvrocks, or else on a Redis of its own.
func BenchmarkDrain(b *testing.B) {
	const each = 100
	calls := 500
	if testing.Short() {
		calls = 10
	}
	url := os.Getenv("ANTIROBOT_STORE_URL")
	if url == "" {
		url = "redis://" + redistest.Start(b).Addr
	}
	s, err := redisstore.New(redisstore.DefaultConfig(), redisstore.Deps{URL: url, Log: zerolog.Nop()})
	must(b, err)
	defer s.Close()
	draw := func() []store.Delta {
		d := make([]store.Delta, each)
		for i := range d {
			d[i] = add(rand.Uint64N(200_000)*0x9e3779b97f4a7c15, 1)[0]
			d[i].Slot = store.TenMinutes.Number(time.Now())
		}
		return d
	}
	b.Run("reference=one-by-one", func(b *testing.B) {
		batch := store.Batch{Writer: rand.Uint64()}
		for b.Loop() {
			for range calls {
				batch.Number, batch.Adds = batch.Number+1, draw()
				must(b, s.Counters().Count(bg, &batch))
			}
		}
		b.ReportMetric(float64(b.N*calls*each)/b.Elapsed().Seconds(), "updates/s")
	})
	b.Run("queue", func(b *testing.B) {
		a := &asleep{Repeatable: s.Counters()}
		c := open(b, a, b.TempDir(), DefaultConfig())
		var took time.Duration
		for b.Loop() {
			a.ill.Store(true)
			for range calls {
				must(b, c.Add(bg, draw()))
			}
			began := time.Now()
			a.ill.Store(false)
			for c.waiting() > 0 {
				time.Sleep(time.Millisecond)
			}
			took += time.Since(began)
		}
		b.ReportMetric(float64(b.N*calls*each)/took.Seconds(), "updates/s")
	})
}

// BenchmarkLoss counts a thousand updates a second for 45 s on the servers of ANTIROBOT_STORE_URL, and after a third of that runs what
// ANTIROBOT_BENCH_KILL says, in a shell: it reports what became of what was acknowledged. Without these it counts for a moment, and nothing is lost.
func BenchmarkLoss(b *testing.B) {
	url, kill, calls := os.Getenv("ANTIROBOT_STORE_URL"), os.Getenv("ANTIROBOT_BENCH_KILL"), 450
	if url == "" || kill == "" {
		url, kill, calls = "redis://"+redistest.Start(b).Addr, "true", 3
	}
	s, err := redisstore.New(redisstore.DefaultConfig(), redisstore.Deps{URL: url, Log: zerolog.Nop()})
	must(b, err)
	defer s.Close()
	for b.Loop() {
		c := open(b, s.Counters(), b.TempDir(), DefaultConfig())
		first, want, slowest, away := rand.Uint64(), map[uint64]uint64{}, time.Duration(0), time.Duration(0)
		for i := range calls {
			if i == calls/3 {
				must(b, exec.Command("sh", "-c", kill).Run())
			}
			var d []store.Delta
			for range 100 {
				shingle := first + rand.Uint64N(20_000)
				want[shingle]++
				d = append(d, add(shingle, 1)...)
			}
			began := time.Now()
			must(b, c.Add(bg, d))
			must(b, c.Sync(bg))
			slowest = max(slowest, time.Since(began))
			away = max(away, c.Age())
			time.Sleep(100*time.Millisecond - time.Since(began))
		}
		servertest.Eventually(b, "the queue is empty", func() bool { return c.waiting() == 0 })
		var lost, twice uint64
		for shingle, n := range want {
			got := count(b, s.Counters(), shingle)
			lost, twice = lost+n-min(got, n), twice+got-min(got, n)
		}
		b.ReportMetric(float64(calls*100), "acknowledged")
		b.ReportMetric(float64(lost), "lost")
		b.ReportMetric(float64(twice), "twice")
		b.ReportMetric(slowest.Seconds(), "s-slowest")
		b.ReportMetric(away.Seconds(), "s-waited")
	}
}
