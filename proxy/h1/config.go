package h1

import (
	"errors"
	"fmt"
	"time"

	"antirobot/proxy/h1/wire"
)

// Config limits the cost of one client. The zero value is not usable: start with DefaultConfig. Sizes are bytes; a
// limit of 0 is none. Fields without a key are constants that tests vary.
type Config struct {
	MaxHeaderBytes  int64  `mapstructure:"max_header_bytes"`  // of a head; beyond: 431, of a service: 502
	MaxHeaderFields int    `mapstructure:"-"`                 // of one head, or trailer section
	MaxTargetBytes  int64  `mapstructure:"max_target_bytes"`  // beyond: 414
	HighBytes       string `mapstructure:"target_high_bytes"` // bytes from 0x80: pass, encode or refuse (400)
	MaxBodyBytes    int64  `mapstructure:"max_body_bytes"`    // of a request; beyond: 413
	MaxBodiesBytes  int64  `mapstructure:"max_bodies_bytes"`  // memory of all bodies; beyond: 503

	// first to last byte of a head; of a new connection with its handshake
	HeaderTimeout   time.Duration `mapstructure:"header_timeout"`
	IdleTimeout     time.Duration `mapstructure:"idle_timeout"`  // between two requests
	ReadTimeout     time.Duration `mapstructure:"read_timeout"`  // between two pieces of a request body; rolls
	WriteTimeout    time.Duration `mapstructure:"write_timeout"` // for a piece of at most 32 KiB; rolls
	MinBodyRate     int64         `mapstructure:"min_body_rate"` // bytes a second, averaged after ten seconds
	ContinueTimeout time.Duration `mapstructure:"-"`             // of a service that leaves Expect: 100-continue open
	HalfCloseGrace  time.Duration `mapstructure:"-"`             // until a half-closed client counts as gone
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

	MaxRequests int `mapstructure:"max_requests"` // in flight over HTTP/2 and HTTP/3
	// of them, per IPv4 address or IPv6 /64, except balancers
	MaxRequestsPerAddr int `mapstructure:"max_requests_per_addr"`
	MaxRequestsPerConn int `mapstructure:"max_requests_per_conn"`
}

// DefaultConfig suits a public site.
func DefaultConfig() Config {
	return Config{
		MaxHeaderBytes:     64 << 10,
		MaxHeaderFields:    200,
		MaxTargetBytes:     16 << 10,
		HighBytes:          wire.HighPass,
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

// Validate returns everything that is wrong at once.
func (c *Config) Validate() error {
	var errs []error
	bad := func(path, format string, args ...any) {
		errs = append(errs, fmt.Errorf(path+": "+format, args...))
	}
	if c.MaxHeaderBytes < 1<<10 || c.MaxHeaderBytes > 1<<20 {
		bad("max_header_bytes", "%d bytes is not within 1 KiB and 1 MiB", c.MaxHeaderBytes)
	}
	if c.MaxTargetBytes < 256 || c.MaxTargetBytes > c.MaxHeaderBytes {
		bad("max_target_bytes", "%d bytes is not within 256 and max_header_bytes", c.MaxTargetBytes)
	}
	if h := c.HighBytes; h != wire.HighPass && h != wire.HighEncode && h != wire.HighRefuse {
		bad("target_high_bytes", "%q is none of %s, %s and %s", h, wire.HighPass, wire.HighEncode, wire.HighRefuse)
	}
	for _, d := range []struct {
		path string
		d    time.Duration
	}{
		{"header_timeout", c.HeaderTimeout},
		{"idle_timeout", c.IdleTimeout},
		{"read_timeout", c.ReadTimeout},
		{"write_timeout", c.WriteTimeout},
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
		{"min_body_rate", c.MinBodyRate},
		{"max_conns", int64(c.MaxConns)},
		{"max_conns_per_addr", int64(c.MaxConnsPerAddr)},
		{"max_handshake_rate", int64(c.MaxHandshakeRate)},
		{"max_requests", int64(c.MaxRequests)},
		{"max_requests_per_addr", int64(c.MaxRequestsPerAddr)},
		{"max_requests_per_conn", int64(c.MaxRequestsPerConn)},
	} {
		if n.n < 0 {
			bad(n.path, "%d is negative", n.n)
		}
	}
	return errors.Join(errs...)
}
