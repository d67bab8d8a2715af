package h2

import (
	"time"

	"antirobot/proxy/streams"
)

// Config limits what an HTTP/2 connection may cost, in addition to the limits of h1.Config, which apply to its requests
// too. The zero value is not usable: start with DefaultConfig. Sizes are bytes.
type Config struct {
	Enabled          bool          `mapstructure:"enabled"`            // offered on every listener with TLS
	MaxStreams       int           `mapstructure:"max_streams"`        // requests of one connection at a time
	ConnWindow       int64         `mapstructure:"conn_window"`        // bytes of bodies that a connection may send before they are read
	StreamWindow     int64         `mapstructure:"stream_window"`      // and one request of it
	MaxFrameBytes    int64         `mapstructure:"max_frame_bytes"`    // the largest frame that is read
	HeaderTableBytes int64         `mapstructure:"header_table_bytes"` // of compressed header fields, for each direction; requests have at least 4 KiB, with which clients begin
	PingAfter        time.Duration `mapstructure:"ping_after"`         // without a frame for so long a client is asked whether it is there
	PingTimeout      time.Duration `mapstructure:"ping_timeout"`       // and has so long to say so
	MaxResets        int           `mapstructure:"max_resets"`         // requests that a client may take back, or have ended by its mistakes, in ten seconds; more: the connection ends. 0: no limit
	MaxControlFrames int           `mapstructure:"max_control_frames"` // frames that carry nothing, in ten seconds; more: the connection ends. 0: no limit
}

// DefaultConfig suits a public site.
func DefaultConfig() Config {
	return Config{
		Enabled:          true,
		MaxStreams:       100,
		ConnWindow:       1 << 20,
		StreamWindow:     256 << 10,
		MaxFrameBytes:    16 << 10,
		HeaderTableBytes: 4 << 10,
		PingAfter:        60 * time.Second,
		PingTimeout:      15 * time.Second,
		MaxResets:        400,
		MaxControlFrames: 2000,
	}
}

// Validate returns everything that is wrong at once.
func (c *Config) Validate() error {
	var b streams.Bounds
	b.Streams(c.MaxStreams, c.ConnWindow, c.StreamWindow, c.MaxResets)
	b.Within("max_frame_bytes", c.MaxFrameBytes, 16<<10, 1<<24-1)
	b.Within("header_table_bytes", c.HeaderTableBytes, 1, 1<<20)
	b.Within("max_control_frames", int64(c.MaxControlFrames), 0, 1<<30)
	b.Check(c.PingAfter >= 0, "ping_after: %v is negative", c.PingAfter)
	b.Check(c.PingTimeout > 0, "ping_timeout: %v is not positive", c.PingTimeout)
	return b.Err()
}
