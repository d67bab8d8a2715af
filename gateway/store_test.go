package gateway

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"antirobot/config"
	"antirobot/store"
	"antirobot/store/redisstore/redistest"
	"antirobot/store/storetest"
)

// ailing is the counters' engine, which fails when the test says so.
type ailing struct {
	store.Counters
	err error
}

func (a *ailing) Healthy() error { return a.err }

// TestHealthAsksTheCounters: the counters have an engine of their own, and what /healthz shows speaks of it, too.
func TestHealthAsksTheCounters(t *testing.T) {
	cfg, problems := config.Parse([]byte(strings.NewReplacer("%DIR%", t.TempDir(), "memory:", "").Replace(first)), nil)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	level := zerolog.GlobalLevel()
	a, err := New(cfg, Deps{Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); zerolog.SetGlobalLevel(level) })
	if h := (status{a}).Store(); !h.Healthy || h.Backend != "pebble" {
		t.Fatalf("before: %+v", h)
	}
	if err := a.alarms.Close(); err != nil { // it looks at the store, too
		t.Fatal(err)
	}
	engine := &ailing{Counters: a.storage.store.counters}
	a.storage.store.counters = engine
	engine.err = errors.New("the disk is full")
	if h := (status{a}).Store(); h.Healthy || !strings.Contains(h.Error, "counters: the disk is full") {
		t.Errorf("with counters that fail: %+v", h)
	}
	engine.err = nil
	if h := (status{a}).Store(); !h.Healthy {
		t.Errorf("after: %+v", h)
	}
	closer, ok := engine.Counters.(interface{ Close() error })
	if !ok {
		t.Fatal("the embedded counters can't be closed")
	}
	a.storage.store.counters = engine.Counters
	if err := closer.Close(); err != nil { // the engine itself is gone, and the store lives
		t.Fatal(err)
	}
	if h := (status{a}).Store(); h.Healthy || !strings.HasPrefix(h.Error, "counters: ") || a.storage.store.Store.Healthy() != nil {
		t.Errorf("without the counters' engine: %+v", h)
	}
}

// TestCountersOfTheirOwn: counts in servers of their own are shared by gateways of which each has a store of its own, and a
// server that is away leaves the store well but for them.
func TestCountersOfTheirOwn(t *testing.T) {
	server := redistest.Start(t)
	cfg := config.Default().Store
	cfg.CountersURL = "redis://" + server.Addr
	open := func() *Backend {
		b, err := OpenBackend(&cfg, t.TempDir(), zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = b.Close() })
		return b
	}
	a, b := open(), open()
	if a.Shared() {
		t.Error("the embedded store is called shared")
	}
	ctx, k := context.Background(), store.Counter{Prefix: "shop", Type: 7, Shingle: 42}
	day := uint32(time.Now().Unix() / 86400) //nolint:gosec // positive
	for _, gateway := range []*Backend{a, b} {
		if err := (storetest.Singly{Repeatable: gateway.shared}).Add(ctx, []store.Delta{{Counter: k, Slot: day * store.SlotsPerDay, N: 2}}); err != nil {
			t.Fatal(err)
		}
	}
	n := make([]uint64, 1)
	if err := storetest.Read(ctx, a.shared, n, []store.Query{{Counter: k, Unit: store.Day, From: day, To: day}}); err != nil || n[0] != 4 {
		t.Errorf("counted %d (%v), two gateways added 2 each", n[0], err)
	}
	server.Kill()
	if err := (storetest.Singly{Repeatable: a.shared}).Add(ctx, []store.Delta{{Counter: k, Slot: day * store.SlotsPerDay, N: 1}}); err == nil {
		t.Error("a count was taken without a server")
	}
	if err := a.Healthy(); err == nil || !strings.HasPrefix(err.Error(), "counters: ") || a.Store.Healthy() != nil {
		t.Errorf("without the counters' server: %v; the rest: %v", err, a.Store.Healthy())
	}
}

// aheadStore is a store whose clock is hours ahead of ours.
type aheadStore struct{ store.Store }

const storeAhead = 5 * time.Hour

func (aheadStore) Skew() time.Duration { return storeAhead }

// TestSealsGoByTheStoresClock: what is sealed for all gateways has the store's time, and not this machine's.
func TestSealsGoByTheStoresClock(t *testing.T) {
	cfg, problems := config.Parse([]byte(strings.NewReplacer("%DIR%", t.TempDir()).Replace(first)), nil)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	level := zerolog.GlobalLevel()
	a, err := New(cfg, Deps{Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	a.Close() // whoever else uses the store
	zerolog.SetGlobalLevel(level)
	a.storage.store.Store = aheadStore{a.storage.store.Store}
	if got := time.Until(a.judge.Captcha().Challenges().Since).Round(time.Hour); got != storeAhead {
		t.Errorf("challenges go by a clock that is %v ahead, want %v", got, storeAhead)
	}
}
