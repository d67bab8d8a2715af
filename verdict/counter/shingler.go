// Package counter counts shingles over ten minutes and days: the buffer and the cache before a store.Counters.
//
// Invariants:
//  1. Add touches memory only. A hot counter costs one write per flush.
//  2. A read sees every earlier update of this process once, flushed or not.
//  3. An update counts at most once. Losses are counted: a full buffer, a failed flush.
//  4. Uniques are tested and counted by the store at once, with this process's counts of their pairs; a known pair
//     costs no store access.
//  5. Memory is bounded by Config.MaxBuffered and Config.CacheBytes.
package counter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/coocood/freecache"
	"github.com/rs/zerolog"

	"antirobot/store"
)

// Shingler is the buffer and the cache. Made by New; safe for concurrent use.
type Shingler struct {
	backend    store.Counters
	cfg        Config
	log        zerolog.Logger
	now        func() time.Time
	limit      int
	flushEvery time.Duration
	prefixes   prefixes
	cache      cache
	shards     [shards]shard
	floors     [2]atomic.Uint32 // by unit: older records were dropped, and are not cached

	flushMu sync.Mutex
	order   []int32 // of the table in flush; guarded by flushMu
	deltas  []store.Delta

	stats stats
	kick  chan int // shards that are filling up
	stop  context.CancelFunc
	done  sync.WaitGroup
	ended atomic.Bool
}

// Deps is what a Shingler works with. Store is required, and outlives it.
type Deps struct {
	Store   store.Counters
	Now     func() time.Time
	Log     zerolog.Logger
	Metrics *metrics.Set

	flushEvery time.Duration // 0: the constant
}

type stats struct {
	updates, uniques, reads, hits, misses, flushed      atomic.Uint64
	lostFull, lostFlush, lostUnique, postponed, flushes atomic.Uint64
}

// shared is implemented by backends that other gateways may share.
type shared interface{ Shared() bool }

// healthy is how a backend reports its state; a flush waits for nil.
type healthy interface{ Healthy() error }

// New returns a Shingler that counts and answers. Until Start only Flush flushes.
func New(cfg Config, d Deps) (*Shingler, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("counter: %w", err)
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	s := &Shingler{
		backend: d.Store, cfg: cfg, log: d.Log, now: d.Now,
		limit: cfg.MaxBuffered / shards, flushEvery: cmp.Or(d.flushEvery, flushEvery),
		cache: cache{c: freecache.NewCache(int(cfg.CacheBytes))},
		kick:  make(chan int, shards),
	}
	if b, ok := d.Store.(shared); ok && b.Shared() {
		s.cache.expire = int(cacheTTL / time.Second)
	}
	for i := range s.shards {
		s.shards[i].active, s.shards[i].flushing = newTable(), newTable()
	}
	if d.Metrics != nil {
		d.Metrics.RegisterMetricsWriter(s.writeMetrics)
	}
	return s, nil
}

// Start starts flushing and dropping. Call it once, before Close.
func (s *Shingler) Start(context.Context) error {
	if s.ended.Load() {
		return store.ErrClosed
	}
	run, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.done.Go(func() { s.run(run) })
	return nil
}

// Batch is a group of updates and queries. The caller owns it and may reuse it.
type Batch struct {
	Uniques []store.Unique // counted first
	Adds    []store.Delta  // then these
	Queries []store.Query
	// Before receives the answers to Queries, as of before the batch's updates.
	Before []uint64
}

// Reset empties b and keeps its memory.
func (b *Batch) Reset() {
	b.Uniques, b.Adds, b.Queries, b.Before = b.Uniques[:0], b.Adds[:0], b.Queries[:0], b.Before[:0]
}

// Do answers the batch's queries and then makes its updates. A malformed item fails the whole batch. If the store
// cannot be read, the answers are zero and the updates are made. Other updates may come in between.
func (s *Shingler) Do(ctx context.Context, b *Batch) error {
	if s.ended.Load() {
		return store.ErrClosed
	}
	if err := s.check(b); err != nil {
		return err
	}
	_, err := s.do(ctx, b)
	return err
}

// do is Do for a checked batch. all is false if an update is lost.
func (s *Shingler) do(ctx context.Context, b *Batch) (all bool, err error) {
	b.Before = grow(b.Before, len(b.Queries))
	readErr := s.Read(ctx, b.Before, b.Queries)
	if readErr != nil {
		clear(b.Before)
	}
	uniqueErr := s.addUnique(ctx, b.Uniques)
	all = true
	for i := range b.Adds {
		all = s.add(&b.Adds[i]) && all
	}
	return all, errors.Join(readErr, uniqueErr)
}

var errNotKept = errors.New("counter: the updates, or a part of them, are lost")

// DoSafely is Do, and returns when the updates are as safe as the store makes them (store.Records.Sync). Concurrent
// callers share the writes. After an error some updates may be lost.
func (s *Shingler) DoSafely(ctx context.Context, b *Batch) error {
	if s.ended.Load() {
		return store.ErrClosed
	}
	if err := s.check(b); err != nil {
		return err
	}
	var touched uint64
	for i := range b.Adds {
		touched |= 1 << s.name(&b.Adds[i].Counter).shard()
	}
	for i := range b.Uniques { // a pair that is known is an update, too
		pair := b.Uniques[i].PairCounter()
		touched |= 1 << s.name(&pair).shard()
	}
	var lost [shards]uint64
	for i := range s.shards {
		lost[i] = s.shards[i].lost.Load()
	}
	all, err := s.do(ctx, b)
	if !all {
		err = errors.Join(err, errNotKept)
	}
	for i := range s.shards {
		if touched&(1<<i) == 0 {
			continue
		}
		if flushErr := s.flushNow(ctx, i); flushErr != nil {
			err = errors.Join(err, flushErr)
		} else if s.shards[i].lost.Load() != lost[i] { // by another caller's flush
			err = errors.Join(err, errNotKept)
		}
	}
	if syncErr := s.backend.Sync(ctx); syncErr != nil {
		err = errors.Join(err, fmt.Errorf("counter: sync: %w", syncErr))
	}
	return err
}

func grow(b []uint64, n int) []uint64 {
	if cap(b) < n {
		return make([]uint64, n)
	}
	return b[:n]
}

func (s *Shingler) check(b *Batch) error {
	for i := range b.Uniques {
		if _, ok := s.prefixes.number(b.Uniques[i].Prefix); !ok {
			return fmt.Errorf("counter: unique %d: %w: %.80q", i, store.ErrPrefix, b.Uniques[i].Prefix)
		}
	}
	for i := range b.Adds {
		if _, ok := s.prefixes.number(b.Adds[i].Prefix); !ok {
			return fmt.Errorf("counter: update %d: %w: %.80q", i, store.ErrPrefix, b.Adds[i].Prefix)
		}
	}
	return s.checkQueries(b.Queries)
}

func (s *Shingler) checkQueries(q []store.Query) error {
	for i := range q {
		if err := q[i].Valid(); err != nil {
			return fmt.Errorf("counter: query %d: %w", i, err)
		}
		if _, ok := s.prefixes.number(q[i].Prefix); !ok {
			return fmt.Errorf("counter: query %d: %w: %.80q", i, store.ErrPrefix, q[i].Prefix)
		}
	}
	return nil
}

// Add counts one update, in memory. A lost update is counted.
func (s *Shingler) Add(d store.Delta) { s.add(&d) }

// add returns false if the update is lost.
func (s *Shingler) add(d *store.Delta) bool {
	s.stats.updates.Add(1)
	prefix, ok := s.prefixes.number(d.Prefix)
	if !ok || s.ended.Load() {
		s.stats.lostFull.Add(1)
		return false
	}
	if d.N == 0 {
		return true
	}
	k := name{d.Shingle, prefix, d.Type}
	i := k.shard()
	sh := &s.shards[i]
	sh.mu.Lock()
	ok = sh.active.add(k, d.Slot, d.N, s.limit)
	filling := len(sh.active.entries) == s.limit/2+1
	sh.mu.Unlock()
	if !ok {
		s.stats.lostFull.Add(1)
	}
	if filling {
		select {
		case s.kick <- i:
		default:
		}
	}
	return ok
}

// AddUnique counts pairs and their uniques, as store.Counters does. On an error they count as lost.
func (s *Shingler) AddUnique(ctx context.Context, u []store.Unique) error {
	if s.ended.Load() {
		return store.ErrClosed
	}
	if err := s.check(&Batch{Uniques: u}); err != nil {
		return err
	}
	return s.addUnique(ctx, u)
}

func (s *Shingler) addUnique(ctx context.Context, u []store.Unique) error {
	s.stats.uniques.Add(uint64(len(u)))
	fresh, behind := s.unseen(u)
	if len(fresh) == 0 {
		return nil
	}
	for i := range s.shards {
		if behind&(1<<i) != 0 { // the store must have this process's counts of the pairs
			if err := s.flushNow(ctx, i); err != nil {
				s.stats.lostUnique.Add(uint64(len(fresh)))
				return err
			}
		}
	}
	var touched uint64
	for i := range fresh {
		pair := fresh[i].PairCounter()
		touched |= 1<<s.name(&fresh[i].Counter).shard() | 1<<s.name(&pair).shard()
	}
	s.eachShard(touched, func(sh *shard) { sh.commit.Lock() })
	defer s.eachShard(touched, func(sh *shard) { sh.commit.Unlock() })
	err := s.backend.AddUnique(ctx, fresh)
	if err != nil {
		s.stats.lostUnique.Add(uint64(len(fresh)))
		err = fmt.Errorf("counter: count pairs: %w", err)
	}
	var room [pairKeyLen]byte
	for i := range fresh {
		pair := fresh[i].PairCounter()
		s.forget(s.name(&fresh[i].Counter), fresh[i].Slot) // also after an error, of unknown outcome
		s.forget(s.name(&pair), fresh[i].Slot)
		if err == nil {
			_ = s.cache.c.Set(pairKey(&room, fresh[i].Slot, s.name(&pair)), nil,
				0) // if not cached, it is asked for again
		}
	}
	return err
}

// unseen counts the pairs that are known in their ten minutes. It returns the others, and the shards (a bit each) whose
// updates of that day the store needs first.
func (s *Shingler) unseen(u []store.Unique) (fresh []store.Unique, behind uint64) {
	var room [pairKeyLen]byte
	for i := range u {
		pair := u[i].PairCounter()
		k := s.name(&pair)
		day := u[i].Slot / store.SlotsPerDay
		known := false
		if s.cached(store.TenMinutes, day) && s.cached(store.Day, day/store.DaysPerFortnight) {
			_, err := s.cache.c.Peek(pairKey(&room, u[i].Slot, k))
			known = err == nil
		}
		if !known {
			sh := &s.shards[k.shard()]
			sh.mu.Lock()
			known = sh.unflushed(k, &store.Query{Unit: store.TenMinutes, From: u[i].Slot, To: u[i].Slot}) > 0
			waits := sh.unflushed(k, &store.Query{Unit: store.Day, From: day, To: day}) > 0
			sh.mu.Unlock()
			if waits && !known {
				behind |= 1 << k.shard()
			}
		}
		if known {
			s.add(&store.Delta{Counter: pair, Slot: u[i].Slot, N: 1})
			continue
		}
		fresh = append(fresh, u[i])
	}
	return fresh, behind
}

// forget removes the records of a slot from the cache.
func (s *Shingler) forget(k name, slot uint32) {
	var room [recordKeyLen]byte
	day := slot / store.SlotsPerDay
	sh := &s.shards[k.shard()]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	s.cache.c.Del(recordKey(&room, store.TenMinutes, day, k))
	s.cache.c.Del(recordKey(&room, store.Day, day/store.DaysPerFortnight, k))
}

// cached reports whether a record may come from the cache.
func (s *Shingler) cached(u store.Unit, record uint32) bool { return record >= s.floors[u].Load() }

func (s *Shingler) eachShard(set uint64, f func(sh *shard)) {
	for i := range s.shards {
		if set&(1<<i) != 0 {
			f(&s.shards[i])
		}
	}
}

// Metrics are figures for an operator. All but Buffered only grow.
type Metrics struct {
	Updates    uint64 // Add, and the Adds of batches
	Uniques    uint64
	Reads      uint64
	CacheHits  uint64
	CacheMiss  uint64
	Flushed    uint64
	Flushes    uint64 // writes of many of them
	Postponed  uint64 // flushes of a shard that waited for an unhealthy store
	LostFull   uint64 // because of a full buffer, a bad prefix, or Close
	LostFlush  uint64 // sums lost because the store failed to write them
	LostUnique uint64 // pairs lost because the store failed
	Buffered   int
}

// Metrics returns the current figures.
func (s *Shingler) Metrics() Metrics {
	m := Metrics{
		Updates: s.stats.updates.Load(), Uniques: s.stats.uniques.Load(), Reads: s.stats.reads.Load(),
		CacheHits: s.stats.hits.Load(), CacheMiss: s.stats.misses.Load(),
		Flushed: s.stats.flushed.Load(), Flushes: s.stats.flushes.Load(), Postponed: s.stats.postponed.Load(),
		LostFull: s.stats.lostFull.Load(), LostFlush: s.stats.lostFlush.Load(), LostUnique: s.stats.lostUnique.Load(),
	}
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		m.Buffered += len(sh.active.entries) + len(sh.flushing.entries)
		sh.mu.Unlock()
	}
	return m
}
