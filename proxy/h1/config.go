package h1

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"antirobot/proxy/h1/wire"
)

// Config limits the cost of one client. The zero value is not usable: start with DefaultConfig. Sizes are bytes; a
// limit of 0 is none. Fields without a key are constants that tests vary.
type Config struct {
	MaxHeaderBytes  int64 `mapstructure:"max_header_bytes"` // of a head; beyond: 431, of a service: 502
	MaxHeaderFields int   `mapstructure:"-"`                // of one head, or trailer section
	MaxBodyBytes    int64 `mapstructure:"max_body_bytes"`   // of a request; beyond: 413
	MaxBodiesBytes  int64 `mapstructure:"max_bodies_bytes"` // memory of all bodies; beyond: 503

	// first to last byte of a head; of a new connection with its handshake
	HeaderTimeout   time.Duration `mapstructure:"header_timeout"`
	IdleTimeout     time.Duration `mapstructure:"idle_timeout"` // between two requests
	ReadTimeout     time.Duration `mapstructure:"read_timeout"` // between two pieces of a request body; rolls
	WriteTimeout    time.Duration `mapstructure:"-"`            // for a piece of at most 32 KiB; rolls
	ContinueTimeout time.Duration `mapstructure:"-"`            // of a service that leaves Expect: 100-continue open
	HalfCloseGrace  time.Duration `mapstructure:"-"`            // until a half-closed client counts as gone
	// discarding input after the last answer, so that the client can read it
	LingerTimeout time.Duration `mapstructure:"-"`
	LingerBytes   int64         `mapstructure:"-"`
	// an unread body up to this length is discarded to keep the connection
	MaxDrainBytes   int64 `mapstructure:"-"`
	MaxConns        int   `mapstructure:"max_conns"`
	MaxConnsPerAddr int   `mapstructure:"max_conns_per_addr"` // per IPv4 address or IPv6 /64, except balancers

	// MaxHandshakeRate is TLS handshakes a second, averaged over ten, per IPv4 address or IPv6 /64, tenfold per /48,
	// except balancers.
	MaxHandshakeRate int `mapstructure:"max_handshake_rate"`

	MaxRequests int `mapstructure:"-"` // in flight over HTTP/2 and HTTP/3
	// of them, per IPv4 address or IPv6 /64, except balancers
	MaxRequestsPerAddr int `mapstructure:"max_requests_per_addr"`
	MaxRequestsPerConn int `mapstructure:"max_requests_per_conn"`
}

// DefaultConfig suits a public site.
func DefaultConfig() Config {
	return Config{
		MaxHeaderBytes:     64 << 10,
		MaxHeaderFields:    200,
		MaxBodyBytes:       10 << 30,
		MaxBodiesBytes:     256 << 20,
		HeaderTimeout:      15 * time.Second,
		IdleTimeout:        75 * time.Second,
		ReadTimeout:        60 * time.Second,
		WriteTimeout:       60 * time.Second,
		ContinueTimeout:    time.Second,
		HalfCloseGrace:     time.Second,
		LingerTimeout:      3 * time.Second,
		LingerBytes:        16 << 20,
		MaxDrainBytes:      64 << 10,
		MaxConns:           100_000,
		MaxConnsPerAddr:    1000,
		MaxHandshakeRate:   100,
		MaxRequests:        50_000,
		MaxRequestsPerAddr: 2000,
		MaxRequestsPerConn: 10_000,
	}
}

// maxTarget bounds a request's target, in bytes; beyond: 414.
func (c *Config) maxTarget() int { return int(c.MaxHeaderBytes / 4) }

// Validate returns everything that is wrong at once.
func (c *Config) Validate() error {
	var errs []error
	bad := func(path, format string, args ...any) {
		errs = append(errs, fmt.Errorf(path+": "+format, args...))
	}
	if c.MaxHeaderBytes < 1<<10 || c.MaxHeaderBytes > 1<<20 {
		bad("max_header_bytes", "%d bytes is not within 1 KiB and 1 MiB", c.MaxHeaderBytes)
	}
	for _, d := range []struct {
		path string
		d    time.Duration
	}{
		{"header_timeout", c.HeaderTimeout},
		{"idle_timeout", c.IdleTimeout},
		{"read_timeout", c.ReadTimeout},
	} {
		if d.d <= 0 {
			bad(d.path, "%v is not positive", d.d)
		}
	}
	if c.MaxHandshakeRate > 1_000_000 {
		bad("max_handshake_rate", "%d is more than 1000000", c.MaxHandshakeRate)
	}
	for _, n := range []struct {
		path string
		n    int64
	}{
		{"max_body_bytes", c.MaxBodyBytes},
		{"max_bodies_bytes", c.MaxBodiesBytes},
		{"max_conns", int64(c.MaxConns)},
		{"max_conns_per_addr", int64(c.MaxConnsPerAddr)},
		{"max_handshake_rate", int64(c.MaxHandshakeRate)},
		{"max_requests_per_addr", int64(c.MaxRequestsPerAddr)},
		{"max_requests_per_conn", int64(c.MaxRequestsPerConn)},
	} {
		if n.n < 0 {
			bad(n.path, "%d is negative", n.n)
		}
	}
	return errors.Join(errs...)
}

type serverMetrics struct {
	accepted, requests         *metrics.Counter
	panics, retries, tunnels   *metrics.Counter
	clientGone, truncated      *metrics.Counter
	revoked                    *metrics.Counter
	limitConns, limitAddr      *metrics.Counter
	limitRequests, limitOfAddr *metrics.Counter
	limitIdle, limitHandshake  *metrics.Counter
	limitHandshakeRate         *metrics.Counter
	limitBody, limitRead       *metrics.Counter
	limitWrite, limitUpstream  *metrics.Counter
	limitBodies                *metrics.Counter
	badProxyHeader, badBody    *metrics.Counter
	badResponse                *metrics.Counter
	refused                    [wire.Refusals]*metrics.Counter
	openConns, openTunnels     atomic.Int64
	bodies                     atomic.Int64
}

func newServerMetrics(set *metrics.Set) *serverMetrics {
	limit := func(kind string) *metrics.Counter {
		return set.GetOrCreateCounter(`antirobot_http_limits_total{limit="` + kind + `"}`)
	}
	bad := func(reason string) *metrics.Counter {
		return set.GetOrCreateCounter(`antirobot_http_bad_requests_total{reason="` + reason + `"}`)
	}
	m := &serverMetrics{
		accepted:           set.GetOrCreateCounter("antirobot_http_connections_total"),
		requests:           set.GetOrCreateCounter("antirobot_http_requests_total"),
		panics:             set.GetOrCreateCounter("antirobot_http_panics_total"),
		retries:            set.GetOrCreateCounter("antirobot_http_retries_total"),
		tunnels:            set.GetOrCreateCounter("antirobot_http_tunnels_total"),
		clientGone:         set.GetOrCreateCounter("antirobot_http_clients_gone_total"),
		truncated:          set.GetOrCreateCounter("antirobot_http_truncated_answers_total"),
		revoked:            set.GetOrCreateCounter("antirobot_http_revoked_answers_total"),
		badResponse:        set.GetOrCreateCounter("antirobot_http_bad_answers_total"),
		limitConns:         limit("connections"),
		limitAddr:          limit("connections_per_addr"),
		limitRequests:      limit("requests"),
		limitOfAddr:        limit("requests_per_addr"),
		limitIdle:          limit("idle_timeout"),
		limitHandshake:     limit("handshake"),
		limitHandshakeRate: limit("handshake_rate"),
		limitBody:          limit("body_size"),
		limitRead:          limit("body_timeout"),
		limitBodies:        limit("bodies_in_sum"),
		limitWrite:         limit("write_timeout"),
		limitUpstream:      limit("upstream_timeout"),
		badProxyHeader:     bad("proxy_header"),
		badBody:            bad("chunked_body"),
	}
	for i := 1; i < len(m.refused); i++ {
		m.refused[i] = bad(wire.Refusal(i).Name())
	}
	set.GetOrCreateGauge("antirobot_http_open_connections", func() float64 { return float64(m.openConns.Load()) })
	set.GetOrCreateGauge("antirobot_http_bodies_bytes", func() float64 { return float64(m.bodies.Load()) })
	set.GetOrCreateGauge("antirobot_http_open_tunnels", func() float64 { return float64(m.openTunnels.Load()) })
	return m
}
