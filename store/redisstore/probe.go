package redisstore

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/redis/rueidis"
)

const (
	probeTags   = 16              // written by a probe: enough to reach every shard of a cluster of moderate size
	probeTTL    = 60 * 1000       // milliseconds
	lookAtNodes = 5 * time.Second // how often replicas are counted
)

// watch probes the store again and again, and connects when there is no connection yet.
func (s *Store) watch() {
	tick := time.NewTicker(s.cfg.ProbeEvery)
	defer tick.Stop()
	looked := time.Now()
	for {
		select {
		case <-s.life.Done():
			return
		case <-tick.C:
		}
		if s.client.Load() == nil {
			if err := s.connect(); err != nil {
				s.setAil(fmt.Errorf("redis: connect to %s: %w", s.addr, err))
				continue
			}
			looked = time.Time{}
		}
		look := time.Since(looked) >= lookAtNodes
		if !s.probe(s.life, look) {
			continue
		}
		if look {
			looked = time.Now()
		}
		s.settle(s.life)
	}
}

// probe writes to many shards and notes whether that works. With look it also counts the replicas.
func (s *Store) probe(ctx context.Context, look bool) bool {
	cl, err := s.conn()
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	cmds := make([]rueidis.Completed, 0, probeTags+1)
	for i := range uint64(probeTags) {
		cmds = append(cmds, cl.B().Set().Key(s.key(letterOwn, i*tags/probeTags, []byte("probe"))).Value("").PxMilliseconds(probeTTL).Build())
	}
	cmds = append(cmds, cl.B().Hgetall().Key(s.dropsKey()).Build())
	began := time.Now()
	r := cl.DoMulti(ctx, cmds...)
	s.stats.probeNanos.Store(time.Since(began).Nanoseconds())
	for _, r := range r {
		if err := r.Error(); err != nil {
			if s.life.Err() == nil {
				s.setAil(fmt.Errorf("redis: probe: %w", err))
			}
			return false
		}
	}
	if err := s.takeDrops(r[probeTags]); err != nil {
		s.setAil(fmt.Errorf("redis: probe: %w", err))
		return false
	}
	if look {
		if _, err := s.hello(ctx); err != nil {
			return false // which has been noted already
		}
		s.look(ctx, cl)
	}
	s.setAil(nil)
	return true
}

type stats struct {
	calls, errors, waited, waitShort, reaped atomic.Uint64
	probeNanos                               atomic.Int64
}

// WriteMetrics writes the numbers of the store in the Prometheus text format.
func (s *Store) WriteMetrics(w io.Writer) {
	up := uint64(1)
	if s.Healthy() != nil {
		up = 0
	}
	metrics.WriteGaugeUint64(w, "antirobot_redis_up", up)
	metrics.WriteGaugeUint64(w, "antirobot_redis_replicas", uint64(max(s.replicas.Load(), 0)))
	metrics.WriteGaugeFloat64(w, "antirobot_redis_clock_skew_seconds", time.Duration(s.clock.seen.Load()).Seconds())
	metrics.WriteGaugeUint64(w, "antirobot_redis_schema", uint64(max(s.schema.Load(), 0)))
	metrics.WriteGaugeFloat64(w, "antirobot_redis_probe_seconds", time.Duration(s.stats.probeNanos.Load()).Seconds())
	metrics.WriteCounterUint64(w, "antirobot_redis_calls_total", s.stats.calls.Load())
	metrics.WriteCounterUint64(w, "antirobot_redis_errors_total", s.stats.errors.Load())
	metrics.WriteCounterUint64(w, "antirobot_redis_replicated_total", s.stats.waited.Load())
	metrics.WriteCounterUint64(w, "antirobot_redis_unreplicated_total", s.stats.waitShort.Load())
	waiting, lost := s.owed.counts()
	metrics.WriteGaugeUint64(w, "antirobot_redis_spends_owed", uint64(waiting)) //nolint:gosec // a length
	metrics.WriteCounterUint64(w, "antirobot_redis_spends_lost_total", lost)
	metrics.WriteCounterUint64(w, "antirobot_redis_index_cleared_total", s.stats.reaped.Load())
}
