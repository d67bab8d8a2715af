package spravka

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Config is what a solved captcha earns.
type Config struct {
	// Lifetime is how long a pass is valid, and its cookie kept.
	Lifetime time.Duration `mapstructure:"lifetime"`
	// Allowance is how many requests a pass guarantees.
	Allowance int64 `mapstructure:"allowance"`
	// AllowanceFloor is the least that a pass guarantees, however it was earned and however many its network earned.
	AllowanceFloor int64 `mapstructure:"allowance_floor"`
	// HalfAfter is after how many passes of a household in a day the next one is worth half.
	HalfAfter float64 `mapstructure:"half_after"`
}

// DefaultConfig returns 30 days, 100 documents, and for each further pass of a household on a day half of that.
func DefaultConfig() Config {
	return Config{Lifetime: 30 * 24 * time.Hour, Allowance: 100, AllowanceFloor: 10, HalfAfter: 1}
}

// Validate returns everything that is wrong, with the key of each problem.
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
	if !(c.HalfAfter >= 0.1 && c.HalfAfter <= 1e6) {
		errs = append(errs, fmt.Errorf("half_after: %v is outside 0.1 to 1000000", c.HalfAfter))
	}
	return errors.Join(errs...)
}

// AllowanceOf returns the allowance of a pass for a household that has earned so many in a day before: half of it for each
// HalfAfter passes, but never below the floor.
func (c Config) AllowanceOf(earned float64) uint32 {
	n := float64(c.Allowance) * math.Exp2(-max(earned, 0)/c.HalfAfter)
	return uint32(max(n, float64(min(c.AllowanceFloor, c.Allowance))))
}
