package alarm

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"
)

// Config is the section `alarms`; see DefaultConfig.
type Config struct {
	Every  time.Duration `mapstructure:"every"`  // how often the watch looks
	Repeat time.Duration `mapstructure:"repeat"` // an alarm that lasts is told again after this
	// ListAge is how old a list may become whose source fails.
	ListAge time.Duration `mapstructure:"list_age"`
	// Certificate is how long before its end a certificate is an alarm.
	Certificate    time.Duration `mapstructure:"certificate"`
	PeopleStuck    PeopleStuck   `mapstructure:"people_stuck"`
	StoppedDoubled Doubled       `mapstructure:"stopped_doubled"`
	Webhooks       []Webhook     `mapstructure:"webhooks"`
}

// PeopleStuck sets when people appear unable to solve the captcha: at least this many of the networks that answered
// within the last two hours, and this share of them, have no right answer.
type PeopleStuck struct {
	Visitors int     `mapstructure:"visitors"`
	Share    float64 `mapstructure:"share"`
}

// Doubled sets when blocking rises suddenly: the share of the last half hour is Factor times that of the day before,
// and at least Share of at least Requests requests.
type Doubled struct {
	Factor   float64 `mapstructure:"factor"`
	Share    float64 `mapstructure:"share"`
	Requests float64 `mapstructure:"min_requests"`
}

// Webhook is who is told.
type Webhook struct {
	URL     string `mapstructure:"url"`      // or URLFile
	URLFile string `mapstructure:"url_file"` // a file with the URL, usually a secret
	// Format is json, with all fields, or slack, with the text alone.
	Format string `mapstructure:"format"`
}

const (
	formatJSON  = "json"
	formatSlack = "slack"
)

// DefaultConfig has no webhooks: alarms are in the console and the API.
func DefaultConfig() Config {
	return Config{
		Every: 30 * time.Second, Repeat: 6 * time.Hour, ListAge: 24 * time.Hour, Certificate: 14 * 24 * time.Hour,
		PeopleStuck:    PeopleStuck{Visitors: 20, Share: 0.5},
		StoppedDoubled: Doubled{Factor: 2, Share: 0.05, Requests: 500},
		Webhooks:       []Webhook{},
	}
}

// Validate returns every error, each beginning with its key.
func (c *Config) Validate() error {
	var errs []error
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(c.Every >= time.Second && c.Every <= time.Hour, "every: %v is not between 1s and 1h", c.Every)
	bad(c.Repeat >= time.Minute, "repeat: %v is shorter than 1m", c.Repeat)
	bad(c.ListAge >= time.Minute, "list_age: %v is shorter than 1m", c.ListAge)
	bad(c.Certificate >= 0, "certificate: %v is negative", c.Certificate)
	bad(c.PeopleStuck.Visitors >= 1, "people_stuck.visitors: must be at least 1")
	bad(c.PeopleStuck.Share > 0 && c.PeopleStuck.Share <= 1, "people_stuck.share: %v is not above 0 and at most 1",
		c.PeopleStuck.Share)
	bad(c.StoppedDoubled.Factor > 1, "stopped_doubled.factor: %v is not above 1", c.StoppedDoubled.Factor)
	bad(c.StoppedDoubled.Share >= 0 && c.StoppedDoubled.Share <= 1, "stopped_doubled.share: %v is not between 0 and 1",
		c.StoppedDoubled.Share)
	bad(c.StoppedDoubled.Requests >= 1, "stopped_doubled.min_requests: must be at least 1")
	for i, w := range c.Webhooks {
		at := fmt.Sprintf("webhooks[%d]", i)
		bad((w.URL == "") != (w.URLFile == ""), "%s: give one of url and url_file", at)
		if w.URL != "" {
			bad(goodURL(w.URL), "%s.url: is no http:// or https:// URL with a host", at)
		}
		bad(w.Format == "" || w.Format == formatJSON || w.Format == formatSlack,
			"%s.format: %q is none of json, slack", at, w.Format)
	}
	return errors.Join(errs...)
}

func goodURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

// Address returns the URL, from the file if that is where it is.
func (w *Webhook) Address() (string, error) {
	if w.URLFile == "" {
		return w.URL, nil
	}
	text, err := os.ReadFile(w.URLFile)
	if err != nil {
		return "", fmt.Errorf("url_file: %w", err)
	}
	address := strings.TrimSpace(string(text))
	if !goodURL(address) {
		return "", fmt.Errorf("url_file: %s holds no http:// or https:// URL with a host", w.URLFile)
	}
	return address, nil
}

// host is the part of an address that is no secret.
func host(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "?"
	}
	return u.Host
}
