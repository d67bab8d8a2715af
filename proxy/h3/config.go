package h3

import (
	"time"

	"antirobot/proxy/streams"
)

// Config limits what an HTTP/3 connection may cost, in addition to the limits of h1.Config, which apply to its requests too.
// The zero value is not usable: start with DefaultConfig. Sizes are bytes.
type Config struct {
	MaxStreams       int           `mapstructure:"max_streams"`        // requests of one connection at a time
	ConnWindow       int64         `mapstructure:"conn_window"`        // bytes of bodies that a connection may send before they are read
	StreamWindow     int64         `mapstructure:"stream_window"`      // and one request of it
	PingAfter        time.Duration `mapstructure:"ping_after"`         // after so long without a packet a client is asked whether it is there
	PingTimeout      time.Duration `mapstructure:"ping_timeout"`       // and has so long to say so
	MaxHandshakes    int           `mapstructure:"max_handshakes"`     // under way at a time; with more, a client has to show first that its address is its own
	MaxResets        int           `mapstructure:"max_resets"`         // requests that a client may take back in ten seconds; more: the connection ends. 0: no limit
	MaxPieces        int           `mapstructure:"max_pieces"`         // small pieces of bodies and heads in ten seconds; more: the connection ends. 0: no limit
	MaxControlFrames int           `mapstructure:"max_control_frames"` // frames that carry nothing, in ten seconds; more: the connection ends. 0: no limit
	AltSvcAge        time.Duration `mapstructure:"alt_svc_age"`        // how long browsers remember that the site speaks HTTP/3
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
		AltSvcAge:        24 * time.Hour,
	}
}

// Validate returns everything that is wrong at once.
func (c *Config) Validate() error {
	var b streams.Bounds
	b.Streams(c.MaxStreams, c.ConnWindow, c.StreamWindow, c.MaxResets)
	b.Within("max_handshakes", int64(c.MaxHandshakes), 0, 1<<20)
	b.Within("max_pieces", int64(c.MaxPieces), 0, 1<<30)
	b.Within("max_control_frames", int64(c.MaxControlFrames), 0, 1<<30)
	lasts := func(key string, d, low, high time.Duration) {
		b.Check(d >= low && d <= high, "%s: %v is not within %v and %v", key, d, low, high)
	}
	lasts("ping_after", c.PingAfter, time.Second, time.Hour)
	lasts("ping_timeout", c.PingTimeout, time.Second, time.Hour)
	lasts("alt_svc_age", c.AltSvcAge, time.Second, 365*24*time.Hour)
	return b.Err()
}
