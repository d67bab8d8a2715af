package journal

import (
	"errors"
	"fmt"
	"time"
)

// Config is the section `journal`; see DefaultConfig.
type Config struct {
	MaxBytes int64         `mapstructure:"max_bytes"` // of the disk; the oldest entries are forgotten. 0: no journal
	MaxAge   time.Duration `mapstructure:"max_age"`   // entries that are older are forgotten
	Humans   float64       `mapstructure:"humans"`    // share of human requests that is kept: 0 to 1
	// Addresses is the fate of addresses after AddressesAfter: keep, shorten (to /24 and /48) or hash (with a daily key
	// that is not stored).
	Addresses      string        `mapstructure:"addresses"`
	AddressesAfter time.Duration `mapstructure:"addresses_after"`
}

const (
	keepAddresses    = "keep"
	shortenAddresses = "shorten"
	hashAddresses    = "hash"
)

const (
	day = 24 * time.Hour
	// keepFigures is how long the figures of hours and days are kept.
	keepFigures = 400 * day
)

// DefaultConfig returns 1 GiB, 14 days, and 1 % of the human requests.
func DefaultConfig() Config {
	return Config{
		MaxBytes: 1 << 30, MaxAge: 14 * day, Humans: 0.01, Addresses: shortenAddresses, AddressesAfter: 14 * day,
	}
}

// Validate returns every error, each beginning with its key.
func (c *Config) Validate() error {
	var errs []error
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(c.MaxBytes == 0 || c.MaxBytes >= 16<<20, "max_bytes: %d is neither 0 nor at least 16 MiB", c.MaxBytes)
	bad(c.MaxAge >= time.Hour && c.MaxAge <= 400*day, "max_age: %v is not between 1h and 400d", c.MaxAge)
	bad(c.Humans >= 0 && c.Humans <= 1, "humans: %v is not between 0 and 1", c.Humans)
	switch c.Addresses {
	case keepAddresses, shortenAddresses, hashAddresses:
	default:
		bad(false, "addresses: %q is none of keep, shorten, hash", c.Addresses)
	}
	bad(c.AddressesAfter >= time.Hour, "addresses_after: %v is less than 1h", c.AddressesAfter)
	return errors.Join(errs...)
}
