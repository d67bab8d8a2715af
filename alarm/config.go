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
	Every  time.Duration `mapstructure:"-"` // between two looks
	Repeat time.Duration `mapstructure:"-"` // until a lasting alarm is sent again
	// Certificate is how long before its end a certificate is an alarm.
	Certificate time.Duration `mapstructure:"certificate"`
	Webhooks    []Webhook     `mapstructure:"webhooks"`
}

// Bounds of the alarms.
const (
	listAge = 24 * time.Hour // of a list whose source fails

	// People appear unable to solve the captcha when at least this many of the networks that answered within the last two
	// hours, and this share of them, have no right answer.
	stuckNetworks = 20
	stuckShare    = 0.5

	// Blocking rises suddenly when the share of the last half hour is this multiple of that of the day before, and at least
	// a minimum of a minimum of requests.
	doubledFactor   = 2
	doubledShare    = 0.05
	doubledRequests = 500
)

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
		Every: 10 * time.Second, Repeat: 6 * time.Hour, Certificate: 14 * 24 * time.Hour, Webhooks: []Webhook{},
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
	bad(c.Certificate >= 0, "certificate: %v is negative", c.Certificate)
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
