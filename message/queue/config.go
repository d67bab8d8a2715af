package queue

import (
	"errors"
	"fmt"
	"time"
)

// Config bounds the queue.
type Config struct {
	MaxEntries    int           `mapstructure:"max_entries"`     // waiting or failed
	MaxPerNetwork int           `mapstructure:"max_per_network"` // per /24 or /48 and day
	MaxAge        time.Duration `mapstructure:"max_age"`         // undecided messages are erased then
	// WebhookSecret signs deliveries to webhooks; empty: unsigned.
	WebhookSecret string `mapstructure:"webhook_secret"`
}

// DefaultConfig returns bounds for a moderator who looks every few days.
func DefaultConfig() Config {
	return Config{MaxEntries: 1000, MaxPerNetwork: 20, MaxAge: 7 * 24 * time.Hour}
}

const (
	maxKept         = 30 * 24 * time.Hour
	maxBytes        = 1 << 20
	keepRecords     = 24 * time.Hour // without text and request
	deliveryTimeout = 10 * time.Second
	maxAttempts     = 8
	retryAfter      = 30 * time.Second
)

// Validate returns all errors of c with their paths.
func (c Config) Validate() error {
	var errs []error
	between := func(key string, value, least, most int64, words string) {
		if value < least || value > most {
			errs = append(errs, fmt.Errorf("%s: must be %s", key, words))
		}
	}
	between("max_entries", int64(c.MaxEntries), 1, 100_000, "1 to 100000")
	between("max_per_network", int64(c.MaxPerNetwork), 1, 1_000_000, "1 to a million")
	between("max_age", int64(c.MaxAge), int64(time.Minute), int64(maxKept), "1m to 30d")
	if c.WebhookSecret != "" && len(c.WebhookSecret) < 16 {
		errs = append(errs, errors.New("webhook_secret: needs at least 16 characters"))
	}
	return errors.Join(errs...)
}
