package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/idna"

	"antirobot/message"
	"antirobot/problem"
	"antirobot/request"
)

// Validate returns every error of c, each beginning with its path.
func (c *Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	errs = append(errs, c.validateListeners()...)
	if c.DataDir == "" {
		bad("data_dir: must name a directory")
	}
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, c.Log.Level) {
		bad("log.level: %q is none of debug, info, warn, error", c.Log.Level)
	}
	if c.Log.AccessLines < 0 {
		bad("log.access_lines: %d is negative", c.Log.AccessLines)
	}
	if c.Delay < 0 || c.Delay > 10*time.Minute {
		bad("drain_delay: %v is not between 0 and 10m", c.Delay)
	}
	if c.Drain < 0 || c.Drain > time.Hour {
		bad("drain_timeout: %v is not between 0 and 1h", c.Drain)
	}
	errs = append(errs, validateSections(c)...)
	errs = append(errs, c.validateRole(), c.validateTrust())
	if c.Keys.SecretFile != "" && c.Keys.SecretEnv != "" {
		bad("keys.secret_file: give one of secret_file and secret_env")
	}
	if c.Store.Shared() && c.Keys.File == "" && c.Keys.SecretFile == "" && c.Keys.SecretEnv == "" {
		_, err := c.Keys.Secret()
		bad("keys.secret_file: %w", err)
	}
	errs = append(errs, c.validateServices()...)
	errs = append(errs, c.validateLoops()...)
	return errors.Join(errs...)
}

// validateSections returns the errors of the sections of a configuration, or of a service: of the fields that can validate
// themselves.
func validateSections(of any) (errs []error) {
	v := reflect.ValueOf(of).Elem()
	for _, k := range keysOf(v.Type()) {
		if section, ok := v.Field(k.index).Addr().Interface().(interface{ Validate() error }); ok {
			errs = append(errs, problem.At(k.name, section.Validate()))
		}
	}
	return errs
}

// MessagesOpen reports whether the message firewall may be asked without the token of the private listener.
func (c *Config) MessagesOpen() bool {
	return c.Message.Authorisation == "keys" || c.Admin.Listen == "" || c.Admin.Loopback()
}

// validateTrust refuses to believe every caller if other machines may call. A file that leaves the section out does not
// use it: then the API of messages is closed there.
func (c *Config) validateTrust() error {
	if c.MessagesOpen() || reflect.DeepEqual(c.Message, message.DefaultConfig()) {
		return nil
	}
	return fmt.Errorf("message.authorisation: trust believes every caller, and other machines reach admin.listen %s; "+
		"write keys and give each partner a secret, or listen on 127.0.0.1", c.Admin.Listen)
}

// Validate returns every error of l.
func (l *Listener) Validate() error {
	var errs []error
	if _, port, err := net.SplitHostPort(l.Address); err != nil {
		errs = append(errs, fmt.Errorf("address: %q is not a host:port such as :8080 or 192.0.2.1:443", l.Address))
	} else if _, err := net.LookupPort("tcp", port); err != nil {
		errs = append(errs, fmt.Errorf("address: %q is no port", port))
	}
	if (l.TLSCert == "") != (l.TLSKey == "") {
		errs = append(errs, errors.New("tls_cert: tls_cert and tls_key go together"))
	}
	for i, f := range l.Certificates {
		if l.TLSCert == "" || f.CertFile == "" || f.KeyFile == "" {
			errs = append(errs, fmt.Errorf("certificates[%d]: needs cert_file and key_file, and tls_cert before it, which is for clients that name no host", i))
		}
	}
	if l.ClientCA != "" && !l.Secure() {
		errs = append(errs, errors.New("client_ca: is for listeners with TLS: set tls_cert or acme too"))
	}
	if l.ClientRequired && l.ClientCA == "" {
		errs = append(errs, errors.New("client_required: needs client_ca, by which certificates are checked"))
	}
	if l.RedirectHTTPS && l.Secure() {
		errs = append(errs, errors.New("redirect_https: is for listeners without TLS"))
	}
	if l.H2C && l.Secure() {
		errs = append(errs, errors.New("h2c: is for listeners without TLS; with TLS, http2 is chosen in the handshake"))
	}
	errs = append(errs, l.validateHTTP3())
	return errors.Join(errs...)
}

func (l *Listener) validateHTTP3() error {
	switch {
	case l.HTTP3 && !l.Secure():
		return errors.New("http3: is for listeners with TLS: set tls_cert or acme too")
	case l.HTTP3 && l.ProxyProtocol:
		return errors.New("http3: PROXY protocol does not exist over UDP; give visitors with HTTP/3 a listener of their own")
	case l.HTTP3Port != 0 && !l.HTTP3:
		return errors.New("http3_port: needs http3")
	case l.HTTP3Port < 0 || l.HTTP3Port > 65535:
		return fmt.Errorf("http3_port: %d is no port", l.HTTP3Port)
	}
	return nil
}

// anyURL stands for an address that is missing, where that is said otherwise.
var anyURL = []string{"http://127.0.0.1"}

// validateServices checks what every service has become. What is wrong in defaults is said of them alone, not of each
// service and path that inherits it.
func (c *Config) validateServices() []error {
	var errs []error
	var inherited []string
	if len(c.Services) > 0 {
		base := c.inherited
		if len(base.Upstream.URLs) == 0 {
			base.Upstream.URLs = anyURL // each service may have its own
		}
		inherited = problem.Lines(base.validateSettings(c))
		errs = append(errs, problem.At("defaults", base.validateSettings(c)))
	}
	if alone := &c.Resolved[0]; len(c.Services) == 0 && len(alone.Upstream.URLs) == 0 {
		alone.Upstream.URLs = anyURL
		errs = append(errs, errors.New("services: there is nothing to protect yet; add a service with upstream.urls, or set defaults.upstream.urls"))
	}
	names := map[string]string{}
	for i := range c.Resolved {
		s := &c.Resolved[i]
		own := without(s.validateSettings(c), inherited)
		errs = append(errs, problemsAt(s.Path, own), problem.At(s.Path, s.validateNames()))
		if first, taken := names[s.Name]; taken && s.Name != "" {
			errs = append(errs, fmt.Errorf("%s.name: %q is the name of %s already", s.Path, s.Name, first))
		}
		names[s.Name] = s.Path
		known := slices.Concat(inherited, own)
		for k := range s.Resolved {
			p := &s.Resolved[k]
			errs = append(errs, problemsAt(p.Path, without(p.validateSettings(c), known)))
		}
	}
	errs = append(errs, c.validateHosts()...)
	return append(errs, c.validateReferences(names)...)
}

// validateHosts refuses two services for the same requests.
func (c *Config) validateHosts() []error {
	var errs []error
	type claim struct{ host, prefix string }
	owner := map[claim]string{}
	for i := range c.Resolved {
		s := &c.Resolved[i]
		hosts, prefixes := s.Hosts, s.Prefixes
		if len(hosts) == 0 {
			hosts = []string{"*"}
		}
		if len(prefixes) == 0 {
			prefixes = []string{"/"}
		}
		for k, h := range hosts {
			at := s.Path + ".hosts"
			if len(s.Hosts) > 0 {
				at = fmt.Sprintf("%s[%d]", at, k)
			}
			for _, p := range prefixes {
				c := claim{strings.ToLower(h), p}
				switch first, taken := owner[c]; {
				case taken && first == s.Path:
					errs = append(errs, fmt.Errorf("%s: %s is given twice", at, c.host+p))
				case taken && len(s.Hosts) == 0:
					errs = append(errs, fmt.Errorf("%s: not set, so it has every host (below %s), as %s has", at, p, first))
				case taken:
					errs = append(errs, fmt.Errorf("%s: %q (below %s) belongs to %s already", at, h, p, first))
				default:
					owner[c] = s.Path
				}
			}
		}
	}
	return errs
}

// validateReferences checks that lists and patterns speak of services that exist. names has their names.
func (c *Config) validateReferences(names map[string]string) []error {
	var errs []error
	check := func(path, service string) {
		if _, ok := names[service]; !ok && service != "" {
			errs = append(errs, fmt.Errorf("%s: there is no service called %.60q", path, service))
		}
	}
	for i := range c.Lists.Lists {
		check(fmt.Sprintf("lists.lists[%d].service", i), c.Lists.Lists[i].Service)
	}
	for i := range c.Lists.Patterns {
		check(fmt.Sprintf("lists.patterns[%d].service", i), c.Lists.Patterns[i].Service)
	}
	return errs
}

// validateNames checks what a whole service is called by.
func (s *Service) validateNames() error {
	var errs []error
	switch {
	case s.Name == "":
		errs = append(errs, errors.New("name: every service needs a name"))
	case !plainName(s.Name):
		errs = append(errs, fmt.Errorf("name: %.60q may have up to 64 letters, digits, - and _ only", s.Name))
	}
	for i, h := range s.Hosts {
		if err := validHost(h); err != nil {
			errs = append(errs, fmt.Errorf("hosts[%d]: %w", i, err))
		}
	}
	for i, p := range s.Prefixes {
		if !strings.HasPrefix(p, "/") {
			errs = append(errs, fmt.Errorf("prefixes[%d]: %.60q must begin with /", i, p))
		}
	}
	return errors.Join(errs...)
}

func (s *Service) validateSettings(c *Config) error {
	return errors.Join(append(validateSections(s), problem.At("verdict", s.Verdict.When.CheckLists(c.Lists.Networks())),
		problem.At("messages", s.checkRoutes(&c.Message)))...)
}

func (s *Service) checkRoutes(m *message.Config) error {
	var errs []error
	for i := range s.Messages.Routes {
		r := &s.Messages.Routes[i]
		errs = append(errs, problem.At(fmt.Sprintf("routes[%d]", i), errors.Join(m.CheckSources(r.Partner, r.Domain, r.Attributes()), m.CheckOpinions(r.Grey.Ask))))
	}
	return errors.Join(errs...)
}

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"

func plainName(s string) bool { return len(s) <= 64 && strings.Trim(s, letters) == "" }

// validHost accepts names as they stand in a Host field, without a port; "*.name" for all names below one; "*".
func validHost(h string) error {
	name, below := strings.CutPrefix(h, "*.")
	_, port, ok := request.SplitHost([]byte(name))
	switch {
	case h == "*":
		return nil
	case strings.Contains(h, "://"):
		return fmt.Errorf("%.60q: a host has no scheme", h)
	case ok && port != nil:
		return fmt.Errorf("%.60q: a host has no port here; all listeners serve it", h)
	case len(name) > 253:
		return fmt.Errorf("%.60q is too long for a host", h)
	}
	sent := name // what browsers make of it
	if ok && name[0] == '[' {
		a, err := netip.ParseAddr(name[1 : len(name)-1])
		if err == nil {
			sent = "[" + a.String() + "]"
		}
	} else if ascii, err := idna.Lookup.ToASCII(name); err == nil {
		sent = ascii
	}
	if !request.EqualFold(sent, name) {
		return fmt.Errorf("%.60q: browsers send this name as %s; write that", h, strings.TrimSuffix(h, name)+sent)
	}
	if !request.PlainHost(name) || below && name[0] == '[' {
		return fmt.Errorf("%.60q is not a host such as www.example.com, *.example.com or *", h)
	}
	return nil
}

// The roles of a process.
const (
	RoleAll       = "all"       // decides and judges: one process does everything
	RoleGateway   = "gateway"   // decides; processors judge its events
	RoleProcessor = "processor" // judges what gateways see, and serves no visitors
)

func (c *Config) validateRole() error {
	switch c.Role {
	case RoleAll:
		return nil
	case RoleGateway, RoleProcessor:
	default:
		return fmt.Errorf("role: %.40q is none of %s, %s, %s", c.Role, RoleAll, RoleGateway, RoleProcessor)
	}
	var errs []error
	if !c.Store.Shared() {
		errs = append(errs, fmt.Errorf("role: gateways and processors meet in a shared store: set store.url "+
			"(redis://HOST), or leave the role at %s", RoleAll))
	}
	if !c.Processor.Enabled {
		errs = append(errs, fmt.Errorf("role: nothing is judged, because processor.enabled is false: leave the role "+
			"at %s", RoleAll))
	}
	return errors.Join(errs...)
}
