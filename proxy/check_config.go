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

// CheckConfig is check mode: the gateway next to a balancer that asks before it passes a request on itself.
type CheckConfig struct {
	// Listen is where balancers ask; none: check mode is off. These addresses are private.
	Listen []string `mapstructure:"listen"`
	// SPOE is where HAProxy asks in its own protocol, beside Listen, to which it sends those who are stopped.
	SPOE []string `mapstructure:"spoe"`
	// GRPC is where Envoy asks over gRPC (ext_authz), beside Listen, to which it sends those who get the captcha's pages.
	GRPC []string `mapstructure:"grpc"`
	// Style is verdict (calls of Path get a status, all others the visitor's answer) or full (every call is the original
	// request and gets its answer).
	Style string `mapstructure:"style"`
	// Path is what a balancer calls in style verdict.
	Path string `mapstructure:"path"`
	// Headers is the set of fields that names the original request in style verdict: forwarded, original or envoy.
	Headers string `mapstructure:"headers"`
	// Allowed are the balancers' networks or addresses. All other callers need the secret.
	Allowed []string `mapstructure:"allowed"`
	// Secret admits callers from anywhere that send it in SecretField; empty: none.
	Secret string `mapstructure:"secret"`
	// SecretFile holds the secret instead.
	SecretFile string `mapstructure:"secret_file"`
	// AccelLocation is what X-Accel-Redirect names for a human in style full; empty: the field is left out.
	AccelLocation string `mapstructure:"accel_location"`
	// OnError says what happens to a request that can't be judged, because no service has its host or because of an
	// internal error: open (it passes) or closed (503).
	OnError string `mapstructure:"on_error"`

	roomy bool   // answers are not heads that a balancer has a small buffer for
	asked string // the path by which Listen is asked, if Path is another caller's
}

// DefaultCheckConfig returns the defaults: off, and only this machine may ask.
func DefaultCheckConfig() CheckConfig {
	return CheckConfig{
		Style: "verdict", Path: "/check", Headers: "forwarded", Allowed: []string{"127.0.0.0/8", "::1/128"},
		AccelLocation: "@backend", OnError: "closed",
	}
}

// ForSPOE is c for the calls that package spoe makes of HAProxy's frames.
func (c CheckConfig) ForSPOE() CheckConfig {
	c.asked = c.Path
	c.Style, c.Path, c.Headers = styleVerdict, "/check", "forwarded"
	return c
}

// ForExtAuthz is c for the calls that package extauthz makes of Envoy's: for requests that came with their body, where a human's
// answer names the location human, and for those that came without, which are asked about below path.
func (c CheckConfig) ForExtAuthz(human, path string) (whole, bare CheckConfig) {
	c.SPOE = nil // HAProxy asks a check of its own, which the style full is nothing for
	whole, bare = c, c
	whole.Style, whole.AccelLocation, whole.roomy = styleFull, human, true
	bare.Style, bare.Path, bare.Headers = styleVerdict, path, "envoy"
	return whole, bare
}

// SecretField is the field that carries the secret of callers from elsewhere.
const SecretField = "X-Antirobot-Secret"

// minCheckSecret is the shortest secret in bytes, so that it can't be guessed.
const minCheckSecret = 16

// Validate returns all problems of c, each with its path below the section. It opens no file.
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
	if !strings.HasPrefix(c.Path, "/") || c.Path == "/" || strings.HasSuffix(c.Path, "/") || !wire.ValidTarget(nil, []byte(c.Path)) ||
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

// Warnings returns what is allowed but deserves a second thought.
func (c *CheckConfig) Warnings() []string {
	if len(c.Listen) == 0 {
		return nil
	}
	var w []string
	for i, a := range c.Allowed {
		if n, err := request.ParseNetwork(a); err == nil && n.Bits() == 0 {
			w = append(w, fmt.Sprintf("allowed[%d]: %s is everybody: who reaches the listener can say that it is anybody", i, a))
		}
	}
	if c.OnError == "open" {
		w = append(w, "on_error: open: a request for a host that no service has passes unseen")
	}
	return w
}

// The styles.
const (
	styleVerdict = "verdict"
	styleFull    = "full"
)

// CheckRules is a CheckConfig prepared for use. It is immutable and safe for concurrent use.
type CheckRules struct {
	full        bool
	path        string
	asked       string     // the path of questions at the listener where balancers send those who are stopped
	set         *headerSet // of a check
	sender      *headerSet // of all other calls
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
		n, _ := request.ParseNetwork(a) // validated
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

// allows reports whether addr is a balancer's.
func (r *CheckRules) allows(addr netip.Addr) bool {
	addr = addr.Unmap()
	for _, n := range r.networks {
		if n.Contains(addr) {
			return true
		}
	}
	return false
}
