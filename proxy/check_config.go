package proxy

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"

	"antirobot/proxy/h1/wire"
	"antirobot/request"
)

// CheckConfig configures check mode.
type CheckConfig struct {
	// Listen is where balancers ask; none: off. Keep these addresses private.
	Listen []string `mapstructure:"listen"`
	// SPOE is where HAProxy asks; it sends stopped requests to Listen.
	SPOE []string `mapstructure:"spoe"`
	// GRPC is where Envoy asks (ext_authz); it sends requests for the captcha's pages to Listen.
	GRPC []string `mapstructure:"grpc"`
	// Style is verdict (Path answers with a status, other calls get the visitor's answer) or full (every call is the
	// request itself).
	Style string `mapstructure:"style"`
	// Path is the check path in style verdict.
	Path string `mapstructure:"path"`
	// Headers names the fields that describe the request in style verdict: forwarded, original or envoy.
	Headers string `mapstructure:"headers"`
	// Allowed are the balancers' networks; other callers need the secret.
	Allowed []string `mapstructure:"allowed"`
	// Secret admits callers from anywhere that send it in SecretField.
	Secret     string `mapstructure:"secret"`
	SecretFile string `mapstructure:"secret_file"`
	// AccelLocation is the X-Accel-Redirect for a human in style full; empty: no such field.
	AccelLocation string `mapstructure:"accel_location"`
	// OnError applies to requests of an unknown host and after an internal error: open (pass) or closed (503).
	OnError string `mapstructure:"on_error"`

	roomy bool   // the balancer has room for large answers
	asked string // the check path of Listen, if Path is another caller's
}

// DefaultCheckConfig is off, and admits this machine alone.
func DefaultCheckConfig() CheckConfig {
	return CheckConfig{
		Style: "verdict", Path: "/check", Headers: "forwarded", Allowed: []string{"127.0.0.0/8", "::1/128"},
		AccelLocation: "@backend", OnError: "closed",
	}
}

// ForSPOE is c for calls that package spoe makes.
func (c CheckConfig) ForSPOE() CheckConfig {
	c.asked = c.Path
	c.Style, c.Path, c.Headers = styleVerdict, "/check", "forwarded"
	return c
}

// ForExtAuthz is c for calls that package extauthz makes: for requests with their body, where a human's answer names
// the location human, and for those without, which are checked below path.
func (c CheckConfig) ForExtAuthz(human, path string) (whole, bare CheckConfig) {
	c.SPOE = nil // style full rules it out
	whole, bare = c, c
	whole.Style, whole.AccelLocation, whole.roomy = styleFull, human, true
	bare.Style, bare.Path, bare.Headers = styleVerdict, path, "envoy"
	return whole, bare
}

// SecretField carries the secret.
const SecretField = "X-Antirobot-Secret"

const minCheckSecret = 16

// Validate returns all problems, each with its key. It opens no file.
func (c *CheckConfig) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	oneOf := func(key, value string, of ...string) {
		if !slices.Contains(of, value) {
			bad("%s: %q is none of %s", key, value, strings.Join(of, ", "))
		}
	}
	for key, list := range map[string][]string{"listen": c.Listen, "spoe": c.SPOE, "grpc": c.GRPC} {
		for i, l := range list {
			if _, port, err := net.SplitHostPort(l); err != nil {
				bad("%s[%d]: %q is not a host:port such as 127.0.0.1:9091", key, i, l)
			} else if _, err := net.LookupPort("tcp", port); err != nil {
				bad("%s[%d]: %q is no port", key, i, port)
			}
		}
	}
	if len(c.SPOE) > 0 && (len(c.Listen) == 0 || c.Style != styleVerdict) {
		bad("spoe: needs listen, where HAProxy sends those who are stopped, and style verdict")
	}
	if len(c.GRPC) > 0 && len(c.Listen) == 0 {
		bad("grpc: needs listen, where Envoy sends the captcha's own pages")
	}
	oneOf("style", c.Style, styleVerdict, styleFull)
	oneOf("headers", c.Headers, "forwarded", "original", "envoy")
	oneOf("on_error", c.OnError, "open", "closed")
	if !strings.HasPrefix(c.Path, "/") || c.Path == "/" || strings.HasSuffix(c.Path, "/") ||
		!wire.ValidTarget(nil, []byte(c.Path)) ||
		strings.Contains(c.Path, "?") {
		bad("path: %q is not a path such as /check", c.Path)
	}
	for i, a := range c.Allowed {
		if _, err := request.ParseNetwork(a); err != nil {
			bad("allowed[%d]: %w", i, err)
		}
	}
	if c.Secret != "" && c.SecretFile != "" {
		bad("secret_file: secret is set too; keep one of them")
	}
	if c.Secret != "" && len(c.Secret) < minCheckSecret {
		bad("secret: shorter than %d characters", minCheckSecret)
	}
	if len(c.Listen) > 0 && len(c.Allowed) == 0 && c.Secret == "" && c.SecretFile == "" {
		bad("allowed: without a balancer's address and without a secret nobody may ask")
	}
	for _, b := range []byte(c.AccelLocation) {
		if b <= ' ' || b >= 0x7f {
			bad("accel_location: %q is no location such as @backend or /internal", c.AccelLocation)
			break
		}
	}
	return errors.Join(errs...)
}

// Warnings returns legal but doubtful settings.
func (c *CheckConfig) Warnings() []string {
	if len(c.Listen) == 0 {
		return nil
	}
	var w []string
	for i, a := range c.Allowed {
		if n, err := request.ParseNetwork(a); err == nil && n.Bits() == 0 {
			w = append(w, fmt.Sprintf("allowed[%d]: %s is everybody: who reaches the listener can say that it is "+
				"anybody", i, a))
		}
	}
	if c.OnError == "open" {
		w = append(w, "on_error: open: a request for a host that no service has passes unseen")
	}
	return w
}

const (
	styleVerdict = "verdict"
	styleFull    = "full"
)

// CheckRules is a prepared CheckConfig. Immutable.
type CheckRules struct {
	full        bool
	path        string
	asked       string     // the check path where stopped requests are sent
	set         *headerSet // of a check
	sender      *headerSet // of other calls
	networks    []netip.Prefix
	secret      []byte
	accel       []byte
	open, roomy bool
}

// NewCheckRules validates c and reads the secret.
func NewCheckRules(c CheckConfig) (*CheckRules, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	r := &CheckRules{
		full: c.Style == styleFull, path: c.Path, asked: cmp.Or(c.asked, c.Path), set: headerSetOf(c.Headers),
		secret: []byte(c.Secret), accel: []byte(c.AccelLocation), open: c.OnError == "open", roomy: c.roomy,
	}
	if r.sender = r.set.ofSender(); r.full {
		r.sender = passedOn
	}
	for _, a := range c.Allowed {
		n, _ := request.ParseNetwork(a)
		r.networks = append(r.networks, n)
	}
	if c.SecretFile != "" {
		b, err := os.ReadFile(c.SecretFile)
		if err != nil {
			return nil, fmt.Errorf("secret_file: %w", err)
		}
		if r.secret = []byte(strings.TrimSpace(string(b))); len(r.secret) < minCheckSecret {
			return nil, fmt.Errorf("secret_file: %s holds fewer than %d characters", c.SecretFile, minCheckSecret)
		}
	}
	return r, nil
}

func (r *CheckRules) allows(addr netip.Addr) bool {
	addr = addr.Unmap()
	for _, n := range r.networks {
		if n.Contains(addr) {
			return true
		}
	}
	return false
}
