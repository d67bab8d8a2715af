package stream

import (
	"errors"
	"fmt"
	"time"
)

// Config is the section `stream`. All nodes must agree on Partitions.
type Config struct {
	Partitions  int           `mapstructure:"partitions"`
	BufferBytes int64         `mapstructure:"buffer_bytes"`
	Keep        time.Duration `mapstructure:"keep"`
	KeepBytes   int64         `mapstructure:"keep_bytes"`  // and how many bytes of them, of all partitions
	Lease       time.Duration `mapstructure:"lease"`       // after which a silent processor loses its partitions
	AloneAfter  time.Duration `mapstructure:"alone_after"` // without a processor before a gateway judges by itself
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		Partitions: 16, BufferBytes: 16 << 20, Keep: 15 * time.Minute, KeepBytes: 512 << 20,
		Lease: 3 * time.Second, AloneAfter: 10 * time.Second,
	}
}

const (
	maxPartitions = 256
	minBuffer     = 4096
)

// Validate returns everything that is wrong with c.
func (c Config) Validate() error {
	var errs []error
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(c.Partitions >= 1 && c.Partitions <= maxPartitions, "partitions: %d is not between 1 and %d", c.Partitions,
		maxPartitions)
	bad(c.BufferBytes >= int64(minBuffer*max(c.Partitions, 1)) && c.BufferBytes <= 1<<30,
		"buffer_bytes: %d is not between %d for each partition and 1 GiB", c.BufferBytes, minBuffer)
	bad(c.Keep >= time.Minute && c.Keep <= 24*time.Hour, "keep: %v is not between 1m and 24h", c.Keep)
	bad(c.KeepBytes >= 1<<20, "keep_bytes: %d is less than 1 MiB", c.KeepBytes)
	bad(c.Lease >= 500*time.Millisecond && c.Lease <= time.Minute, "lease: %v is not between 500ms and 1m", c.Lease)
	bad(c.AloneAfter >= 2*time.Second && c.AloneAfter <= 10*time.Minute, "alone_after: %v is not between 2s and 10m",
		c.AloneAfter)
	return errors.Join(errs...)
}
