package admin

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"antirobot/request"
)

// Config is the section `admin` of the configuration. Take it from DefaultConfig; the zero value does not validate.
type Config struct {
	// Listen is the address of the private listener; empty: none.
	Listen string `mapstructure:"listen"`
	// TokenFile holds the bearer token; empty: admin.token in the data directory. It is made when it is absent.
	TokenFile string `mapstructure:"token_file"`
	// Name is this gateway's among several that share a store; empty: the machine's, and the number of the process.
	Name string `mapstructure:"name"`
	// Advertise is the host, or host:port, at which the other gateways reach the listener; without a port, the listener's. Empty:
	// that of Listen, if it is neither loopback nor all addresses; else they can't ask this gateway.
	Advertise string `mapstructure:"advertise"`
	// URL is the listener's as browsers see it, without a path: calls that name its host are answered, besides those that
	// name an address or localhost.
	URL string `mapstructure:"url"`
	// Tokens are further tokens, each with a name and a role.
	Tokens []TokenConfig `mapstructure:"tokens"`
	// OIDC lets people sign in to the console at a provider, beside tokens.
	OIDC OIDCConfig `mapstructure:"oidc"`
	// TLSCert and TLSKey are PEM files; both or none. They are read again when they change.
	TLSCert string `mapstructure:"tls_cert"`
	TLSKey  string `mapstructure:"tls_key"`
}

// DefaultConfig returns the defaults: loopback only.
func DefaultConfig() Config {
	return Config{
		Listen: "127.0.0.1:8079",
		Tokens: []TokenConfig{},
		OIDC: OIDCConfig{
			RoleClaim: "groups",
			Roles:     OIDCRoles{Viewer: []string{}, Operator: []string{}, Admin: []string{}},
		},
	}
}

// Bounds of the listener.
const (
	maxBody        = 16 << 20 // of a call: a push carries lists and models
	maxConnections = 256      // of another machine (IPv6: a /64) a quarter of them
	readTimeout    = 10 * time.Second
	idleTimeout    = time.Minute
	maxTTL         = 366 * 24 * time.Hour // of a ban or an entry
)

// Validate returns all that is wrong, each problem beginning with its key, or nil.
func (c *Config) Validate() error {
	var errs []error
	bad := func(key, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: %s", key, fmt.Sprintf(format, args...)))
	}
	if c.Listen != "" {
		if _, port, err := net.SplitHostPort(c.Listen); err != nil {
			bad("listen", "%q is not a host:port such as 127.0.0.1:8079", c.Listen)
		} else if _, err := net.LookupPort("tcp", port); err != nil {
			bad("listen", "port %q is neither a number below 65536 nor a known name", port)
		}
	}
	if u, err := url.Parse(c.URL); c.URL != "" && (err != nil || !request.PlainHost(strings.TrimSuffix(u.Hostname(), ".")) ||
		u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "") {
		bad("url", "%q is not a URL without a path, such as https://gate.example", c.URL)
	}
	if len(c.Name) > 64 || c.Name != "" && checkReason(c.Name) != nil {
		bad("name", "%q is not a line of at most 64 bytes", c.Name)
	}
	if c.Advertise != "" && !plainAddress(c.Advertise) {
		bad("advertise", "%q is neither a host nor a host:port such as 10.0.0.5:8079", c.Advertise)
	}
	errs = append(errs, validateTokens(c.Tokens), c.OIDC.validate())
	if c.OIDC.Issuer != "" && c.URL == "" {
		bad("url", "it is missing: the provider sends people back to it")
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		bad("tls_cert", "tls_cert and tls_key go together; give both or none")
	}
	return errors.Join(errs...)
}

// Warnings returns what is allowed but deserves a second thought, in the form of Validate's problems.
func (c *Config) Warnings() []string {
	if c.Listen == "" || c.Loopback() {
		return nil
	}
	var w []string
	if c.TLSCert == "" {
		w = append(w, fmt.Sprintf("listen: %s is reachable from other machines and has no TLS: the token travels in the clear; "+
			"listen on 127.0.0.1 or set tls_cert and tls_key", c.Listen))
	}
	return w
}

// plainAddress reports whether a text is a host or an address, with or without the number of a port.
func plainAddress(s string) bool {
	if _, port, err := net.SplitHostPort(s); err == nil {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return false
		}
	}
	h := advertisedHost(s)
	return request.PlainHost(h) || net.ParseIP(h) != nil
}

// advertisedHost returns the host of what Advertise says, which may leave the port out.
func advertisedHost(s string) string {
	if host, _, err := net.SplitHostPort(s); err == nil {
		return host
	}
	return strings.Trim(s, "[]")
}

// Reached returns the address that the other gateways are told, of a listener at an address such as 0.0.0.0:8079; empty: none.
func (c *Config) Reached(listener string) string {
	host, port, err := net.SplitHostPort(listener)
	if err != nil {
		return ""
	}
	if c.Advertise != "" {
		if _, p, err := net.SplitHostPort(c.Advertise); err == nil {
			port = p
		}
		return net.JoinHostPort(advertisedHost(c.Advertise), port)
	}
	if a, err := netip.ParseAddr(host); err != nil || a.IsUnspecified() || a.IsLoopback() {
		return ""
	}
	return net.JoinHostPort(host, port)
}

// Loopback reports whether Listen is reachable from this machine only.
func (c *Config) Loopback() bool {
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return false
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}
