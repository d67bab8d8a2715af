package counter

import (
	"context"
	"fmt"
	"sync"

	"antirobot/store"
)

type reading struct {
	missed  []int
	records []store.Record
	names   []name
	owners  []int
}

var readings = sync.Pool{New: func() any { return new(reading) }}

// Read sets dst[i] to the answer to q[i], including unflushed updates. dst must be as long as q. Uncached records take
// one call of the store.
func (s *Shingler) Read(ctx context.Context, dst []uint64, q []store.Query) error {
	if s.ended.Load() {
		return store.ErrClosed
	}
	if err := s.checkQueries(q); err != nil {
		return err
	}
	s.stats.reads.Add(uint64(len(q)))
	r, ok := readings.Get().(*reading)
	if !ok {
		panic("BUG: not a reading")
	}
	defer readings.Put(r)
	r.missed = r.missed[:0]
	for i := range q {
		k := s.name(&q[i].Counter)
		sh := &s.shards[k.shard()]
		sh.mu.Lock()
		n, ok := s.fromMemory(sh, k, &q[i], nil, 0)
		sh.mu.Unlock()
		if dst[i] = n; !ok {
			r.missed = append(r.missed, i)
		}
	}
	if len(r.missed) == 0 {
		return nil
	}
	return s.readMissed(ctx, dst, q, r)
}

// name returns the pointerless name of a counter whose prefix was checked.
func (s *Shingler) name(c *store.Counter) name {
	prefix, _ := s.prefixes.number(c.Prefix)
	return name{c.Shingle, prefix, c.Type}
}

// fromMemory answers a query from the buffer and the cache; false if records are not cached, which are then added to r
// if given. The caller holds the shard's mu.
func (s *Shingler) fromMemory(sh *shard, k name, q *store.Query, r *reading, owner int) (uint64, bool) {
	sum, all := sh.unflushed(k, q), true
	var room [recordKeyLen]byte
	for p := range spans(q) {
		if s.cached(q.Unit, p.record) {
			if n, ok := s.cache.sum(recordKey(&room, q.Unit, p.record, k), p.from, p.to); ok {
				s.stats.hits.Add(1)
				sum = store.AddCounts(sum, n)
				continue
			}
		}
		all = false
		if r == nil {
			return 0, false
		}
		r.records = append(r.records, store.Record{Counter: q.Counter, Unit: q.Unit, Number: p.record})
		r.names = append(r.names, k)
		r.owners = append(r.owners, owner)
	}
	return sum, all
}

type span struct {
	record   uint32
	from, to uint8
}

func spans(q *store.Query) func(func(span) bool) {
	return func(yield func(span) bool) {
		per := uint64(q.Unit.PerRecord())
		for from := uint64(q.From); from <= uint64(q.To); {
			record := from / per
			last := min(record*per+per-1, uint64(q.To))
			if !yield(span{uint32(record), uint8(from % per), uint8(last % per)}) {
				return
			}
			from = last + 1
		}
	}
}

// readMissed answers the queries of r.missed from the store, while their shards do not commit.
func (s *Shingler) readMissed(ctx context.Context, dst []uint64, q []store.Query, r *reading) error {
	r.records, r.names, r.owners = r.records[:0], r.names[:0], r.owners[:0]
	var touched uint64
	for _, i := range r.missed {
		touched |= 1 << s.name(&q[i].Counter).shard()
	}
	s.eachShard(touched, func(sh *shard) { sh.commit.RLock() })
	defer s.eachShard(touched, func(sh *shard) { sh.commit.RUnlock() })
	for _, i := range r.missed {
		k := s.name(&q[i].Counter)
		sh := &s.shards[k.shard()]
		sh.mu.Lock()
		dst[i], _ = s.fromMemory(sh, k, &q[i], r, i)
		sh.mu.Unlock()
	}
	s.stats.misses.Add(uint64(len(r.records)))
	err := s.backend.ReadRecords(ctx, r.records, func(j int, counts []store.Count) {
		i, rec := r.owners[j], &r.records[j]
		for p := range spans(&q[i]) {
			if p.record != rec.Number {
				continue
			}
			for _, c := range counts {
				if c.Period >= p.from && c.Period <= p.to {
					dst[i] = store.AddCounts(dst[i], c.N)
				}
			}
		}
		if s.cached(rec.Unit, rec.Number) {
			var room [recordKeyLen]byte
			sh := &s.shards[r.names[j].shard()]
			sh.mu.Lock()
			s.cache.put(recordKey(&room, rec.Unit, rec.Number, r.names[j]), counts)
			sh.mu.Unlock()
		}
	})
	if err != nil {
		return fmt.Errorf("counter: read: %w", err)
	}
	return nil
}
