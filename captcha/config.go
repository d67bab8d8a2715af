package captcha

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"antirobot/bounded"
	"antirobot/problem"
	"antirobot/spravka"
)

// Config applies to all services.
type Config struct {
	// KeyTTL is how long a challenge can be answered.
	KeyTTL time.Duration `mapstructure:"key_ttl"`
	// Digits is how many digits a challenge asks for, 4 to 8.
	Digits int `mapstructure:"digits"`
	// FormMaxBytes bounds the body of a form that is carried through a challenge.
	FormMaxBytes int64 `mapstructure:"form_max_bytes"`
	// PassesPerDay is how many passes one address can earn at once; further passes come one at a time, at intervals
	// that grow up to LongestWait.
	PassesPerDay int64         `mapstructure:"passes_per_day"`
	LongestWait  time.Duration `mapstructure:"longest_wait"`
	// Pass is what a right answer earns.
	Pass spravka.Config `mapstructure:"pass"`
	// Work is the price of the puzzle-free way, for services that offer it.
	Work WorkConfig `mapstructure:"work"`
	// LookForDrivers has a browser check look for a program that drives the browser, which is asked for digits instead.
	LookForDrivers bool `mapstructure:"look_for_drivers"`
	// Alarm says when a network appears to solve by machine.
	Alarm AlarmConfig `mapstructure:"alarm"`
	// TestAnswer makes every challenge ask for these digits, for operators' tests of their own sites. Empty: none.
	TestAnswer string `mapstructure:"test_answer"`
	// Headers are the names of the gateway's own fields.
	Headers HeadersConfig `mapstructure:"headers"`
	// Templates is a directory whose files replace the built-in pages, and add languages; empty: none.
	Templates string `mapstructure:"templates"`
}

// bounds limit what clients can cost. Tests lower them.
type bounds struct {
	// Rates per address (IPv6: /64) are against floods: a hundred people behind one address stay below. Beyond them,
	// 429.
	images, audio, checks rate
	media                 rate // deliveries of one challenge's picture, and of its sound
	entries               int  // addresses of each rate
	wrong                 int  // wrongly answered keys that are remembered

	places int           // media rendered at once; 0: one per two cores
	queue  int           // requests that wait for a picture, and as many for a sound
	wait   time.Duration // then 503
	cache  int64         // bytes of rendered media

	store time.Duration // one operation of the store; then on_store_failure decides
}

func defaultBounds() bounds {
	return bounds{
		images: rate{300, 300}, audio: rate{120, 120}, checks: rate{300, 300}, media: rate{30, 60},
		entries: 1 << 16, wrong: 1 << 20, queue: 256, wait: 2 * time.Second, cache: 32 << 20, store: time.Second,
	}
}

// rate is a steady number per minute and the burst allowed at once.
type rate struct{ perMinute, burst int }

func (b *bounds) pace(r rate) *bounded.Rate {
	return bounded.NewRate(time.Minute/time.Duration(r.perMinute), r.burst, b.entries)
}

// probeCookie shows whether a browser keeps cookies; langCookie holds the language the visitor chose.
const (
	probeCookie = "antirobot_probe"
	langCookie  = "antirobot_lang"
)

// formTTL is how long a carried form can be submitted.
const formTTL = 2 * time.Hour

// HeadersConfig holds the names of response header fields.
type HeadersConfig struct {
	Verdict   string `mapstructure:"verdict"`
	RequestID string `mapstructure:"request_id"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		KeyTTL:       30 * time.Minute,
		Digits:       6,
		FormMaxBytes: 64 << 10,
		PassesPerDay: 20,
		LongestWait:  time.Hour,
		Pass:         spravka.DefaultConfig(),
		Work:         WorkConfig{Hashes: 200_000},

		LookForDrivers: true,
		Alarm:          AlarmConfig{Solved: 30},
		Headers:        HeadersConfig{Verdict: "X-Antirobot-Verdict", RequestID: "X-Request-Id"},
	}
}

// Bounds of the configuration. Fewer than four digits can be guessed, more than eight do not fit into the picture.
const (
	minDigits, maxDigits = 4, 8
	maxFormBytes         = 128 << 10 // what a sealed request may hold, less its header
)

// Validate returns all problems, each with its path below the section.
func (c *Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	duration := func(key string, d, least, most time.Duration) {
		if d < least || d > most {
			bad("%s: %v is outside %v to %v", key, d, least, most)
		}
	}
	number := func(key string, n, least, most int64) {
		if n < least || n > most {
			bad("%s: %d is outside %d to %d", key, n, least, most)
		}
	}
	duration("key_ttl", c.KeyTTL, time.Minute, 24*time.Hour)
	number("digits", int64(c.Digits), minDigits, maxDigits)
	number("form_max_bytes", c.FormMaxBytes, 0, maxFormBytes)
	number("passes_per_day", c.PassesPerDay, 1, 10_000_000)
	duration("longest_wait", c.LongestWait, time.Second, 24*time.Hour)
	errs = append(errs, problem.At("pass", c.Pass.Validate()))
	number("work.hashes", c.Work.Hashes, minWork, maxWork)
	number("alarm.solved", c.Alarm.Solved, 1, 1_000_000)
	if c.TestAnswer != "" {
		if n := len(c.TestAnswer); strings.Trim(c.TestAnswer, "0123456789") != "" || n < minDigits || n > maxDigits {
			bad("test_answer: %d to %d digits are needed", minDigits, maxDigits)
		}
	}
	for _, n := range [...]struct{ key, name string }{
		{"headers.verdict", c.Headers.Verdict},
		{"headers.request_id", c.Headers.RequestID},
	} {
		if !spravka.ValidCookieName(n.name) { // the same alphabet: a token
			bad("%s: %q is not a name", n.key, n.name)
		}
	}
	return errors.Join(errs...)
}
