package counter

import (
	"errors"
	"fmt"
	"time"
)

// Config is what an operator may set.
type Config struct {
	// FlushEvery is how long an update may wait in memory: a crash loses that much, and a hot counter costs one write
	// in it.
	FlushEvery time.Duration `mapstructure:"flush_every"`
	// MaxBuffered bounds the updates in memory: the number of different pairs of counter and ten minutes, 80 bytes
	// each, twice that while a flush is slow. What does not fit is lost, and counted as lost.
	MaxBuffered int `mapstructure:"max_buffered"`
	// CacheBytes is for records that were read: about 80 bytes each.
	CacheBytes int64 `mapstructure:"cache_bytes"`
	// CacheTTL bounds how late the updates of other nodes are seen, with a shared store; whole seconds.
	CacheTTL time.Duration `mapstructure:"cache_ttl"`
	// StoreTimeout bounds one write of a flush.
	StoreTimeout time.Duration `mapstructure:"store_timeout"`
}

// DefaultConfig returns a Config for one gateway with a few hundred thousand updates a second.
func DefaultConfig() Config {
	return Config{
		FlushEvery:   5 * time.Second,
		MaxBuffered:  1 << 21,
		CacheBytes:   256 << 20,
		CacheTTL:     10 * time.Second,
		StoreTimeout: 5 * time.Second,
	}
}

// Validate returns everything that is wrong with c.
func (c Config) Validate() error {
	var errs []error
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(c.FlushEvery >= 10*time.Millisecond, "flush_every: %v is less than 10ms", c.FlushEvery)
	bad(c.MaxBuffered >= shards && c.MaxBuffered <= 1<<30, "max_buffered: %d is not between %d and %d", c.MaxBuffered, shards, 1<<30)
	bad(c.CacheBytes >= 4<<20, "cache_bytes: %d is less than 4 MiB", c.CacheBytes)
	bad(c.CacheTTL >= time.Second, "cache_ttl: %v is less than a second", c.CacheTTL)
	bad(c.StoreTimeout > 0, "store_timeout: %v is not positive", c.StoreTimeout)
	return errors.Join(errs...)
}
