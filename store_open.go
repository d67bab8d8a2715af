package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"antirobot/spravka"
	"antirobot/store"
	"antirobot/store/pebblestore"
	"antirobot/store/redisstore"
	"antirobot/verdict/counter"
)

// StoreConfig says where state is kept, and how.
type StoreConfig struct {
	// URL chooses the store: empty is the embedded one in the data directory.
	URL string `mapstructure:"url"`

	// Of the embedded store; see pebblestore.Config.
	CacheBytes    int64                      `mapstructure:"cache_bytes"`
	MemTableBytes int64                      `mapstructure:"mem_table_bytes"`
	WriteTimeout  time.Duration              `mapstructure:"write_timeout"`
	SweepEvery    time.Duration              `mapstructure:"sweep_every"`
	FeedKeep      int                        `mapstructure:"feed_keep"`
	Counters      pebblestore.CountersConfig `mapstructure:"counters"`

	Redis redisstore.Config `mapstructure:"redis"` // of a shared one
}

func defaultStoreConfig() StoreConfig {
	p := pebblestore.DefaultConfig()
	return StoreConfig{
		CacheBytes: p.CacheBytes, MemTableBytes: p.MemTableBytes, WriteTimeout: p.WriteTimeout, SweepEvery: p.SweepEvery,
		FeedKeep: p.FeedKeep, Counters: p.Counters, Redis: redisstore.DefaultConfig(),
	}
}

func (c *StoreConfig) embedded() pebblestore.Config {
	return pebblestore.Config{
		CacheBytes: c.CacheBytes, MemTableBytes: c.MemTableBytes, WriteTimeout: c.WriteTimeout, SweepEvery: c.SweepEvery,
		FeedKeep: c.FeedKeep, Counters: c.Counters,
	}
}

const memoryURL = "memory:"

// shared reports whether other gateways use the same store.
func (c *StoreConfig) shared() bool { return c.URL != "" && c.URL != memoryURL }

// Validate returns every error of c.
func (c *StoreConfig) Validate() error {
	errs := []error{c.embedded().Validate(), withPath("redis", c.Redis.Validate())}
	if c.shared() {
		if _, err := redisstore.ParseURL(c.URL); err != nil {
			errs = append(errs, fmt.Errorf("url: %w; leave it empty for the embedded store", err))
		}
	}
	return errors.Join(errs...)
}

// backend is an open store with its counters.
type backend struct {
	store.Store
	name     string // as health and the API call it
	counters store.Counters
	metrics  func(io.Writer) // nil: it has none
}

// openBackend opens the store that the configuration names. Dir is the data directory.
func openBackend(cfg *StoreConfig, dir string, log zerolog.Logger) (*backend, error) {
	switch {
	case cfg.URL == memoryURL:
		return &backend{Store: store.NewMemory(nil), name: "memory", counters: store.NewMemoryCounters()}, nil
	case cfg.shared():
		s, err := redisstore.Open(cfg.URL, cfg.Redis, log)
		if err != nil {
			return nil, err
		}
		return &backend{Store: s, name: "redis", counters: s.Counters(), metrics: s.WriteMetrics}, nil
	}
	s, err := pebblestore.Open(filepath.Join(dir, "store"), cfg.embedded(), log, time.Now)
	if err != nil {
		return nil, err
	}
	counters, err := s.OpenCounters()
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return &backend{Store: s, name: "pebble", counters: counters}, nil
}

func (a *app) openStore() (err error) {
	if a.store, err = openBackend(&a.cfg.Store, a.cfg.DataDir, a.part("store")); err != nil {
		return err
	}
	if a.store.metrics != nil {
		a.set.RegisterMetricsWriter(a.store.metrics)
	}
	return nil
}

// openCounters starts the counters, with their goroutine that flushes and forgets what is too old.
func (a *app) openCounters() (err error) {
	if a.counters, err = counter.New(a.store.counters, a.cfg.Counters, a.part("counters"), time.Now); err != nil {
		return err
	}
	a.set.RegisterMetricsWriter(a.counters.WriteMetrics)
	return nil
}

// closePatience is for what counters hold when the gateway ends.
const closePatience = 10 * time.Second

func (a *app) closeCounters() error {
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	return a.counters.Close(ctx)
}

func (a *app) openKeys() error {
	ring, err := a.loadRing(a.cfg, true)
	if err != nil {
		return err
	}
	if ring.IsExample() && a.cfg.enforces() {
		return errExampleKey(a.cfg)
	}
	a.ring.Store(ring)
	return nil
}

// loadRing reads the key ring: from its file, or the one that all gateways share. With create it is made where there is
// none: by a gateway with a store of its own, or by the first of those that share one. The store is the one that is open.
func (a *app) loadRing(cfg *Config, create bool) (*spravka.Ring, error) {
	shared := a.cfg.Store.shared()
	switch {
	case shared && cfg.Keys.File != "":
		ring, err := spravka.LoadRing(cfg.Keys.File)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("keys.file: %s does not exist; with a shared store it is not made here: all gateways need the same one (`antirobot keys make`, then copy it)", cfg.Keys.File)
		}
		return ring, err
	case shared:
		secret, err := cfg.Keys.secret()
		if err != nil {
			return nil, err
		}
		k := sharedRing{
			kv: a.store, secret: secret, log: a.part("keys"),
			copy: filepath.Join(a.cfg.DataDir, "keys.shared"), seed: filepath.Join(a.cfg.DataDir, "keys.json"),
		}
		return k.load(create)
	case !create:
		return spravka.LoadRing(cfg.keyFile())
	}
	ring, made, err := spravka.LoadOrMakeRing(cfg.keyFile(), time.Now())
	if made {
		a.log.Info().Str("file", cfg.keyFile()).Msg("made the key ring")
	}
	return ring, err
}

// secret returns what the shared key ring is wrapped with.
func (k *KeysConfig) secret() ([]byte, error) {
	var secret, path string
	switch {
	case k.SecretFile != "":
		b, err := os.ReadFile(k.SecretFile)
		if err != nil {
			return nil, fmt.Errorf("keys.secret_file: %w", err)
		}
		secret, path = strings.TrimRight(string(b), "\r\n"), "keys.secret_file"
	case k.SecretEnv != "":
		secret, path = os.Getenv(k.SecretEnv), "keys.secret_env"
	default:
		return nil, errors.New("the store is shared, so all gateways need one key ring: give each the same secret in keys.secret_file or " +
			"keys.secret_env (16 bytes or more), and the first one makes the ring and keeps it in the store, wrapped with it; " +
			"or give each the same ring in keys.file")
	}
	if len(secret) < spravka.MinWrapSecret {
		return nil, fmt.Errorf("%s: the secret has %d bytes, and needs %d or more", path, len(secret), spravka.MinWrapSecret)
	}
	return []byte(secret), nil
}

// sharedRing is the key ring in a shared store, wrapped by an operator's secret. A copy, wrapped as well, lies in the
// data directory, for a start while the store is away.
type sharedRing struct {
	kv     store.KV
	secret []byte
	copy   string
	seed   string // a ring of the time before the store was shared, if there is one: then its passes stay good
	log    zerolog.Logger
}

const (
	sharedRingKey     = "keys/ring"
	sharedRingTimeout = 10 * time.Second
)

func (k *sharedRing) load(create bool) (*spravka.Ring, error) {
	ctx, cancel := context.WithTimeout(context.Background(), sharedRingTimeout)
	defer cancel()
	blob, err := k.kv.Get(ctx, nil, []byte(sharedRingKey))
	if errors.Is(err, store.ErrNotFound) && create {
		blob, err = k.create(ctx)
	}
	if err != nil {
		kept, readErr := os.ReadFile(k.copy)
		if readErr != nil {
			return nil, fmt.Errorf("read the key ring of the shared store: %w", err)
		}
		k.log.Warn().Err(err).Str("copy", k.copy).Msg("the shared store does not give the key ring: taking the last copy")
		return spravka.Unwrap(kept, k.secret)
	}
	ring, err := spravka.Unwrap(blob, k.secret)
	if err != nil {
		return nil, err
	}
	if err := keepCopy(k.copy, blob); err != nil {
		k.log.Warn().Err(err).Msg("the next start needs the shared store: its key ring could not be copied")
	}
	return ring, nil
}

// create puts a ring into the store, unless another gateway was faster: then that one's is returned.
func (k *sharedRing) create(ctx context.Context) ([]byte, error) {
	ring, err := spravka.LoadRing(k.seed)
	if errors.Is(err, fs.ErrNotExist) {
		ring, err = spravka.NewRing([]spravka.Key{spravka.MakeKey(time.Now())})
	}
	if err != nil {
		return nil, err
	}
	blob, err := spravka.Wrap(ring, k.secret)
	if err != nil {
		return nil, err
	}
	first, err := k.kv.Swap(ctx, []byte(sharedRingKey), nil, blob, 0)
	if err != nil {
		return nil, err
	}
	if first {
		k.log.Info().Msg("made the key ring of all gateways, and put it into the shared store")
		return blob, nil
	}
	return k.kv.Get(ctx, nil, []byte(sharedRingKey))
}

// keepCopy writes a file of mode 0600 as a whole.
func keepCopy(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".keys.*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
