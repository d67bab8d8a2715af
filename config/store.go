package config

import (
	"errors"
	"fmt"

	"antirobot/problem"
	"antirobot/store/redisstore"
)

// Store says where state is kept, and how.
type Store struct {
	// URL chooses the store: empty is the embedded one in the data directory.
	URL string `mapstructure:"url"`
	// CountersURL has the counts in servers of their own, named as URL names them; empty: where the rest is.
	CountersURL string `mapstructure:"counters_url"`
	// Redis is for both.
	Redis redisstore.Config `mapstructure:"redis"`
}

// MemoryURL keeps everything in memory, for tests.
const MemoryURL = "memory:"

// Shared reports whether other gateways use the same store.
func (c *Store) Shared() bool { return c.URL != "" && c.URL != MemoryURL }

// Servers returns the addresses that are on the network, of the store and of its counters.
func (c *Store) Servers() (addresses []string) {
	if c.Shared() {
		addresses = append(addresses, c.URL)
	}
	if c.CountersURL != "" {
		addresses = append(addresses, c.CountersURL)
	}
	return addresses
}

// Validate returns every error of c.
func (c *Store) Validate() error {
	errs := []error{problem.At("redis", c.Redis.Validate())}
	if c.Shared() {
		if _, err := redisstore.ParseURL(c.URL); err != nil {
			errs = append(errs, fmt.Errorf("url: %w; leave it empty for the embedded store", err))
		}
	}
	if c.CountersURL != "" {
		if _, err := redisstore.ParseURL(c.CountersURL); err != nil {
			errs = append(errs, fmt.Errorf("counters_url: %w; leave it empty to have the counts where the rest is", err))
		}
	}
	return errors.Join(errs...)
}
