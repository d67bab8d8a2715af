package spravka

import (
	"errors"
	"fmt"
	"time"
)

// Config is what a solved captcha earns.
type Config struct {
	// Lifetime is how long a pass is valid, and its cookie kept.
	Lifetime time.Duration `mapstructure:"lifetime"`
	// Allowance is how many requests a pass guarantees.
	Allowance int64 `mapstructure:"allowance"`
	// AllowanceFloor is what a pass guarantees at least, however many its network earned in 24 hours.
	AllowanceFloor int64 `mapstructure:"allowance_floor"`
	// FullPasses is how many passes a /24 or /48 earns in 24 hours before they begin to shrink.
	FullPasses int64 `mapstructure:"full_passes"`
}

// DefaultConfig returns 30 days, 100 requests, never under 20, shrinking after eight passes.
func DefaultConfig() Config {
	return Config{Lifetime: 30 * 24 * time.Hour, Allowance: 100, AllowanceFloor: 20, FullPasses: 8}
}

// Validate returns all that is wrong, each with the key it is about.
func (c Config) Validate() error {
	var errs []error
	if c.Lifetime < time.Minute || c.Lifetime > 400*24*time.Hour {
		errs = append(errs, fmt.Errorf("lifetime: %v is outside 1m to 9600h", c.Lifetime))
	}
	if c.Allowance < 1 || c.Allowance > 1_000_000 {
		errs = append(errs, fmt.Errorf("allowance: %d is outside 1 to 1000000", c.Allowance))
	}
	if c.AllowanceFloor < 1 || c.AllowanceFloor > c.Allowance {
		errs = append(errs, fmt.Errorf("allowance_floor: %d is outside 1 to allowance (%d)", c.AllowanceFloor, c.Allowance))
	}
	if c.FullPasses < 1 {
		errs = append(errs, fmt.Errorf("full_passes: %d is less than 1", c.FullPasses))
	}
	return errors.Join(errs...)
}

// AllowanceOf returns the allowance of the nth pass (the first is 1) that a /24 or /48 earned in 24 hours: all of it
// for the first FullPasses, then Allowance/(n−FullPasses), never under the floor.
func (c Config) AllowanceOf(n int64) uint32 {
	if n <= c.FullPasses {
		return uint32(c.Allowance)
	}
	return uint32(max(c.Allowance/(n-c.FullPasses), min(c.AllowanceFloor, c.Allowance)))
}
