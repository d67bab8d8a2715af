package queue

import (
	"errors"
	"fmt"
	"time"
)

// Config bounds the queue.
type Config struct {
	MaxEntries    int           `mapstructure:"max_entries"`     // that wait, or whose delivery failed
	MaxBytes      int64         `mapstructure:"max_bytes"`       // of one request: its head and its body
	MaxPerNetwork int           `mapstructure:"max_per_network"` // that a /24 or /48 may add in a day
	MaxAge        time.Duration `mapstructure:"max_age"`         // what nobody decided on by then is erased
	KeepRecords   time.Duration `mapstructure:"keep_records"`    // of what was decided on, without text and request
	Timeout       time.Duration `mapstructure:"timeout"`         // of one delivery
	Attempts      int           `mapstructure:"attempts"`        // of a delivery, until a person has to look
	RetryAfter    time.Duration `mapstructure:"retry_after"`     // after a failed attempt; doubled each time, up to an hour
	// WebhookSecret signs what is posted to webhooks; empty: it is not signed.
	WebhookSecret string `mapstructure:"webhook_secret"`
}

// DefaultConfig returns bounds for a site with a moderator who looks every few days.
func DefaultConfig() Config {
	return Config{
		MaxEntries: 1000, MaxBytes: 256 << 10, MaxPerNetwork: 20, MaxAge: 7 * 24 * time.Hour, KeepRecords: 24 * time.Hour,
		Timeout: 10 * time.Second, Attempts: 8, RetryAfter: 30 * time.Second,
	}
}

// maxKept is how long a key of the ring is certain to open what it sealed.
const maxKept = 30 * 24 * time.Hour

// Validate returns all errors of c with their paths.
func (c Config) Validate() error {
	var errs []error
	between := func(key string, value, least, most int64, words string) {
		if value < least || value > most {
			errs = append(errs, fmt.Errorf("%s: must be %s", key, words))
		}
	}
	between("max_entries", int64(c.MaxEntries), 1, 100_000, "1 to 100000")
	between("max_bytes", c.MaxBytes, 1<<10, 2<<20, "1 KiB to 2 MiB")
	between("max_per_network", int64(c.MaxPerNetwork), 1, 1_000_000, "1 to a million")
	between("max_age", int64(c.MaxAge), int64(time.Minute), int64(maxKept), "1m to 30d")
	between("keep_records", int64(c.KeepRecords), int64(time.Minute), int64(maxKept), "1m to 30d")
	between("timeout", int64(c.Timeout), int64(100*time.Millisecond), int64(20*time.Second), "100ms to 20s")
	between("attempts", int64(c.Attempts), 1, 100, "1 to 100")
	between("retry_after", int64(c.RetryAfter), int64(time.Second), int64(time.Hour), "1s to 1h")
	if c.WebhookSecret != "" && len(c.WebhookSecret) < 16 {
		errs = append(errs, errors.New("webhook_secret: needs at least 16 characters"))
	}
	return errors.Join(errs...)
}
