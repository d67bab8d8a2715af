package identity

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"

	"antirobot/request"
	"antirobot/spravka"
)

const day = 24 * time.Hour

// Config applies to all services.
type Config struct {
	// TrustedProxies are the addresses and networks trusted to report the client's address. Empty: none are.
	TrustedProxies []string `mapstructure:"trusted_proxies"`
	// ClientAddressHeader is the one header in which they report it: X-Forwarded-For, X-Real-IP, Forwarded (RFC 7239),
	// or another in the format of X-Forwarded-For.
	ClientAddressHeader string `mapstructure:"client_address_header"`
	// JA4Header and HTTP2Header are the headers in which they report the fingerprints of the client's TLS handshake
	// and of its first HTTP/2 frames. Empty: they report none.
	JA4Header   string `mapstructure:"ja4_header"`
	HTTP2Header string `mapstructure:"http2_header"`
	// IPerHour is how many i cookies that can become an identity a /24 or /48 receives per hour.
	IPerHour int64 `mapstructure:"i_per_hour"`
}

// DefaultConfig trusts no proxy.
func DefaultConfig() Config {
	return Config{
		ClientAddressHeader: "X-Forwarded-For",
		IPerHour:            60,
	}
}

// Validate returns all problems, each with its key.
func (c Config) Validate() error {
	var errs []error
	for i, s := range c.TrustedProxies {
		if _, err := request.ParseNetwork(s); err != nil {
			errs = append(errs, fmt.Errorf("trusted_proxies[%d]: %w", i, err))
		}
	}
	if !spravka.ValidCookieName(c.ClientAddressHeader) { // the same alphabet: RFC 9110's token
		errs = append(
			errs, fmt.Errorf("client_address_header: %q can't be the name of a header", c.ClientAddressHeader),
		)
	}
	for key, name := range map[string]string{"ja4_header": c.JA4Header, "http2_header": c.HTTP2Header} {
		if name != "" && !spravka.ValidCookieName(name) {
			errs = append(errs, fmt.Errorf("%s: %q can't be the name of a header", key, name))
		}
	}
	if c.IPerHour < 0 || c.IPerHour > 1_000_000 {
		errs = append(errs, fmt.Errorf("i_per_hour: %d is outside 0 to 1000000", c.IPerHour))
	}
	return errors.Join(errs...)
}

// ServiceConfig is what a service can configure about its identities.
type ServiceConfig struct {
	// Domain is the cookie domain of spravka and i, shared by the hosts below it. Empty: each host has its own cookies.
	Domain string `mapstructure:"domain"`
	// SpravkaCookie is the cookie that carries the pass.
	SpravkaCookie string `mapstructure:"spravka_cookie"`
	// ICookie is the gateway's own browser cookie; empty: none is set or read.
	ICookie string `mapstructure:"i_cookie"`
	// IMinAge is how old an i cookie must be to count.
	IMinAge time.Duration `mapstructure:"i_min_age"`
	// Fuid is "seen" (a value counts when this gateway first saw it over a day ago), "trusted" (the value's own
	// creation time is believed) or "off".
	Fuid string `mapstructure:"fuid"`
	// FuidCookie is the cookie that carries the fuid.
	FuidCookie string `mapstructure:"fuid_cookie"`
	// Login is the login session, the cookie L.
	Login LoginConfig `mapstructure:"login"`
	// ServiceCookie is a cookie that the service signs itself.
	ServiceCookie ServiceCookieConfig `mapstructure:"service_cookie"`
}

// LoginConfig says how the login session is verified.
type LoginConfig struct {
	Cookie string `mapstructure:"cookie"`
	// Algorithm is "off", "hmac" (value.unixtime.signature, see docs/cookies.md) or, for a JWT, "HS256", "EdDSA" or
	// "RS256". No other algorithm is accepted, whatever the token says.
	Algorithm string   `mapstructure:"algorithm"`
	Keys      []KeyRef `mapstructure:"keys"`
	// Issuer and Audience, where set, must appear in the JWT.
	Issuer   string `mapstructure:"issuer"`
	Audience string `mapstructure:"audience"`
	// MaxAge is how long after its creation a session counts; 0: as long as it says itself.
	MaxAge time.Duration `mapstructure:"max_age"`
}

// ServiceCookieConfig says how the service's own signed cookie is verified; no name: there is none.
type ServiceCookieConfig struct {
	Name string   `mapstructure:"name"`
	Keys []KeyRef `mapstructure:"keys"`
	// MinAge is how old the cookie must be to count.
	MinAge time.Duration `mapstructure:"min_age"`
}

// KeyRef is a key, or a reference to it: exactly one of the three. Shared secrets are text without surrounding white
// space, 32 bytes or more; public keys are PEM.
type KeyRef struct {
	Key     string `mapstructure:"key"`
	KeyFile string `mapstructure:"key_file"`
	KeyEnv  string `mapstructure:"key_env"`
}

// Format prints where the key is, never the key itself.
func (k KeyRef) Format(f fmt.State, _ rune) {
	switch {
	case k.KeyFile != "":
		_, _ = fmt.Fprintf(f, "key_file %s", k.KeyFile)
	case k.KeyEnv != "":
		_, _ = fmt.Fprintf(f, "key_env %s", k.KeyEnv)
	default:
		_, _ = fmt.Fprint(f, "key ***")
	}
}

func (k KeyRef) read() ([]byte, error) {
	text := k.Key
	switch {
	case k.KeyFile != "":
		b, err := os.ReadFile(k.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("key_file: %w", err)
		}
		text = string(b)
	case k.KeyEnv != "":
		var ok bool
		if text, ok = os.LookupEnv(k.KeyEnv); !ok {
			return nil, fmt.Errorf("key_env: the environment has no %s", k.KeyEnv)
		}
	}
	return []byte(strings.TrimSpace(text)), nil
}

// DefaultServiceConfig reads spravka, i, and fuid01 in mode seen; no login, and no service cookie.
func DefaultServiceConfig() ServiceConfig {
	return ServiceConfig{
		SpravkaCookie: "spravka",
		ICookie:       "i",
		IMinAge:       day,
		Fuid:          fuidSeen,
		FuidCookie:    "fuid01",
		Login:         LoginConfig{Cookie: "L", Algorithm: algOff},
		ServiceCookie: ServiceCookieConfig{MinAge: day},
	}
}

// Values of ServiceConfig.Fuid and LoginConfig.Algorithm.
const (
	fuidSeen    = "seen"
	fuidTrusted = "trusted"
	fuidOff     = "off"

	algOff   = "off"
	algHMAC  = "hmac"
	algHS256 = "HS256"
	algEdDSA = "EdDSA"
	algRS256 = "RS256"
)

// Validate returns all problems, each with its key. It does not read files: NewCookieSettings does.
func (c ServiceConfig) Validate() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if err := validDomain(c.Domain); err != nil {
		fail("domain: %w", err)
	}
	c.validateNames(fail)
	if c.IMinAge < 0 {
		fail("i_min_age: %v is negative", c.IMinAge)
	}
	switch c.Fuid {
	case fuidSeen, fuidTrusted, fuidOff:
	default:
		fail("fuid: %q must be seen, trusted or off", c.Fuid)
	}
	l := c.Login
	switch l.Algorithm {
	case algOff, algHMAC, algHS256, algEdDSA, algRS256:
	default:
		fail("login.algorithm: %q must be off, hmac, HS256, EdDSA or RS256", l.Algorithm)
	}
	if l.Algorithm != algOff && len(l.Keys) == 0 {
		fail("login.keys: algorithm %s needs a key", l.Algorithm)
	}
	if (l.Algorithm == algHMAC || l.Algorithm == algOff) && l.Issuer+l.Audience != "" {
		fail("login.issuer: issuer and audience need a JWT algorithm")
	}
	if l.MaxAge < 0 {
		fail("login.max_age: %v is negative", l.MaxAge)
	}
	validateKeys(fail, "login.keys", l.Keys)
	if c.ServiceCookie.Name != "" && len(c.ServiceCookie.Keys) == 0 {
		fail("service_cookie.keys: cookie %s needs a key", c.ServiceCookie.Name)
	}
	if c.ServiceCookie.Name == "" && len(c.ServiceCookie.Keys) > 0 {
		fail("service_cookie.name: there are keys but no name")
	}
	if c.ServiceCookie.MinAge < 0 {
		fail("service_cookie.min_age: %v is negative", c.ServiceCookie.MinAge)
	}
	validateKeys(fail, "service_cookie.keys", c.ServiceCookie.Keys)
	return errors.Join(errs...)
}

func (c ServiceConfig) validateNames(fail func(string, ...any)) {
	names := []struct {
		key, name string
		must      bool
	}{
		{"spravka_cookie", c.SpravkaCookie, true},
		{"i_cookie", c.ICookie, false},
		{"fuid_cookie", c.FuidCookie, c.Fuid != fuidOff},
		{"login.cookie", c.Login.Cookie, c.Login.Algorithm != algOff},
		{"service_cookie.name", c.ServiceCookie.Name, false},
	}
	for i, n := range names {
		switch {
		case n.name == "" && n.must:
			fail("%s: must not be empty", n.key)
		case n.name == "":
			continue
		case !spravka.ValidCookieName(n.name):
			fail("%s: %q can't be the name of a cookie", n.key, n.name)
		}
		for _, o := range names[:i] {
			if o.name == n.name {
				fail("%s: %q is the name of %s already", n.key, n.name, o.key)
			}
		}
	}
}

func validateKeys(fail func(string, ...any), path string, keys []KeyRef) {
	for i, k := range keys {
		set := 0
		for _, s := range []string{k.Key, k.KeyFile, k.KeyEnv} {
			if s != "" {
				set++
			}
		}
		if set != 1 {
			fail("%s[%d]: must have exactly one of key, key_file and key_env", path, i)
		}
	}
}

// validDomain accepts domains that browsers accept for cookies, as far as can be decided without a list of
// registries.
func validDomain(d string) error {
	if d == "" {
		return nil
	}
	d = strings.TrimPrefix(d, ".")
	if _, err := netip.ParseAddr(d); err == nil {
		return fmt.Errorf("%q is an address; browsers accept names alone", d)
	}
	if len(d) > 253 || !strings.Contains(d, ".") {
		return fmt.Errorf("%q is not a name below a top-level domain; browsers refuse such cookies", cut(d))
	}
	for label := range strings.SplitSeq(d, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' ||
			strings.Trim(label, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" {
			return fmt.Errorf("%q is not a domain name", cut(d))
		}
	}
	return nil
}
