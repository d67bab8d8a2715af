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
)

// Backend is an open store with its counters.
type Backend struct {
	store.Store
	name     string            // in health and the API
	counters store.Counters    // nil: shared ones, until their queue is open
	shared   store.Repeatable  // nil: the counters are not shared
	counts   *redisstore.Store // servers for the counters alone; nil: the store has them
	queue    *backlog.Counters // on disk, before shared counters; nil: not shared
	metrics  func(io.Writer)   // nil: none
}

// Skew implements store.Skewed.
func (b *Backend) Skew() time.Duration { return store.Skew(b.Store) }

// Now returns the time of the clock that all gateways share.
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

// Horizon implements store.Keeper; a store without a clock goes by this machine's.
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

// Healthy implements store.Store. It covers the counters, which may have an engine of their own.
func (b *Backend) Healthy() error {
	err := b.Store.Healthy()
	c, ok := b.counters.(interface{ Healthy() error })
	if b.counters == nil {
		c, ok = b.shared, b.shared != nil
	}
	if ok && err == nil {
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

// queuePatience is how long counts may wait on disk while the store works.
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
	b.shared = b.counts.Counters()
	return b, nil
}

// StoreServer describes a server that gateways share.
type StoreServer = redisstore.Server

// StoreServers asks the servers that a configuration shares with other gateways how they are set up, and changes nothing
// there. An error comes with the answers before it.
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
		return &Backend{Store: s, name: "redis", shared: s.Counters(), metrics: s.WriteMetrics}, nil
	}
	s, err := pebblestore.New(pebblestore.Deps{Dir: filepath.Join(dir, "store"), Log: log, Now: time.Now})
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

// storage is what this process keeps: the store, which gateways may share, and the ring of keys.
type storage struct {
	*base
	store  *Backend
	losses *store.Losses // nil: the store is not shared
	keys   *spravka.Keys
	shared *spravka.SharedRing // nil: the ring is not shared
}

func (s *storage) open() (err error) {
	if s.store, err = OpenBackend(&s.Config().Store, s.Config().DataDir, s.Logger("store")); err != nil {
		return err
	}
	if s.store.metrics != nil {
		s.set.RegisterMetricsWriter(s.store.metrics)
	}
	if s.store.Shared() {
		s.losses = store.NewLosses(s.Logger("store"), time.Now)
		s.set.RegisterMetricsWriter(s.losses.WriteMetrics)
	}
	return nil
}

// localLog returns the file that keeps one kind of data of a shared store, for a start without the store.
func (s *storage) localLog(of string) string { return s.inDataDir(of + ".shared") }

// openCounterQueue puts a queue on disk before counters that are shared.
func (s *storage) openCounterQueue() error {
	if s.store.shared == nil {
		return nil
	}
	queue, err := backlog.Open(backlog.Deps{
		Store: s.store.shared, Dir: s.inDataDir(queueName), Log: s.Logger("counters"), Metrics: s.set,
	})
	if err != nil {
		return err
	}
	s.store.queue, s.store.counters = queue, queue
	return nil
}

func (s *storage) closeCounterQueue() error {
	if s.store.queue == nil {
		return nil
	}
	return s.store.queue.Close()
}

func (s *storage) openKeys() error {
	ring, err := s.loadRing(s.Config(), true)
	if err != nil {
		return err
	}
	if ring.IsExample() && s.Config().Enforces() {
		return config.ErrExampleKey(s.Config())
	}
	s.keys = spravka.NewKeys(ring)
	return nil
}

// closeKeys stops watching a shared ring.
func (s *storage) closeKeys() error {
	if s.shared == nil {
		return nil
	}
	return s.shared.Close()
}

func (s *storage) prepareKeys(next *config.Config) (commit func(), err error) {
	ring, err := s.loadRing(next, false)
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	if ring.IsExample() && next.Enforces() {
		return nil, config.ErrExampleKey(next)
	}
	return s.keys.Prepare(ring)
}

// loadRing reads the key ring from its file, or the one that all gateways share. With create, a gateway with a store of
// its own makes a missing one, and so does the first of those that share a store.
func (s *storage) loadRing(cfg *config.Config, create bool) (*spravka.Ring, error) {
	shared := s.Config().Store.Shared()
	switch {
	case shared && cfg.Keys.File != "":
		ring, err := spravka.LoadRing(cfg.Keys.File)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("keys.file: %s does not exist; with a shared store it is not made here: "+
				"all gateways need the same one (`antirobot keys make`, then copy it)", cfg.Keys.File)
		}
		return ring, err
	case shared:
		secret, err := cfg.Keys.Secret()
		if err != nil {
			return nil, err
		}
		k := &spravka.SharedRing{
			KV: s.store, Secret: secret, Log: s.Logger("keys"), Losses: s.losses,
			Copy: s.inDataDir(config.SharedKeys), Seed: s.inDataDir("keys.json"),
		}
		ring, err := k.Load(create)
		if err != nil || !create {
			return ring, err
		}
		s.shared = k
		return ring, k.Start(context.Background())
	case !create:
		return spravka.LoadRing(cfg.KeyFile())
	}
	ring, made, err := spravka.LoadOrMakeRing(cfg.KeyFile(), time.Now())
	if made {
		s.log.Info().Str("file", cfg.KeyFile()).Msg("made the key ring")
	}
	return ring, err
}
