package pebblestore

import (
	"errors"
	"fmt"
	"time"
)

// Config is what an operator may set. Sizes are bytes of memory.
type Config struct {
	// CacheBytes is for blocks read from disk. Bans and passes live in the gateway's own tables: this can be small.
	CacheBytes int64 `mapstructure:"cache_bytes"`
	// MemTableBytes is the size of one table of recent writes; there are at most four.
	MemTableBytes int64 `mapstructure:"mem_table_bytes"`
	// WriteTimeout is how long a write may take before the store reports itself unhealthy and refuses further writes at
	// once.
	WriteTimeout time.Duration `mapstructure:"write_timeout"`
	// SweepEvery is the pause between two passes that remove expired entries.
	SweepEvery time.Duration `mapstructure:"sweep_every"`
	// ClockHold is how long the clock must have stayed where it jumped ahead to before entries that expired by it are
	// removed.
	ClockHold time.Duration `mapstructure:"clock_hold"`
	// FeedKeep is the least number of messages kept of a feed topic; up to an eighth more are kept.
	FeedKeep int `mapstructure:"feed_keep"`
	// Counters are kept separately, by an engine of their own.
	Counters CountersConfig `mapstructure:"counters"`
}

// CountersConfig is what an operator may set for the counters.
type CountersConfig struct {
	// CacheBytes is for blocks read from disk; the tables of recent writes count against it.
	CacheBytes int64 `mapstructure:"cache_bytes"`
	// MemTableBytes is the size of one table of recent writes; there are at most four.
	MemTableBytes int64 `mapstructure:"mem_table_bytes"`
	// SyncEvery is how much of the latest updates a crash may lose, in addition to what was not flushed yet.
	SyncEvery time.Duration `mapstructure:"sync_every"`
}

// DefaultConfig returns a Config for a single gateway on a machine where nothing else needs the memory.
func DefaultConfig() Config {
	return Config{
		CacheBytes:    8 << 20,
		MemTableBytes: 4 << 20,
		WriteTimeout:  5 * time.Second,
		SweepEvery:    time.Minute,
		ClockHold:     24 * time.Hour,
		FeedKeep:      65536,
		Counters: CountersConfig{
			CacheBytes:    128 << 20,
			MemTableBytes: 16 << 20,
			SyncEvery:     time.Second,
		},
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
	bad(c.CacheBytes >= 1<<20, "cache_bytes: %d is less than 1 MiB", c.CacheBytes)
	bad(c.MemTableBytes >= 256<<10 && c.MemTableBytes <= 1<<30, "mem_table_bytes: %d is not between 256 KiB and 1 GiB", c.MemTableBytes)
	bad(c.WriteTimeout > 0, "write_timeout: %v is not positive", c.WriteTimeout)
	bad(c.SweepEvery > 0, "sweep_every: %v is not positive", c.SweepEvery)
	bad(c.ClockHold >= 0 && c.ClockHold <= 30*24*time.Hour, "clock_hold: %v is not between 0 and 720h", c.ClockHold)
	bad(c.FeedKeep >= 16, "feed_keep: %d is less than 16", c.FeedKeep)
	k := c.Counters
	bad(k.CacheBytes >= 1<<20, "counters.cache_bytes: %d is less than 1 MiB", k.CacheBytes)
	bad(k.MemTableBytes >= 1<<20 && k.MemTableBytes <= 1<<30, "counters.mem_table_bytes: %d is not between 1 MiB and 1 GiB", k.MemTableBytes)
	bad(k.SyncEvery > 0, "counters.sync_every: %v is not positive", k.SyncEvery)
	return errors.Join(errs...)
}
