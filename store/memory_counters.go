package store

import (
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
)

// MemoryCounters is a Counters in this process. Only Drop bounds its memory. Made by NewMemoryCounters; safe for
// concurrent use.
type MemoryCounters struct {
	seed   maphash.Seed
	ended  atomic.Bool
	shards [memoryShards]counterShard
}

// counterShard has a part of the counters. Records of one base share a map, so dropping is cheap.
type counterShard struct {
	mu    sync.Mutex
	bases map[Period]map[Counter]map[uint32]uint64 // base, in records → counter → period → count
}

// NewMemoryCounters returns an empty MemoryCounters.
func NewMemoryCounters() *MemoryCounters {
	m := &MemoryCounters{seed: maphash.MakeSeed()}
	for i := range m.shards {
		m.shards[i].bases = make(map[Period]map[Counter]map[uint32]uint64)
	}
	return m
}

var _ Counters = (*MemoryCounters)(nil)

func (m *MemoryCounters) shard(c *Counter) *counterShard {
	return &m.shards[maphash.Comparable(m.seed, *c)%memoryShards]
}

func (s *counterShard) add(r Counter, u Unit, number uint32, n uint64) {
	base := Period{u, number / u.PerRecord()}
	records := s.bases[base]
	if records == nil {
		records = make(map[Counter]map[uint32]uint64)
		s.bases[base] = records
	}
	counts := records[r]
	if counts == nil {
		counts = make(map[uint32]uint64, 1)
		records[r] = counts
	}
	counts[number] = AddCounts(counts[number], n)
}

func (s *counterShard) count(r Counter, u Unit, number uint32) uint64 {
	return s.bases[Period{u, number / u.PerRecord()}][r][number]
}

func (m *MemoryCounters) ready(ctx context.Context) error {
	if m.ended.Load() {
		return ErrClosed
	}
	return ctx.Err()
}

// Add implements Counters.
func (m *MemoryCounters) Add(ctx context.Context, d []Delta) error {
	if err := m.ready(ctx); err != nil {
		return err
	}
	for i := range d {
		if err := d[i].Valid(); err != nil {
			return fmt.Errorf("delta %d: %w", i, err)
		}
	}
	for i := range d {
		if d[i].N == 0 {
			continue
		}
		s := m.shard(&d[i].Counter)
		s.mu.Lock()
		s.add(d[i].Counter, TenMinutes, d[i].Slot, d[i].N)
		s.add(d[i].Counter, Day, d[i].Slot/SlotsPerDay, d[i].N)
		s.mu.Unlock()
	}
	return nil
}

// AddUnique implements Counters.
func (m *MemoryCounters) AddUnique(ctx context.Context, u []Unique) error {
	if err := m.ready(ctx); err != nil {
		return err
	}
	for i := range u {
		if err := u[i].Valid(); err != nil {
			return fmt.Errorf("unique %d: %w", i, err)
		}
	}
	for i := range u {
		pair := u[i].PairCounter()
		for _, p := range [...]Period{{TenMinutes, u[i].Slot}, {Day, u[i].Slot / SlotsPerDay}} {
			if m.grow(pair, p) == 0 {
				m.grow(u[i].Counter, p)
			}
		}
	}
	return nil
}

// grow adds one to a counter in a period, and returns its previous count.
func (m *MemoryCounters) grow(k Counter, p Period) uint64 {
	s := m.shard(&k)
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.count(k, p.Unit, p.Number)
	s.add(k, p.Unit, p.Number, 1)
	return n
}

// ReadRecords implements Records.
func (m *MemoryCounters) ReadRecords(ctx context.Context, r []Record, f func(i int, counts []Count)) error {
	if err := m.ready(ctx); err != nil {
		return err
	}
	var counts []Count
	for i := range r {
		if err := r[i].Valid(); err != nil {
			return fmt.Errorf("record %d: %w", i, err)
		}
		counts = counts[:0]
		s := m.shard(&r[i].Counter)
		s.mu.Lock()
		for number, n := range s.bases[Period{r[i].Unit, r[i].Number}][r[i].Counter] {
			counts = append(counts, Count{n, uint8(number % r[i].Unit.PerRecord())})
		}
		s.mu.Unlock()
		slices.SortFunc(counts, func(a, b Count) int { return int(a.Period) - int(b.Period) })
		f(i, counts)
	}
	return nil
}

// Drop implements Records.
func (m *MemoryCounters) Drop(ctx context.Context, before Period) error {
	if err := m.ready(ctx); err != nil {
		return err
	}
	first := before.Number / before.Unit.PerRecord()
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.Lock()
		for base := range s.bases {
			if base.Unit == before.Unit && base.Number < first {
				delete(s.bases, base)
			}
		}
		s.mu.Unlock()
	}
	return nil
}

// Sync implements Records.
func (m *MemoryCounters) Sync(ctx context.Context) error { return m.ready(ctx) }

// Healthy returns nil, or ErrClosed after Close.
func (m *MemoryCounters) Healthy() error {
	if m.ended.Load() {
		return ErrClosed
	}
	return nil
}

// Close ends the counters: later calls return ErrClosed.
func (m *MemoryCounters) Close() error {
	m.ended.Store(true)
	return nil
}
