// Package standing knows which visitors are established: whom a ban on their address does not stop, since the site has known
// them for longer.
package standing

import (
	"errors"
	"fmt"
	"time"
)

// Config is the section verdict.standing.
type Config struct {
	PerAddress int           `mapstructure:"per_address"` // subjects that one address may establish
	Max        int           `mapstructure:"max"`         // subjects known, including candidates
	Keep       time.Duration `mapstructure:"keep"`        // forgotten when not seen for this long
}

// DefaultConfig lets one address establish 32 subjects, and keeps a million for thirty days.
func DefaultConfig() Config {
	return Config{PerAddress: 32, Max: 1_000_000, Keep: 30 * 24 * time.Hour}
}

// Validate returns every problem at once.
func (c *Config) Validate() error {
	var errs []error
	if c.PerAddress < 0 || c.PerAddress > 1000 {
		errs = append(errs, fmt.Errorf("standing.per_address: %d is not between 0 and 1000", c.PerAddress))
	}
	if c.Max < 0 || c.Max > 100_000_000 {
		errs = append(errs, fmt.Errorf("standing.max: %d is not between 0 and 100000000", c.Max))
	}
	if c.Keep < 48*time.Hour || c.Keep > 365*24*time.Hour {
		errs = append(errs, fmt.Errorf("standing.keep: %v is not between 48h and 8760h", c.Keep))
	}
	return errors.Join(errs...)
}
