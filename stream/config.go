package stream

import (
	"errors"
	"fmt"
	"time"
)

// Config is the section `stream`. All nodes must agree on Partitions. Only tests change the fields without a key.
type Config struct {
	Partitions  int           `mapstructure:"partitions"`
	Keep        time.Duration `mapstructure:"keep"`
	KeepBytes   int64         `mapstructure:"keep_bytes"` // of all partitions
	BufferBytes int64         `mapstructure:"-"`          // of unsent events, about 130 bytes each
	Lease       time.Duration `mapstructure:"-"`          // after which a silent processor loses its partitions
	AloneAfter  time.Duration `mapstructure:"-"`          // without a processor before a gateway judges by itself
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		Partitions: 16, BufferBytes: 16 << 20, Keep: 15 * time.Minute, KeepBytes: 512 << 20,
		Lease: 3 * time.Second, AloneAfter: 10 * time.Second,
	}
}

const maxPartitions = 256

// Validate returns every error of c.
func (c Config) Validate() error {
	var errs []error
	if c.Partitions < 1 || c.Partitions > maxPartitions {
		errs = append(errs, fmt.Errorf("partitions: %d is not between 1 and %d", c.Partitions, maxPartitions))
	}
	if c.Keep < time.Minute || c.Keep > 24*time.Hour {
		errs = append(errs, fmt.Errorf("keep: %v is not between 1m and 24h", c.Keep))
	}
	if c.KeepBytes < 1<<20 {
		errs = append(errs, fmt.Errorf("keep_bytes: %d is less than 1 MiB", c.KeepBytes))
	}
	return errors.Join(errs...)
}
