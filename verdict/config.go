package verdict

import (
	"errors"
	"fmt"
	"time"

	"antirobot/verdict/ledger"
	"antirobot/verdict/standing"
)

// Config is the verdict section: bounds on what is kept in memory, for all services together.
type Config struct {
	MaxBans        int             `mapstructure:"max_bans"`        // live bans; when full, the one that ends soonest makes room
	MaxPasses      int             `mapstructure:"max_passes"`      // passes that have paid; when full, further ones can't pay
	MaxRevocations int             `mapstructure:"max_revocations"` // passes revoked by ID
	Preflights     int             `mapstructure:"preflights"`      // targets of a day that preflights of an address which is stopped go on to, where a balancer asks
	Rescan         time.Duration   `mapstructure:"rescan"`          // how often a shared store is scanned in full
	Standing       standing.Config `mapstructure:"standing"`
	Pass           ledger.Tariff   `mapstructure:"pass"`
	Decisions      RecentConfig    `mapstructure:"decisions"`
	Attack         AttackConfig    `mapstructure:"attack"`
}

// RecentConfig is how many decisions are kept for operators who ask why.
type RecentConfig struct {
	Stopped int `mapstructure:"stopped"` // robot, blocked, or paid by a pass
	Human   int `mapstructure:"human"`   // the others; 0 keeps none
}

// DefaultConfig returns the default limits.
func DefaultConfig() Config {
	return Config{
		MaxBans:        1_000_000,
		MaxPasses:      1_000_000,
		MaxRevocations: 100_000,
		Preflights:     20,
		Rescan:         5 * time.Minute,
		Standing:       standing.DefaultConfig(),
		Pass:           ledger.Tariff{Parts: 128, Calls: 16, Browser: 10, Move: 4},
		Decisions:      RecentConfig{Stopped: 32_768, Human: 16_384},
		Attack:         AttackConfig{For: time.Hour, Ease: time.Minute, Then: "check"},
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
	within("max_bans", c.MaxBans, 1, 100_000_000)
	within("max_passes", c.MaxPasses, 1, 100_000_000)
	within("max_revocations", c.MaxRevocations, 1, 10_000_000)
	within("preflights", c.Preflights, 0, 10_000)
	within("pass.parts", c.Pass.Parts, 0, 100_000)
	within("pass.calls", c.Pass.Calls, 0, 100_000)
	within("pass.browser", c.Pass.Browser, 1, 1000)
	within("pass.move", c.Pass.Move, 0, 1000)
	within("decisions.stopped", c.Decisions.Stopped, 1, 10_000_000)
	within("decisions.human", c.Decisions.Human, 0, 10_000_000)
	if c.Rescan < time.Second || c.Rescan > 24*time.Hour {
		errs = append(errs, fmt.Errorf("rescan: %v is not between 1s and 24h", c.Rescan))
	}
	errs = append(errs, c.Standing.Validate())
	errs = append(errs, c.Attack.validate())
	return errors.Join(errs...)
}
