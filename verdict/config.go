package verdict

import (
	"errors"
	"fmt"
	"time"

	"antirobot/verdict/ledger"
)

// Config is the verdict section, for all services together.
type Config struct {
	Keep   time.Duration `mapstructure:"keep"` // visitors that were not seen for so long are forgotten
	Pass   ledger.Tariff `mapstructure:"pass"`
	Attack AttackConfig  `mapstructure:"attack"`

	// Bounds of memory. A full table makes room for a new ban by the one that ends soonest, and for a new visitor by one that
	// is not Known; further passes can't pay, and further revocations are refused.
	MaxBans        int           `mapstructure:"-"`
	MaxPasses      int           `mapstructure:"-"`
	MaxRevocations int           `mapstructure:"-"` // of single passes
	MaxVisitors    int           `mapstructure:"-"`
	Stopped        int           `mapstructure:"-"` // decisions kept: robot, blocked, or paid by a pass
	Human          int           `mapstructure:"-"` // the others; 0 keeps none
	Rescan         time.Duration `mapstructure:"-"` // how often a shared store is scanned in full
}

// DefaultConfig keeps visitors for thirty days.
func DefaultConfig() Config {
	return Config{
		Keep:    30 * 24 * time.Hour,
		Pass:    ledger.Tariff{Parts: 128, Calls: 16, Browser: 10, Move: 4},
		Attack:  AttackConfig{For: time.Hour, Ease: time.Minute, Then: "check"},
		MaxBans: 1_000_000, MaxPasses: 1_000_000, MaxRevocations: 100_000, MaxVisitors: 1_000_000,
		Stopped: 32_768, Human: 16_384, Rescan: 5 * time.Minute,
	}
}

// Validate returns every problem at once.
func (c *Config) Validate() error {
	var errs []error
	within := func(path string, v, least, most int) {
		if v < least || v > most {
			errs = append(errs, fmt.Errorf("%s: %d is not between %d and %d", path, v, least, most))
		}
	}
	if c.Keep < 48*time.Hour || c.Keep > 365*24*time.Hour {
		errs = append(errs, fmt.Errorf("keep: %v is not between 48h and 8760h", c.Keep))
	}
	within("pass.parts", c.Pass.Parts, 0, 100_000)
	within("pass.calls", c.Pass.Calls, 0, 100_000)
	within("pass.browser", c.Pass.Browser, 1, 1000)
	within("pass.move", c.Pass.Move, 0, 1000)
	return errors.Join(append(errs, c.Attack.validate())...)
}
