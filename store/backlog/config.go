package backlog

import (
	"errors"
	"fmt"
	"time"
)

// Config is what an operator may set.
type Config struct {
	// MaxBytes bounds what waits on disk, about 20 bytes a sum.
	MaxBytes int64 `mapstructure:"max_bytes"`
	// SyncEvery is how much of what waits a crash of the machine may lose; a durable update is synced at once.
	SyncEvery time.Duration `mapstructure:"sync_every"`
}

// DefaultConfig returns a Config that keeps some fifty million sums.
func DefaultConfig() Config { return Config{MaxBytes: 1 << 30, SyncEvery: time.Second} }

// Validate returns everything that is wrong with c.
func (c Config) Validate() error {
	var errs []error
	if c.MaxBytes < 1<<20 {
		errs = append(errs, fmt.Errorf("max_bytes: %d is less than 1 MiB", c.MaxBytes))
	}
	if c.SyncEvery < 10*time.Millisecond || c.SyncEvery > time.Minute {
		errs = append(errs, fmt.Errorf("sync_every: %v is not between 10ms and 1m", c.SyncEvery))
	}
	return errors.Join(errs...)
}
