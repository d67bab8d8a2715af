package processor

import (
	"errors"
	"fmt"
	"time"

	"antirobot/bounded"
	"antirobot/request"
	"antirobot/verdict/quota"
	"antirobot/verdict/training"
)

// Config is the processor section, for all services together; the limits are the services' own.
type Config struct {
	Enabled       bool          `mapstructure:"enabled"`        // false: nothing is counted and nobody is banned for pace
	Exempt        []string      `mapstructure:"exempt"`         // networks whose clients are counted but never banned for pace
	Queue         int           `mapstructure:"queue"`          // events that may wait, for all workers; a power of two is used
	Workers       int           `mapstructure:"workers"`        // goroutines that judge events
	MaxSessions   int           `mapstructure:"max_sessions"`   // subjects known at once, about 370 bytes each
	AddressAgents int           `mapstructure:"address_agents"` // at most this many User-Agents raise the limits of an address
	CrowdFactor   int           `mapstructure:"crowd_factor"`   // for an address over all subjects with cookies: times the limits
	MaxBan        time.Duration `mapstructure:"max_ban"`        // bans double with each repetition up to this
	Forget        time.Duration `mapstructure:"forget"`         // a subject not banned for this long starts over
	Ban           time.Duration `mapstructure:"ban"`            // the first scored ban of a subject

	Quota    quota.Config    `mapstructure:"quota"`    // what may be read before visitors are checked
	Training training.Config `mapstructure:"training"` // what is kept for models to be trained with
}

// DefaultConfig returns a queue of 16384 events, two workers, a million sessions. This machine itself is exempt: if a
// balancer on it is not named in trusted_proxies, all visitors have its address, and a ban would stop them all.
func DefaultConfig() Config {
	return Config{
		Enabled: true, Exempt: []string{"127.0.0.0/8", "::1/128"},
		Queue: 16384, Workers: 2, MaxSessions: 1_000_000, AddressAgents: 8, CrowdFactor: 8,
		MaxBan: 24 * time.Hour, Forget: 24 * time.Hour, Ban: 10 * time.Minute,
		Quota: quota.DefaultConfig(), Training: training.DefaultConfig(),
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
	within("queue", c.Queue, 16, 1<<22)
	within("workers", c.Workers, 1, 64)
	within("max_sessions", c.MaxSessions, bounded.Shards, 100_000_000)
	within("address_agents", c.AddressAgents, 1, 64)
	within("crowd_factor", c.CrowdFactor, 1, 1000)
	if c.MaxBan < time.Second || c.MaxBan > 30*24*time.Hour {
		errs = append(errs, fmt.Errorf("max_ban: %v is not between 1s and 720h", c.MaxBan))
	}
	if c.Forget < time.Minute || c.Forget > 30*24*time.Hour {
		errs = append(errs, fmt.Errorf("forget: %v is not between 1m and 720h", c.Forget))
	}
	if c.Ban < time.Second || c.Ban > 30*24*time.Hour {
		errs = append(errs, fmt.Errorf("ban: %v is not between 1s and 720h", c.Ban))
	}
	errs = append(errs, c.Quota.Validate(), c.Training.Validate())
	for i, n := range c.Exempt {
		if _, err := request.ParseNetwork(n); err != nil {
			errs = append(errs, fmt.Errorf("exempt[%d]: %w", i, err))
		}
	}
	return errors.Join(errs...)
}
