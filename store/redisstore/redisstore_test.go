package redisstore_test

import (
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"antirobot/store"
	"antirobot/store/redisstore"
	"antirobot/store/redisstore/redistest"
	"antirobot/store/storetest"
)

func TestMain(m *testing.M) {
	// The client closes the connections to a server that left the cluster some seconds later, in its own goroutine.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"))
}

var opened atomic.Int64

// config gives each store of a test its own keys.
func config() redisstore.Config {
	cfg := redisstore.DefaultConfig()
	cfg.KeyPrefix = fmt.Sprintf("antirobot-t%d", opened.Add(1))
	cfg.Timeout = 30 * time.Second // the machine may be busy; tests of outages have their own
	return cfg
}

func open(t testing.TB, url string, cfg redisstore.Config) *redisstore.Store {
	t.Helper()
	return openWith(t, cfg, redisstore.Deps{URL: url})
}

func openWith(t testing.TB, cfg redisstore.Config, d redisstore.Deps) *redisstore.Store {
	t.Helper()
	d.Log, d.FeedKeep, d.ProbeEvery = zerolog.Nop(), 100, 100*time.Millisecond
	s, err := redisstore.New(cfg, d)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// conforms runs the suites of package storetest against the servers at url.
func conforms(t *testing.T, url string, runs int) {
	configs := map[store.Store]redisstore.Config{}
	opener := func(t *testing.T) store.Store {
		cfg := config()
		s := open(t, url, cfg)
		configs[s] = cfg
		return s
	}
	t.Run("Store", func(t *testing.T) {
		storetest.Run(t, opener, storetest.Options{
			FeedKept: 400,
			Reopen: func(t *testing.T, s store.Store) store.Store {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				return open(t, url, configs[s])
			},
		})
	})
	t.Run("Repeatable", func(t *testing.T) {
		storetest.RunRepeatable(t, func(t *testing.T) store.Repeatable { return open(t, url, config()).Counters() })
	})
	type opened struct {
		*redisstore.Store
		cfg redisstore.Config
	}
	behind := map[store.Counters]opened{}
	counters := func(t *testing.T, cfg redisstore.Config) store.Counters {
		s := open(t, url, cfg)
		c := storetest.Singly{Repeatable: s.Counters()}
		behind[c] = opened{s, cfg}
		return c
	}
	closed := func(t *testing.T, c store.Counters) {
		if err := behind[c].Close(); err != nil {
			t.Error(err)
		}
	}
	t.Run("Counters", func(t *testing.T) {
		storetest.RunCounters(t, func(t *testing.T) store.Counters { return counters(t, config()) }, storetest.CounterOptions{
			Runs:    runs,
			Expires: true,
			Close:   closed, // hundreds of stores that ask their server ten times a second whether it is there are work
			Reopen: func(t *testing.T, c store.Counters) store.Counters {
				closed(t, c)
				return counters(t, behind[c].cfg)
			},
		})
	})
}

// TestConformsSingle runs the suites against its own server, or against the one named in the environment: for servers that
// speak the protocol and have not been tried yet.
func TestConformsSingle(t *testing.T) {
	if url := os.Getenv("ANTIROBOT_STORE_URL"); url != "" {
		conforms(t, url, 30)
		return
	}
	conforms(t, "redis://"+redistest.Start(t).Addr, 30)
}

func TestConformsCluster(t *testing.T) {
	t.Parallel()
	conforms(t, redistest.StartCluster(t, 3, 1).URL(), 8)
}
