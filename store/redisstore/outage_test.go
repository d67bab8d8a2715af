package redisstore_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"antirobot/servertest"
	"antirobot/store"
	"antirobot/store/redisstore/redistest"
)

// TestMasterKilled kills a master of a cluster under load: whatever was acknowledged, and not counted as unreplicated, is
// still spent.
func TestMasterKilled(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 1)
	cfg := config()
	s := open(t, c.URL(), cfg)
	if n := metric(t, s, "antirobot_redis_replicas"); n != 3 {
		t.Fatalf("%v replicas are seen", n)
	}
	victim := c.Master(t, cfg.KeyPrefix+"{00}xprobe")
	var mu sync.Mutex
	var acked [][]byte
	var failed atomic.Int64
	var down, up atomic.Int64 // when the first call failed, and when the last one did
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				key := fmt.Appendf(nil, "%d/%d", w, i)
				first, err := s.Spend(bg, key, time.Hour)
				now := time.Now().UnixNano()
				if err != nil {
					failed.Add(1)
					down.CompareAndSwap(0, now)
					up.Store(now)
					continue
				}
				if !first {
					t.Errorf("a new key is spent")
				}
				mu.Lock()
				acked = append(acked, key)
				mu.Unlock()
			}
		})
	}
	spends := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(acked)
	}
	servertest.Eventually(t, "spends", func() bool { return spends() >= 500 })
	killed := time.Now()
	victim.Kill()
	time.Sleep(500 * time.Millisecond)
	recovered := servertest.Eventually(t, "health after the failover", func() bool { return s.Healthy() == nil && time.Since(killed) > 3*time.Second })
	before := spends()
	servertest.Eventually(t, "spends after the failover", func() bool { return spends() >= before+500 })
	close(stop)
	wg.Wait()
	var lost atomic.Int64
	for w := range 8 {
		wg.Go(func() {
			for i := w; i < len(acked); i += 8 {
				first, err := s.Spend(bg, acked[i], time.Hour)
				if err != nil {
					t.Error(err)
				}
				if first {
					lost.Add(1)
				}
			}
		})
	}
	wg.Wait()
	short := metric(t, s, "antirobot_redis_unreplicated_total")
	t.Logf("%d spends acknowledged, %d failed; a part failed for %v; well after %v; lost %d, unreplicated %v",
		len(acked), failed.Load(), time.Duration(up.Load()-down.Load()), recovered, lost.Load(), short)
	if float64(lost.Load()) > short {
		t.Errorf("%d acknowledged spends are lost, %v of them were counted as unreplicated", lost.Load(), short)
	}
}

// TestSentinel: the sentinels move a store to its replica.
func TestSentinel(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	replica := redistest.StartReplica(t, r)
	watch := redistest.StartSentinel(t, r)
	servertest.Eventually(t, "the sentinel knows the replica", func() bool {
		return strings.Contains(watch.CLI(t, "sentinel", "replicas", "main"), "127.0.0.1")
	})
	cfg := config()
	s := open(t, "redis-sentinel://"+watch.Addr+"/main", cfg)
	must(t, s.Healthy())
	must(t, s.Put(bg, []byte("k"), []byte("v"), 0))
	servertest.Eventually(t, "the replica has what was written", func() bool { return replica.CLI(t, "dbsize") == r.CLI(t, "dbsize") })
	r.Kill()
	took := servertest.Eventually(t, "a write after the failover", func() bool { return s.Put(bg, []byte("k2"), []byte("v"), 0) == nil })
	t.Logf("the first write after %v", took)
	if v, err := s.Get(bg, nil, []byte("k")); err != nil || string(v) != "v" {
		t.Errorf("what was written before is %q, %v", v, err)
	}
}

// TestLostFeed: a server that restarts without its data has lost the feed: followers are told even if no new message comes.
func TestLostFeed(t *testing.T) {
	r := redistest.Start(t)
	s := open(t, "redis://"+r.Addr, config())
	must(t, s.Append(bg, "t", []byte("m")))
	pos, err := s.Position(bg, "t")
	must(t, err)
	end := make(chan error, 1)
	go func() { end <- s.Follow(bg, "t", pos, func(string, []byte) error { return nil }) }()
	time.Sleep(50 * time.Millisecond)
	r.CLI(t, "flushall")
	select {
	case err := <-end:
		if !errors.Is(err, store.ErrGap) {
			t.Errorf("Follow over a loss: %v; want ErrGap", err)
		}
	case <-time.After(60 * time.Second):
		t.Fatal("Follow does not notice")
	}
	// The same when new messages come first.
	must(t, s.Append(bg, "t", []byte("new")))
	if err := s.Follow(bg, "t", pos, func(string, []byte) error { return errors.New("a message after a loss") }); !errors.Is(err, store.ErrGap) {
		t.Errorf("Follow from before the loss: %v; want ErrGap", err)
	}
}
