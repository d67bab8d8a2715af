package gateway

import (
	"errors"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"antirobot/config"
	"antirobot/store"
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
	if h := a.Store(); !h.Healthy || h.Backend != "pebble" {
		t.Fatalf("before: %+v", h)
	}
	engine := &ailing{Counters: a.store.counters}
	a.store.counters = engine
	engine.err = errors.New("the disk is full")
	if h := a.Store(); h.Healthy || !strings.Contains(h.Error, "counters: the disk is full") {
		t.Errorf("with counters that fail: %+v", h)
	}
	engine.err = nil
	if h := a.Store(); !h.Healthy {
		t.Errorf("after: %+v", h)
	}
	closer, ok := engine.Counters.(interface{ Close() error })
	if !ok {
		t.Fatal("the embedded counters can't be closed")
	}
	a.store.counters = engine.Counters
	if err := closer.Close(); err != nil { // the engine itself is gone, and the store lives
		t.Fatal(err)
	}
	if h := a.Store(); h.Healthy || !strings.HasPrefix(h.Error, "counters: ") || a.store.Store.Healthy() != nil {
		t.Errorf("without the counters' engine: %+v", h)
	}
}
