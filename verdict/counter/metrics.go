package counter

import (
	"io"

	"github.com/VictoriaMetrics/metrics"
)

func (s *Shingler) writeMetrics(w io.Writer) {
	m := s.Metrics()
	metrics.WriteCounterUint64(w, "antirobot_counter_updates_total", m.Updates)
	metrics.WriteCounterUint64(w, "antirobot_counter_uniques_total", m.Uniques)
	metrics.WriteCounterUint64(w, "antirobot_counter_reads_total", m.Reads)
	metrics.WriteCounterUint64(w, "antirobot_counter_cache_hits_total", m.CacheHits)
	metrics.WriteCounterUint64(w, "antirobot_counter_cache_misses_total", m.CacheMiss)
	metrics.WriteCounterUint64(w, "antirobot_counter_flushed_total", m.Flushed)
	metrics.WriteCounterUint64(w, "antirobot_counter_flushes_total", m.Flushes)
	metrics.WriteCounterUint64(w, "antirobot_counter_flushes_postponed_total", m.Postponed)
	metrics.WriteCounterUint64(w, `antirobot_counter_lost_total{why="full"}`, m.LostFull)
	metrics.WriteCounterUint64(w, `antirobot_counter_lost_total{why="store"}`, m.LostFlush)
	metrics.WriteCounterUint64(w, `antirobot_counter_lost_total{why="pair"}`, m.LostUnique)
	metrics.WriteGaugeUint64(w, "antirobot_counter_buffered", uint64(m.Buffered)) //nolint:gosec // not negative
}
