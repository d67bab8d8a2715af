package store

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// MemoryCounters is a Counters in this process. Only Drop bounds its memory. Made by NewMemoryCounters; safe for
// concurrent use.
type MemoryCounters struct {
	mu    sync.Mutex
	ended bool
	bases map[Period]map[Counter]map[uint8]uint64 // by number of the record, counter and period
}

// NewMemoryCounters returns an empty MemoryCounters.
func NewMemoryCounters() *MemoryCounters {
	return &MemoryCounters{bases: map[Period]map[Counter]map[uint8]uint64{}}
}

var _ Counters = (*MemoryCounters)(nil)

// with runs f under the lock, if a call can begin.
func (m *MemoryCounters) with(ctx context.Context, f func()) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		return ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	f()
	return nil
}

// add adds to a count, and returns what it was.
func (m *MemoryCounters) add(c Counter, p Period, n uint64) (was uint64) {
	per := p.Unit.PerRecord()
	base := Period{p.Unit, p.Number / per}
	if m.bases[base] == nil {
		m.bases[base] = map[Counter]map[uint8]uint64{}
	}
	counts := m.bases[base][c]
	if counts == nil {
		counts = make(map[uint8]uint64, 1)
		m.bases[base][c] = counts
	}
	place := uint8(p.Number % per) //nolint:gosec // below PerRecord
	was = counts[place]
	counts[place] = AddCounts(was, n)
	return was
}

// periodsOf returns the periods that an update counts in.
func periodsOf(slot uint32) [2]Period {
	return [...]Period{{TenMinutes, slot}, {Day, slot / SlotsPerDay}}
}

// Add implements Counters.
func (m *MemoryCounters) Add(ctx context.Context, d []Delta) error {
	if err := (&Batch{Adds: d}).Valid(); err != nil {
		return err
	}
	return m.with(ctx, func() {
		for i := range d {
			for _, p := range periodsOf(d[i].Slot) {
				if d[i].N > 0 {
					m.add(d[i].Counter, p, d[i].N)
				}
			}
		}
	})
}

// AddUnique implements Counters.
func (m *MemoryCounters) AddUnique(ctx context.Context, u []Unique) error {
	if err := (&Batch{Uniques: u}).Valid(); err != nil {
		return err
	}
	return m.with(ctx, func() {
		for i := range u {
			for _, p := range periodsOf(u[i].Slot) {
				if m.add(u[i].PairCounter(), p, 1) == 0 {
					m.add(u[i].Counter, p, 1)
				}
			}
		}
	})
}

// ReadRecords implements Records.
func (m *MemoryCounters) ReadRecords(ctx context.Context, r []Record, f func(i int, counts []Count)) error {
	if err := ValidRecords(r); err != nil {
		return err
	}
	return m.with(ctx, func() {
		for i := range r {
			var counts []Count
			periods := m.bases[Period{r[i].Unit, r[i].Number}][r[i].Counter]
			for _, p := range slices.Sorted(maps.Keys(periods)) {
				counts = append(counts, Count{periods[p], p})
			}
			f(i, counts)
		}
	})
}

// Drop implements Records.
func (m *MemoryCounters) Drop(ctx context.Context, before Period) error {
	return m.with(ctx, func() {
		first := before.Number / before.Unit.PerRecord()
		maps.DeleteFunc(m.bases, func(base Period, _ map[Counter]map[uint8]uint64) bool {
			return base.Unit == before.Unit && base.Number < first
		})
	})
}

// Sync implements Records.
func (m *MemoryCounters) Sync(ctx context.Context) error { return m.with(ctx, func() {}) }

// Healthy returns nil, or ErrClosed after Close.
func (m *MemoryCounters) Healthy() error { return m.Sync(context.Background()) }

// Close ends the counters: later calls return ErrClosed.
func (m *MemoryCounters) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended = true
	return nil
}
