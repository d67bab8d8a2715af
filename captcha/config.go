package captcha

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"antirobot/bounded"
	"antirobot/captcha/steps"
	"antirobot/captcha/style"
	"antirobot/problem"
	"antirobot/spravka"
)

// Config applies to all services.
type Config struct {
	// KeyTTL is how long a challenge can be answered.
	KeyTTL time.Duration `mapstructure:"key_ttl"`
	// Digits is how many digits a challenge asks for, 4 to 8.
	Digits int `mapstructure:"digits"`
	// Styles are the styles of the picture; each challenge has one of them.
	Styles []string `mapstructure:"styles"`
	// FormMaxBytes bounds the body of a form that is carried through a challenge; FormTTL is how long it can still be sent
	// on.
	FormMaxBytes int64         `mapstructure:"form_max_bytes"`
	FormTTL      time.Duration `mapstructure:"form_ttl"`
	// Rates are per address (IPv6: per /64).
	Rates RatesConfig `mapstructure:"rates"`
	// PassesPerHour is how many passes one address can earn at once; further passes come one at a time, at intervals that
	// grow up to one such share of the hour. Beyond PassesPerDay in a day the intervals grow up to LongestWait.
	PassesPerHour int64         `mapstructure:"passes_per_hour"`
	PassesPerDay  int64         `mapstructure:"passes_per_day"`
	LongestWait   time.Duration `mapstructure:"longest_wait"`
	// StrangeHouseholds is how many households all those may earn like together who read unlike the site's people, wherever
	// they are; 0: they count by their networks only.
	StrangeHouseholds float64 `mapstructure:"strange_households"`
	// Pass is what a right answer earns.
	Pass spravka.Config `mapstructure:"pass"`
	// Work is the price of the puzzle-free way, for services that offer it.
	Work WorkConfig `mapstructure:"work"`
	// Steps is what the steps of the ladder cost and earn.
	Steps steps.Config `mapstructure:"steps"`
	// Alarm says when a network appears to solve by machine.
	Alarm AlarmConfig `mapstructure:"alarm"`
	// RenderConcurrency is how many pictures and sounds are rendered at once, 0: one per two cores. RenderQueue is how many
	// requests wait for a picture, and how many for a sound, each for at most RenderWait; the rest get 503. Networks take turns.
	RenderConcurrency int           `mapstructure:"render_concurrency"`
	RenderQueue       int           `mapstructure:"render_queue"`
	RenderWait        time.Duration `mapstructure:"render_wait"`
	// MediaCacheBytes bounds the cached pictures and sounds, so that each is rendered once.
	MediaCacheBytes int64 `mapstructure:"media_cache_bytes"`
	// SpentWrong is how many wrongly answered keys are remembered, RateEntries how many addresses.
	SpentWrong  int `mapstructure:"spent_wrong"`
	RateEntries int `mapstructure:"rate_entries"`
	// StoreTimeout bounds one store operation.
	StoreTimeout time.Duration `mapstructure:"store_timeout"`
	// TestAnswer, if set, makes every challenge ask for these digits. It is only for operators' tests of their own sites.
	TestAnswer string `mapstructure:"test_answer"`
	// Headers are the names of the gateway's own fields.
	Headers HeadersConfig `mapstructure:"headers"`
	// ProbeCookie tells whether a browser keeps cookies; LangCookie remembers a chosen language.
	ProbeCookie string `mapstructure:"probe_cookie"`
	LangCookie  string `mapstructure:"lang_cookie"`
	// Templates is a directory whose files replace the built-in pages, and add languages; empty: none.
	Templates string `mapstructure:"templates"`
}

// RatesConfig is how often one address may ask, and how often the media of one key are delivered.
type RatesConfig struct {
	Key    Rate `mapstructure:"key"`
	Images Rate `mapstructure:"images"`
	Audio  Rate `mapstructure:"audio"`
	Checks Rate `mapstructure:"checks"`
}

// Rate is a steady number per minute and the burst allowed at once.
type Rate struct {
	PerMinute int `mapstructure:"per_minute"`
	Burst     int `mapstructure:"burst"`
}

// pace limits addresses to the rate.
func (r Rate) pace(entries int) *bounded.Rate {
	return bounded.NewRate(time.Minute/time.Duration(r.PerMinute), r.Burst, entries)
}

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
		Styles:       style.Names(),
		FormMaxBytes: 64 << 10,
		FormTTL:      2 * time.Hour,
		Rates: RatesConfig{
			Key:    Rate{PerMinute: 30, Burst: 60},
			Images: Rate{PerMinute: 300, Burst: 300},
			Audio:  Rate{PerMinute: 120, Burst: 120},
			Checks: Rate{PerMinute: 300, Burst: 300},
		},
		PassesPerHour: 20,
		PassesPerDay:  20,
		LongestWait:   time.Hour,

		StrangeHouseholds: 2,

		Pass:        spravka.DefaultConfig(),
		Work:        WorkConfig{Hashes: 200_000, MaxHashes: 2_000_000, AllowancePercent: 100},
		Steps:       steps.DefaultConfig(),
		Alarm:       AlarmConfig{Solved: 30, Quick: 2500 * time.Millisecond},
		RenderQueue: 256,
		RenderWait:  2 * time.Second,
		SpentWrong:  1 << 20,

		MediaCacheBytes: 32 << 20,
		RateEntries:     1 << 16,
		StoreTimeout:    time.Second,
		Headers:         HeadersConfig{Verdict: "X-Antirobot-Verdict", RequestID: "X-Request-Id"},
		ProbeCookie:     "antirobot_probe",
		LangCookie:      "antirobot_lang",
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
	if err := style.Check(c.Styles); err != nil {
		bad("styles: %w", err)
	}
	number("form_max_bytes", c.FormMaxBytes, 0, maxFormBytes)
	duration("form_ttl", c.FormTTL, time.Minute, 24*time.Hour)
	for _, r := range [...]struct {
		key string
		Rate
	}{{"key", c.Rates.Key}, {"images", c.Rates.Images}, {"audio", c.Rates.Audio}, {"checks", c.Rates.Checks}} {
		number("rates."+r.key+".per_minute", int64(r.PerMinute), 1, 1_000_000)
		number("rates."+r.key+".burst", int64(r.Burst), 1, 1_000_000)
	}
	number("passes_per_hour", c.PassesPerHour, 1, 1_000_000)
	number("passes_per_day", c.PassesPerDay, 1, 10_000_000)
	duration("longest_wait", c.LongestWait, time.Second, time.Hour)
	if c.StrangeHouseholds != 0 && !(c.StrangeHouseholds >= 1 && c.StrangeHouseholds <= 1e6) {
		bad("strange_households: %v is neither 0 nor in 1 to 1000000", c.StrangeHouseholds)
	}
	errs = append(errs, problem.At("pass", c.Pass.Validate()))
	c.Work.validate(bad)
	c.Steps.Check(bad)
	number("alarm.solved", c.Alarm.Solved, 1, 1_000_000)
	duration("alarm.quick", c.Alarm.Quick, 100*time.Millisecond, time.Minute)
	number("render_concurrency", int64(c.RenderConcurrency), 0, 1024)
	number("render_queue", int64(c.RenderQueue), 0, 1<<20)
	duration("render_wait", c.RenderWait, 0, time.Minute)
	number("media_cache_bytes", c.MediaCacheBytes, 0, 1<<40)
	number("spent_wrong", int64(c.SpentWrong), 1024, 1<<26)
	number("rate_entries", int64(c.RateEntries), 1024, 1<<26)
	duration("store_timeout", c.StoreTimeout, time.Millisecond, time.Minute)
	if c.TestAnswer != "" {
		if n := len(c.TestAnswer); strings.Trim(c.TestAnswer, "0123456789") != "" || n < minDigits || n > maxDigits {
			bad("test_answer: %d to %d digits are needed", minDigits, maxDigits)
		}
	}
	for _, n := range [...]struct{ key, name string }{
		{"headers.verdict", c.Headers.Verdict},
		{"headers.request_id", c.Headers.RequestID},
		{"probe_cookie", c.ProbeCookie},
		{"lang_cookie", c.LangCookie},
	} {
		if !spravka.ValidCookieName(n.name) { // cookies and header fields have the same rule: a token
			bad("%s: %q is not a name", n.key, n.name)
		}
	}
	if c.ProbeCookie == c.LangCookie {
		bad("lang_cookie: the same as probe_cookie")
	}
	return errors.Join(errs...)
}
