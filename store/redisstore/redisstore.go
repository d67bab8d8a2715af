// Package redisstore keeps the state that several gateways share, in Redis or Valkey: one server, a master with
// replicas and sentinels, or a cluster.
//
// Invariants:
//  1. Keys that a script touches share a hash tag, so every script is atomic on one shard.
//  2. A write of unknown outcome is not repeated. Redirections and unknown scripts are: the server has done nothing.
//  3. Spends, bans, revocations and deletions wait for a replica if there is one. A failover loses writes that no
//     replica had.
//  4. An unavailable store delays a call by Config.Timeout at most, and New does not need it.
//  5. The servers' clocks decide expiry and age. A gateway reports a difference above maxSkew, and Skew returns it.
//  6. ErrGap reports a possible loss: a feed with a broken chain, or an unknown master.
package redisstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/rueidis"
	"github.com/rs/zerolog"

	"antirobot/store"
)

// Store is a store.Store on servers. Made by New; safe for concurrent use.
type Store struct {
	*servers
	*monitor
	values
	quotas
	feed

	cancel context.CancelFunc
	done   sync.WaitGroup
}

var (
	_ store.Store  = (*Store)(nil)
	_ store.Later  = (*Store)(nil)
	_ store.Skewed = (*Store)(nil)
	_ store.Mortal = (*Store)(nil)
	_ store.Keeper = (*Store)(nil)
)

// Deps are the dependencies of a Store. URL is required.
type Deps struct {
	URL string // see ParseURL
	Log zerolog.Logger
	Now func() time.Time // nil: time.Now

	FeedKeep    int           // messages kept of a feed topic at least; 0: 65536
	ProbeEvery  time.Duration // bounds the age of Healthy's answer; 0: a second
	WaitTimeout time.Duration // for a replica's confirmation; 0: 50 ms
}

func (d *Deps) complete() {
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.FeedKeep == 0 {
		d.FeedKeep = 65536
	}
	if d.ProbeEvery == 0 {
		d.ProbeEvery = time.Second
	}
	if d.WaitTimeout == 0 {
		d.WaitTimeout = 50 * time.Millisecond
	}
}

// New returns the store at an address. A server that does not answer is no error: Healthy reports it until it does. One
// that refuses the login is. Goroutines run until Close.
func New(cfg Config, d Deps) (*Store, error) {
	addr, err := ParseURL(d.URL)
	if err != nil {
		return nil, err
	}
	d.complete()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	r := &servers{cfg: cfg, deps: d, addr: addr, scripts: newScripts()}
	if r.option, err = options(addr, &cfg); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	s := &Store{servers: r, values: values{r}}
	s.quotas.servers = r
	s.monitor = newMonitor(r, &s.quotas)
	s.feed = feed{r, s.monitor}
	r.life, s.cancel = context.WithCancel(context.Background())
	if err := s.connect(); err != nil {
		if e, ok := rueidis.IsRedisErr(err); ok && !transient(e) {
			s.cancel()
			return nil, fmt.Errorf("open store: %s refuses: %w", addr, err)
		}
		s.setAil(fmt.Errorf("redis: connect to %s: %w", addr, err))
	} else {
		s.probe(s.life, true)
		if err := s.schemaError(); err != nil {
			s.cancel()
			(*s.client.Load()).Close()
			return nil, fmt.Errorf("open store: %w", err)
		}
	}
	s.done.Go(s.watch)
	s.done.Go(s.sweep)
	return s, nil
}

// Shared implements store.Store: other gateways see the same state.
func (s *Store) Shared() bool { return true }

// Healthy implements store.Store. It also reports clocks that differ, and newer data.
func (s *Store) Healthy() error {
	if err := s.serves(); err != nil {
		return err
	}
	return errors.Join(s.schemaError(), s.clock.err())
}

// ScanKept implements store.Keeper: the servers expire entries by their own clock.
func (s *Store) ScanKept(ctx context.Context, prefix []byte, f func(k, v []byte, ttl time.Duration) error) error {
	return s.Scan(ctx, prefix, f)
}

// Close closes the store; Follow calls return store.ErrClosed.
func (s *Store) Close() error {
	if s.ended.Swap(true) {
		return nil
	}
	s.cancel()
	s.done.Wait()
	if cl := s.client.Load(); cl != nil {
		(*cl).Close()
	}
	return nil
}
