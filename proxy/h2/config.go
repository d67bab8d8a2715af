package h2

import (
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
)

// Config limits the cost of an HTTP/2 connection, in addition to h1.Config, which applies to its requests too. The zero
// value is not usable: start with DefaultConfig. Sizes are bytes. Fields without a key are constants that tests vary.
type Config struct {
	Enabled    bool          `mapstructure:"enabled"` // on every listener with TLS
	MaxStreams int           `mapstructure:"-"`
	PingAfter  time.Duration `mapstructure:"-"` // without a frame

	ConnWindow       int64         `mapstructure:"-"` // of unread bodies
	StreamWindow     int64         `mapstructure:"-"`
	MaxFrameBytes    int64         `mapstructure:"-"` // of a frame that is read
	HeaderTableBytes int64         `mapstructure:"-"` // HPACK, each direction; at least 4 KiB for requests
	PingTimeout      time.Duration `mapstructure:"-"`
	// streams reset in ten seconds; more end the connection; 0: no limit
	MaxResets        int `mapstructure:"-"`
	MaxControlFrames int `mapstructure:"-"` // frames without content, likewise
}

// DefaultConfig suits a public site.
func DefaultConfig() Config {
	return Config{
		Enabled:          true,
		MaxStreams:       100,
		PingAfter:        60 * time.Second,
		ConnWindow:       1 << 20,
		StreamWindow:     256 << 10,
		MaxFrameBytes:    16 << 10,
		HeaderTableBytes: 4 << 10,
		PingTimeout:      15 * time.Second,
		MaxResets:        400,
		MaxControlFrames: 2000,
	}
}

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
