package h3

import (
	"sync/atomic"

	"github.com/VictoriaMetrics/metrics"
)

type serverMetrics struct {
	accepted, resets       *metrics.Counter
	heads, late, pieces    *metrics.Counter
	control, streams       *metrics.Counter
	failed, retries        *metrics.Counter
	openConns, openStreams atomic.Int64
	handshakes             atomic.Int64 // in progress
}

func newServerMetrics(set *metrics.Set) *serverMetrics {
	m := &serverMetrics{
		accepted: set.GetOrCreateCounter("antirobot_http3_connections_total"),
		resets:   set.GetOrCreateCounter(`antirobot_http3_floods_total{of="resets"}`),
		heads:    set.GetOrCreateCounter(`antirobot_http3_floods_total{of="heads"}`),
		pieces:   set.GetOrCreateCounter(`antirobot_http3_floods_total{of="pieces"}`),
		control:  set.GetOrCreateCounter(`antirobot_http3_floods_total{of="control_frames"}`),
		streams:  set.GetOrCreateCounter(`antirobot_http3_floods_total{of="streams"}`),
		late:     set.GetOrCreateCounter("antirobot_http3_late_heads_total"),
		failed:   set.GetOrCreateCounter("antirobot_http3_failed_handshakes_total"),
		retries:  set.GetOrCreateCounter("antirobot_http3_address_checks_total"),
	}
	set.GetOrCreateGauge("antirobot_http3_open_connections", func() float64 { return float64(m.openConns.Load()) })
	set.GetOrCreateGauge("antirobot_http3_open_streams", func() float64 { return float64(m.openStreams.Load()) })
	set.GetOrCreateGauge("antirobot_http3_open_handshakes", func() float64 { return float64(m.handshakes.Load()) })
	return m
}
