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
}

// DefaultConfig returns 30 days and 100 pages.
func DefaultConfig() Config { return Config{Lifetime: 30 * 24 * time.Hour, Allowance: 100} }

// allowanceFloor is the least that a pass guarantees, however many its network earned.
const allowanceFloor = 10

// Validate returns all problems, each with its key.
func (c Config) Validate() error {
	var errs []error
	if c.Lifetime < time.Minute || c.Lifetime > 400*24*time.Hour {
		errs = append(errs, fmt.Errorf("lifetime: %v is outside 1m to 9600h", c.Lifetime))
	}
	if c.Allowance < 1 || c.Allowance > 1_000_000 {
		errs = append(errs, fmt.Errorf("allowance: %d is outside 1 to 1000000", c.Allowance))
	}
	return errors.Join(errs...)
}

// Floor is the allowance of every pass.
func (c Config) Floor() uint32 { return uint32(min(allowanceFloor, c.Allowance)) }

// AllowanceOf returns the allowance of a pass for a household that has earned so many in a day before: half of it for each
// of them, but never below the floor.
func (c Config) AllowanceOf(earned float64) uint32 {
	n := float64(c.Allowance) * math.Exp2(-max(earned, 0))
	return max(uint32(n), c.Floor())
}
