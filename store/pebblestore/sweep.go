package pebblestore

import (
	"context"
	"time"
)

// sweepPause separates two chunks of one pass: a sweep never uses much of the disk.
const sweepPause = 50 * time.Millisecond

// sweep is the goroutine that removes expired entries: in passes over all keys, a chunk at a time.
func (s *Store) sweep() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var from []byte
	for {
		pause := sweepPause
		if from == nil {
			pause = s.cfg.SweepEvery
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-s.closing:
			timer.Stop()
			return
		}
		next, err := s.sweepChunk(ctx, from)
		if err != nil {
			if _, ill := s.health.state(); ill == nil && !s.closed.Load() {
				s.log.Warn().Err(err).Msg("store: sweep")
			}
			next = nil // start over after the long pause
		}
		from = next
	}
}

// sweepChunk removes expired keys, starting at from, and returns where the next chunk begins; nil: at the end.
func (s *Store) sweepChunk(ctx context.Context, from []byte) ([]byte, error) {
	if from == nil {
		from = []byte{spaceKV} // feeds, before it, have no expiry
	}
	list, more, err := s.chunk(from, nil)
	if err != nil {
		return nil, err
	}
	at := s.horizon(s.now().UnixMilli())
	var dead [][]byte
	for _, e := range list {
		expiry, _, err := split(e.val)
		if err == nil && expired(expiry, at) {
			dead = append(dead, e.key)
		}
	}
	if len(dead) > 0 {
		res, err := s.do(ctx, &request{verb: doExpire, keys: dead}) // checks again: a key may have been rewritten in the meantime
		if err != nil {
			return nil, err
		}
		s.stats.swept.Add(res.n)
	}
	if !more {
		return nil, nil
	}
	return append(list[len(list)-1].key, 0), nil
}
