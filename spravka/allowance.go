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
	// AllowanceFloor is the least that a pass guarantees, however many its network earned.
	AllowanceFloor int64 `mapstructure:"allowance_floor"`
	// FullPasses is how many passes a /24 or /48 earns in a day, and FullPassesHour in an hour, before they begin to
	// shrink.
	FullPasses     int64 `mapstructure:"full_passes"`
	FullPassesHour int64 `mapstructure:"full_passes_hour"`
}

// DefaultConfig returns 30 days, 100 documents, never under 5, shrinking after four passes in an hour or eight in a day.
func DefaultConfig() Config {
	return Config{Lifetime: 30 * 24 * time.Hour, Allowance: 100, AllowanceFloor: 5, FullPasses: 8, FullPassesHour: 4}
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
	if c.FullPasses < 1 {
		errs = append(errs, fmt.Errorf("full_passes: %d is less than 1", c.FullPasses))
	}
	if c.FullPassesHour < 1 {
		errs = append(errs, fmt.Errorf("full_passes_hour: %d is less than 1", c.FullPassesHour))
	}
	return errors.Join(errs...)
}

// AllowanceOf returns the allowance of a pass whose /24 or /48 has earned so many in an hour and in a day: all of it within
// the full counts, then reduced in proportion to the excess, but never below the floor.
func (c Config) AllowanceOf(hour, day float64) uint32 {
	share := min(1, float64(c.FullPassesHour)/max(hour, 1), float64(c.FullPasses)/max(day, 1))
	return uint32(max(float64(c.Allowance)*share, float64(min(c.AllowanceFloor, c.Allowance))))
}
