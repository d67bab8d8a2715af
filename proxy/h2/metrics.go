package h2

import (
	"sync/atomic"

	"github.com/VictoriaMetrics/metrics"
)

type serverMetrics struct {
	set                    *metrics.Set
	accepted               *metrics.Counter
	resets, control        *metrics.Counter
	continuations          *metrics.Counter
	openConns, openStreams atomic.Int64
}

func newServerMetrics(set *metrics.Set) *serverMetrics {
	m := &serverMetrics{
		set:           set,
		accepted:      set.GetOrCreateCounter("antirobot_http2_connections_total"),
		resets:        set.GetOrCreateCounter(`antirobot_http2_floods_total{of="resets"}`),
		continuations: set.GetOrCreateCounter(`antirobot_http2_floods_total{of="continuations"}`),
		control:       set.GetOrCreateCounter(`antirobot_http2_floods_total{of="control_frames"}`),
	}
	set.GetOrCreateGauge("antirobot_http2_open_connections", func() float64 { return float64(m.openConns.Load()) })
	set.GetOrCreateGauge("antirobot_http2_open_streams", func() float64 { return float64(m.openStreams.Load()) })
	return m
}

// countError counts a client error by http2.Server's term.
func (m *serverMetrics) countError(kind string) {
	m.set.GetOrCreateCounter(`antirobot_http2_errors_total{kind="` + kind + `"}`).Inc()
}
