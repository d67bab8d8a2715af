package h3

import (
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
)

// Config limits the cost of an HTTP/3 connection, in addition to h1.Config, which applies to its requests too. The zero
// value is not usable: start with DefaultConfig. Sizes are bytes. Tests vary it.
type Config struct {
	MaxStreams int

	ConnWindow    int64 // of unread bodies
	StreamWindow  int64
	PingAfter     time.Duration // without a packet
	PingTimeout   time.Duration
	MaxHandshakes int // at a time; beyond, addresses are validated first (Retry)
	// streams reset in ten seconds; more end the connection; 0: no limit
	MaxResets        int
	MaxPieces        int // small pieces of bodies and heads, likewise
	MaxControlFrames int // frames without content, likewise
}

// DefaultConfig suits a public site.
func DefaultConfig() Config {
	return Config{
		MaxStreams:       100,
		ConnWindow:       1 << 20,
		StreamWindow:     256 << 10,
		PingAfter:        20 * time.Second,
		PingTimeout:      20 * time.Second,
		MaxHandshakes:    200,
		MaxResets:        400,
		MaxPieces:        4000,
		MaxControlFrames: 2000,
	}
}

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
