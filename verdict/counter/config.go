package counter

import (
	"errors"
	"fmt"
)

// Config is what an operator may set.
type Config struct {
	// MaxBuffered bounds the sums in memory, 80 bytes each, twice that while a flush is slow. Further updates are lost,
	// and counted.
	MaxBuffered int `mapstructure:"max_buffered"`
	// CacheBytes is for records that were read: about 80 bytes each.
	CacheBytes int64 `mapstructure:"cache_bytes"`
}

// DefaultConfig is for one gateway with a few hundred thousand updates a second.
func DefaultConfig() Config {
	return Config{MaxBuffered: 1 << 21, CacheBytes: 256 << 20}
}

// Validate returns everything that is wrong with c.
func (c Config) Validate() error {
	var errs []error
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(c.MaxBuffered >= shards && c.MaxBuffered <= 1<<30, "max_buffered: %d is not between %d and %d", c.MaxBuffered,
		shards, 1<<30)
	bad(c.CacheBytes >= 4<<20, "cache_bytes: %d is less than 4 MiB", c.CacheBytes)
	return errors.Join(errs...)
}
