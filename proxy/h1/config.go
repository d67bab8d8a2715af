package h1

import (
	"errors"
	"fmt"
	"time"

	"antirobot/proxy/h1/wire"
)

// Config limits what one client may cost. The zero value is not usable: start with DefaultConfig. All sizes are bytes.
type Config struct {
	MaxHeaderBytes  int64  `mapstructure:"max_header_bytes"`  // request or answer line, fields and empty line; more: 431, of a service: 502
	MaxHeaderFields int    `mapstructure:"-"`                 // fields of one head, and of one trailer section
	MaxTargetBytes  int64  `mapstructure:"max_target_bytes"`  // the request target; more: 414
	HighBytes       string `mapstructure:"target_high_bytes"` // of 0x80 and above in a target: pass, encode or refuse (400)
	MaxBodyBytes    int64  `mapstructure:"max_body_bytes"`    // of a request; more: 413; 0: no limit
	MaxBodiesBytes  int64  `mapstructure:"max_bodies_bytes"`  // of memory that the bodies of all requests under way hold; more: 503; 0: no limit

	HeaderTimeout   time.Duration `mapstructure:"header_timeout"`     // from the first byte of a head to its last, and to the first byte on a new connection, TLS handshake included
	IdleTimeout     time.Duration `mapstructure:"idle_timeout"`       // between two requests
	ReadTimeout     time.Duration `mapstructure:"read_timeout"`       // between two pieces of a request body; rolls
	WriteTimeout    time.Duration `mapstructure:"write_timeout"`      // for one piece (at most 32 KiB) of an answer; rolls
	MinBodyRate     int64         `mapstructure:"min_body_rate"`      // bytes a second of a request body, on average after its first ten seconds; 0: no limit
	ContinueTimeout time.Duration `mapstructure:"-"`                  // how long a service may leave Expect: 100-continue without an answer before the gateway answers it
	HalfCloseGrace  time.Duration `mapstructure:"-"`                  // how long a service may work for a client that has ended its side before that counts as having left
	LingerTimeout   time.Duration `mapstructure:"-"`                  // how long what a client still sends is thrown away after the last answer, so that it can read that answer
	LingerBytes     int64         `mapstructure:"-"`                  // and how much of it
	MaxDrainBytes   int64         `mapstructure:"-"`                  // an unread body up to this length is read and thrown away to keep its connection
	MaxConns        int           `mapstructure:"max_conns"`          // open client connections; 0: no limit
	MaxConnsPerAddr int           `mapstructure:"max_conns_per_addr"` // per IPv4 address or IPv6 /64, trusted balancers exempt; 0: no limit

	// TLS handshakes a second, on average over ten seconds, per IPv4 address or IPv6 /64, and ten times as many per /48; more are not
	// answered. Trusted balancers are exempt; 0: no limit.
	MaxHandshakeRate int `mapstructure:"max_handshake_rate"`

	MaxRequests        int `mapstructure:"max_requests"`          // at once over HTTP/2 and HTTP/3; 0: no limit
	MaxRequestsPerAddr int `mapstructure:"max_requests_per_addr"` // of them, per IPv4 address or IPv6 /64, trusted balancers exempt; 0: no limit
	MaxRequestsPerConn int `mapstructure:"max_requests_per_conn"` // then the connection is closed; 0: no limit
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
