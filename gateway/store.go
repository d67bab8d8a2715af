package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"

	"antirobot/config"
	"antirobot/spravka"
	"antirobot/store"
	"antirobot/store/backlog"
	"antirobot/store/pebblestore"
	"antirobot/store/redisstore"
	"antirobot/verdict/counter"
)

// Backend is an open store with its counters.
type Backend struct {
	store.Store
	name     string // as health and the API call it
	counters store.Counters
	counts   *redisstore.Store // the servers that have only the counters; nil: they are with the rest
	queue    *backlog.Counters // before the counters, on disk; nil: they are not shared
	metrics  func(io.Writer)   // nil: it has none
}

// Skew implements store.Skewed.
func (b *Backend) Skew() time.Duration { return store.Skew(b.Store) }

// Now is the present by the clock that all gateways share: everything that they seal for each other goes by it.
func (b *Backend) Now() time.Time { return store.Time(b.Store, time.Now()) }

// SpendLater implements store.Later.
func (b *Backend) SpendLater(key []byte, ttl time.Duration) {
	if s, ok := b.Store.(store.Later); ok {
		s.SpendLater(key, ttl)
	}
}

// Life implements store.Mortal.
func (b *Backend) Life() (name string, masters uint64) {
	if s, ok := b.Store.(store.Mortal); ok {
		return s.Life()
	}
	return "", 0
}

// Horizon implements store.Keeper, as do Jumps and ScanKept: where the store knows no better, by this machine's clock.
func (b *Backend) Horizon() time.Time { return store.Horizon(b.Store, time.Now()) }

// Jumps implements store.Keeper.
func (b *Backend) Jumps() uint64 {
	if k, ok := b.Store.(store.Keeper); ok {
		return k.Jumps()
	}
	return 0
}

// Hasten is store.Hasten.
func (b *Backend) Hasten() store.Store { return store.Hasten(b.Store) }

// ScanKept implements store.Keeper.
func (b *Backend) ScanKept(ctx context.Context, prefix []byte, f func(k, v []byte, ttl time.Duration) error) error {
	return store.ScanKept(ctx, b.Store, prefix, f)
}

// Healthy implements store.Store, for the counters, too: the embedded ones have an engine of their own.
func (b *Backend) Healthy() error {
	err := b.Store.Healthy()
	if c, ok := b.counters.(interface{ Healthy() error }); ok && err == nil {
		if err = c.Healthy(); err != nil {
			err = fmt.Errorf("counters: %w", err)
		}
	}
	if b.queue != nil && err == nil {
		if age := b.queue.Age(); age > queuePatience {
			err = fmt.Errorf("counters: the store works, but some have been waiting on disk for %v", age.Round(time.Second))
		}
	}
	return err
}

// Close implements store.Store.
func (b *Backend) Close() error {
	err := b.Store.Close()
	if b.counts != nil {
		err = errors.Join(err, b.counts.Close())
	}
	return err
}

// queuePatience is how long counts may wait on disk for a store that works.
const queuePatience = 5 * time.Minute

// OpenBackend opens the store that the configuration names. Dir is the data directory.
func OpenBackend(cfg *config.Store, dir string, log zerolog.Logger) (*Backend, error) {
	b, err := openBackend(cfg, dir, log)
	if err != nil || cfg.CountersURL == "" {
		return b, err
	}
	if b.counts, err = redisstore.New(cfg.Redis, redisstore.Deps{URL: cfg.CountersURL, Log: log}); err != nil {
		return nil, errors.Join(fmt.Errorf("store.counters_url: %w", err), b.Close())
	}
	b.counters = b.counts.Counters()
	return b, nil
}

// StoreServer is what a server that gateways share says of itself.
type StoreServer = redisstore.Server

// StoreServers asks the servers that a configuration shares with other gateways, if any, how they are set up. It changes nothing there. Those that
// were asked before one did not answer are returned with the error.
func StoreServers(ctx context.Context, cfg *config.Store) (all []StoreServer, err error) {
	for _, address := range cfg.Servers() {
		servers, err := redisstore.Servers(ctx, cfg.Redis, address)
		if err != nil {
			return all, err
		}
		all = append(all, servers...)
	}
	return all, nil
}

func openBackend(cfg *config.Store, dir string, log zerolog.Logger) (*Backend, error) {
	switch {
	case cfg.URL == config.MemoryURL:
		return &Backend{Store: store.NewMemory(nil), name: "memory", counters: store.NewMemoryCounters()}, nil
	case cfg.Shared():
		s, err := redisstore.New(cfg.Redis, redisstore.Deps{URL: cfg.URL, Log: log})
		if err != nil {
			return nil, err
		}
		return &Backend{Store: s, name: "redis", counters: s.Counters(), metrics: s.WriteMetrics}, nil
	}
	s, err := pebblestore.New(cfg.Embedded(), pebblestore.Deps{Dir: filepath.Join(dir, "store"), Log: log, Now: time.Now})
	if err != nil {
		return nil, err
	}
	b := &Backend{Store: s, name: "pebble", metrics: s.WriteMetrics}
	if cfg.CountersURL != "" {
		return b, nil
	}
	if b.counters, err = s.OpenCounters(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return b, nil
}

func (a *Server) openStore() (err error) {
	if a.store, err = OpenBackend(&a.Config().Store, a.Config().DataDir, a.Logger("store")); err != nil {
		return err
	}
	if a.store.metrics != nil {
		a.set.RegisterMetricsWriter(a.store.metrics)
	}
	if a.store.Shared() {
		a.losses = store.NewLosses(a.Logger("store"), time.Now)
		a.set.RegisterMetricsWriter(a.losses.WriteMetrics)
	}
	return nil
}

// openCounterQueue puts a queue on disk before counters that are shared.
func (a *Server) openCounterQueue() error {
	counters, ok := a.store.counters.(store.Repeatable)
	if !ok {
		return nil
	}
	queue, err := backlog.Open(a.Config().Store.Queue, backlog.Deps{
		Store: counters, Dir: filepath.Join(a.Config().DataDir, queueName), Log: a.Logger("counters"), Metrics: a.set,
	})
	if err != nil {
		return err
	}
	a.store.queue, a.store.counters = queue, queue
	return nil
}

func (a *Server) closeCounterQueue() error {
	if a.store.queue == nil {
		return nil
	}
	return a.store.queue.Close()
}

// localLog is the file that keeps one kind of data from a shared store, for a start without the store.
func (a *Server) localLog(of string) string { return filepath.Join(a.Config().DataDir, of+".shared") }

// openCounters starts the counters, with their goroutine that flushes and forgets what is too old.
func (a *Server) openCounters() (err error) {
	a.counters, err = counter.New(a.Config().Counters, counter.Deps{Store: a.store.counters, Log: a.Logger("counters"), Metrics: a.set})
	if err != nil {
		return err
	}
	return a.counters.Start(context.Background())
}

// closeKeys ends the watch over a shared ring.
func (a *Server) closeKeys() error {
	if a.sharedRing == nil {
		return nil
	}
	return a.sharedRing.Close()
}

func (a *Server) openKeys() error {
	ring, err := a.loadRing(a.Config(), true)
	if err != nil {
		return err
	}
	if ring.IsExample() && a.Config().Enforces() {
		return config.ErrExampleKey(a.Config())
	}
	a.keys = spravka.NewKeys(ring)
	return nil
}

// loadRing reads the key ring: from its file, or the one that all gateways share. With create it is made where there is
// none: by a gateway with a store of its own, or by the first of those that share one. The store is the one that is open.
func (a *Server) loadRing(cfg *config.Config, create bool) (*spravka.Ring, error) {
	shared := a.Config().Store.Shared()
	switch {
	case shared && cfg.Keys.File != "":
		ring, err := spravka.LoadRing(cfg.Keys.File)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("keys.file: %s does not exist; with a shared store it is not made here: all gateways need the same one (`antirobot keys make`, then copy it)", cfg.Keys.File)
		}
		return ring, err
	case shared:
		secret, err := cfg.Keys.Secret()
		if err != nil {
			return nil, err
		}
		k := &spravka.SharedRing{
			KV: a.store, Secret: secret, Log: a.Logger("keys"), Losses: a.losses,
			Copy: filepath.Join(a.Config().DataDir, config.SharedKeys), Seed: filepath.Join(a.Config().DataDir, "keys.json"),
		}
		ring, err := k.Load(create)
		if err != nil || !create {
			return ring, err
		}
		a.sharedRing = k
		return ring, k.Start(context.Background())
	case !create:
		return spravka.LoadRing(cfg.KeyFile())
	}
	ring, made, err := spravka.LoadOrMakeRing(cfg.KeyFile(), time.Now())
	if made {
		a.log.Info().Str("file", cfg.KeyFile()).Msg("made the key ring")
	}
	return ring, err
}
