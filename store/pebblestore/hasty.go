package pebblestore

import (
	"context"
	"time"

	"antirobot/store"
)

// hasty is a Store whose Swap and Incr don't wait for the disk.
type hasty struct{ *Store }

// Hasten is store.Hasten.
func (s *Store) Hasten() store.Store { return hasty{s} }

// Swap implements store.KV.
func (h hasty) Swap(ctx context.Context, key, old, val []byte, ttl time.Duration) (bool, error) {
	return h.swap(ctx, key, old, val, ttl, true)
}

// Incr implements store.Quota.
func (h hasty) Incr(ctx context.Context, key []byte, n int64, ttl time.Duration) (int64, error) {
	return h.incr(ctx, key, n, ttl, true)
}

// hastyFor is how long the log may keep what nobody waits for from the disk.
const hastyFor = time.Second

// hurry answers those of a group that is applied who don't wait for the disk.
func (g *group) hurry() {
	g.hurried = true
	for i, r := range g.reqs {
		if r.hasty {
			r.done <- g.results[i]
		}
	}
}

// owe notes whether the disk is owed what was written: the sync of a group takes all before it.
func (s *Store) owe(g *group) {
	switch {
	case !g.written:
	case g.patient:
		s.owing = false
		s.due.Stop()
	case !s.owing:
		s.owing = true
		s.due.Reset(hastyFor)
	}
}

// flush makes the disk take what nobody waited for, by a group of nobody with a mark for the log alone.
func (s *Store) flush(eng *engine) {
	g := &group{eng: eng, batch: eng.db.NewBatch(), patient: true}
	if err := g.batch.LogData(nil, nil); err != nil {
		eng.fail(err)
		return
	}
	s.write(g)
}
