package main

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"antirobot/admin"
	"antirobot/captcha"
	"antirobot/cbb"
	"antirobot/identity"
	"antirobot/proxy"
	"antirobot/proxy/h1"
	"antirobot/proxy/upstream"
	"antirobot/store/pebblestore"
	"antirobot/verdict"
	"antirobot/verdict/processor"
)

// Config is the whole configuration. config.example.yaml documents every key.
type Config struct {
	Listen    []Listener         `mapstructure:"listen"`
	Admin     admin.Config       `mapstructure:"admin"`
	DataDir   string             `mapstructure:"data_dir"`
	Keys      KeysConfig         `mapstructure:"keys"`
	Log       LogConfig          `mapstructure:"log"`
	HTTP      h1.Config          `mapstructure:"http"`
	Drain     time.Duration      `mapstructure:"drain_timeout"` // for requests under way when the gateway is told to stop
	Identity  identity.Config    `mapstructure:"identity"`
	Lists     cbb.Config         `mapstructure:"lists"`
	Captcha   captcha.Config     `mapstructure:"captcha"`
	Verdict   verdict.Config     `mapstructure:"verdict"`
	Processor processor.Config   `mapstructure:"processor"`
	Store     pebblestore.Config `mapstructure:"store"`

	// Defaults are the settings that every service begins with; Services lists what differs, with a name each. Both
	// are kept as they stand in the file and resolved in order: built-in, defaults, service, path.
	Defaults map[string]any   `mapstructure:"defaults"`
	Services []map[string]any `mapstructure:"services"`

	resolved []Service // set by resolveServices
}

// Listener is one address that visitors connect to.
type Listener struct {
	Address       string `mapstructure:"address"`
	TLSCert       string `mapstructure:"tls_cert"` // PEM; read again on reload
	TLSKey        string `mapstructure:"tls_key"`
	ProxyProtocol bool   `mapstructure:"proxy_protocol"` // from trusted_proxies only, and then from all of them
}

// KeysConfig says where the key ring is.
type KeysConfig struct {
	File string `mapstructure:"file"` // default: keys.json in the data directory
}

// LogConfig says what is logged, to standard output as JSON lines.
type LogConfig struct {
	Level  string `mapstructure:"level"`  // debug, info, warn or error
	Access bool   `mapstructure:"access"` // a line for every request
}

// Service is the settings of one protected site, or of a path of one.
type Service struct {
	Name     string                 `mapstructure:"name"`
	Hosts    []string               `mapstructure:"hosts"`
	Prefixes []string               `mapstructure:"prefixes"`
	Upstream upstream.Config        `mapstructure:"upstream"`
	Cookies  identity.ServiceConfig `mapstructure:"cookies"`
	Captcha  captcha.ServiceConfig  `mapstructure:"captcha"`
	Verdict  verdict.ServiceConfig  `mapstructure:"verdict"`
	Requests proxy.ServiceConfig    `mapstructure:"requests"`
	Paths    []map[string]any       `mapstructure:"paths"`

	path     string        // where it stands in the file, for errors
	resolved []pathService // set by resolveServices
}

type pathService struct {
	prefix string
	Service
}

// DefaultConfig returns the defaults: one listener, nothing to protect.
func DefaultConfig() Config {
	return Config{
		Listen:    []Listener{{Address: ":8080"}},
		Admin:     admin.DefaultConfig(),
		DataDir:   "var",
		Log:       LogConfig{Level: "info", Access: true},
		HTTP:      h1.DefaultConfig(),
		Drain:     30 * time.Second,
		Identity:  identity.DefaultConfig(),
		Lists:     cbb.DefaultConfig(),
		Captcha:   captcha.DefaultConfig(),
		Verdict:   verdict.DefaultConfig(),
		Processor: processor.DefaultConfig(),
		Store:     pebblestore.DefaultConfig(),
	}
}

// DefaultService returns the settings that `defaults` begins with.
func DefaultService() Service {
	return Service{
		Upstream: upstream.DefaultConfig(),
		Cookies:  identity.DefaultServiceConfig(),
		Captcha:  captcha.DefaultServiceConfig(),
		Verdict:  verdict.DefaultServiceConfig(),
		Requests: proxy.DefaultServiceConfig(),
	}
}

// serviceOnly are the settings that make no sense for a path of a service.
var serviceOnly = []string{"name", "hosts", "prefixes", "paths"}

// resolveServices decodes Services over Defaults over DefaultService. Without any service, Defaults alone is one that
// serves every host.
func (c *Config) resolveServices() error {
	raw := c.Services
	where := func(i int) string { return fmt.Sprintf("services[%d]", i) }
	if len(raw) == 0 {
		raw = []map[string]any{{"name": "default"}}
		where = func(int) string { return "defaults" }
	}
	var errs []error
	base := DefaultService()
	if err := overlay(c.Defaults, &base, "defaults"); err != nil {
		errs = append(errs, err)
	}
	c.resolved = nil
	for i, settings := range raw {
		s, err := c.service(settings, where(i))
		errs = append(errs, err)
		c.resolved = append(c.resolved, s)
	}
	return errors.Join(errs...)
}

func (c *Config) service(settings map[string]any, path string) (Service, error) {
	layers := []map[string]any{c.Defaults, settings}
	s, err := resolveLayers(layers, path)
	errs := []error{err}
	for i, p := range s.Paths {
		at := fmt.Sprintf("%s.paths[%d]", path, i)
		prefix, _ := p["prefix"].(string)
		if !strings.HasPrefix(prefix, "/") {
			errs = append(errs, fmt.Errorf("%s.prefix: must begin with /", at))
		}
		own := map[string]any{}
		for k, v := range p {
			if slices.Contains(serviceOnly, k) {
				errs = append(errs, fmt.Errorf("%s.%s: can be set for a whole service only", at, k))
			} else if k != "prefix" {
				own[k] = v
			}
		}
		ps, err := resolveLayers(append(slices.Clone(layers), own), at)
		errs = append(errs, err)
		s.resolved = append(s.resolved, pathService{prefix: prefix, Service: ps})
	}
	return s, errors.Join(errs...)
}

// resolveLayers decodes each layer over the one before. Only the last can have errors that were not reported already.
func resolveLayers(layers []map[string]any, path string) (Service, error) {
	s := DefaultService()
	var err error
	for _, l := range layers {
		err = overlay(l, &s, path)
	}
	s.path = path
	return s, err
}

// overrideUpstreams gives every service the upstreams of the command line.
func (c *Config) overrideUpstreams(urls []string) {
	set := func(m map[string]any) map[string]any {
		out := map[string]any{}
		for k, v := range m {
			out[k] = v
		}
		up := map[string]any{}
		if old, ok := out["upstream"].(map[string]any); ok {
			for k, v := range old {
				up[k] = v
			}
		}
		up["urls"] = urls
		out["upstream"] = up
		return out
	}
	c.Defaults = set(c.Defaults)
	for i := range c.Services {
		c.Services[i] = set(c.Services[i])
	}
}

// Validate returns every error of c, each beginning with its path.
func (c *Config) Validate() error {
	var errs []error
	add := func(path string, err error) { errs = append(errs, withPath(path, err)) }
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	if len(c.Listen) == 0 {
		bad("listen: needs at least one address")
	}
	for i, l := range c.Listen {
		add(fmt.Sprintf("listen[%d]", i), l.Validate())
	}
	if c.DataDir == "" {
		bad("data_dir: must name a directory")
	}
	if _, err := zerolog.ParseLevel(c.Log.Level); err != nil || c.Log.Level == "" {
		bad("log.level: %q is none of debug, info, warn, error", c.Log.Level)
	}
	if c.Drain < 0 || c.Drain > time.Hour {
		bad("drain_timeout: %v is not between 0 and 1h", c.Drain)
	}
	add("admin", c.Admin.Validate())
	add("http", c.HTTP.Validate())
	add("identity", c.Identity.Validate())
	add("lists", c.Lists.Validate())
	add("captcha", c.Captcha.Validate())
	add("verdict", c.Verdict.Validate())
	add("processor", c.Processor.Validate())
	add("store", c.Store.Validate())

	names := map[string]int{}
	for i := range c.resolved {
		s := &c.resolved[i]
		if first, taken := names[s.Name]; taken {
			bad("%s.name: %q is the name of services[%d] already", s.path, s.Name, first)
		}
		names[s.Name] = i
		errs = append(errs, s.Validate())
	}
	return errors.Join(errs...)
}

// Validate returns every error of l.
func (l *Listener) Validate() error {
	var errs []error
	if _, port, err := net.SplitHostPort(l.Address); err != nil {
		errs = append(errs, fmt.Errorf("address: %q is no host:port such as :8080 or 192.0.2.1:443", l.Address))
	} else if _, err := net.LookupPort("tcp", port); err != nil {
		errs = append(errs, fmt.Errorf("address: %q is no port", port))
	}
	if (l.TLSCert == "") != (l.TLSKey == "") {
		errs = append(errs, errors.New("tls_cert: tls_cert and tls_key go together"))
	}
	return errors.Join(errs...)
}

// Validate returns every error of s and its paths.
func (s *Service) Validate() error {
	errs := []error{s.validateSettings()}
	if s.Name == "" {
		errs = append(errs, fmt.Errorf("%s.name: every service needs a name", s.path))
	}
	if !plainName(s.Name) {
		errs = append(errs, fmt.Errorf("%s.name: %q may have letters, digits, - and _ only", s.path, s.Name))
	}
	for i, h := range s.Hosts {
		if !plainHost(h) {
			errs = append(errs, fmt.Errorf("%s.hosts[%d]: %q is no host name, *.name or *; a port does not belong here", s.path, i, h))
		}
	}
	for i, p := range s.Prefixes {
		if !strings.HasPrefix(p, "/") {
			errs = append(errs, fmt.Errorf("%s.prefixes[%d]: %q must begin with /", s.path, i, p))
		}
	}
	for i := range s.resolved {
		errs = append(errs, s.resolved[i].validateSettings())
	}
	return errors.Join(errs...)
}

func (s *Service) validateSettings() error {
	return errors.Join(
		withPath(s.path+".upstream", s.Upstream.Validate()),
		withPath(s.path+".cookies", s.Cookies.Validate()),
		withPath(s.path+".captcha", s.Captcha.Validate()),
		withPath(s.path+".verdict", s.Verdict.Validate()),
		withPath(s.path+".requests", s.Requests.Validate()),
	)
}

func plainName(s string) bool {
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") == ""
}

func plainHost(h string) bool {
	if h == "*" {
		return true
	}
	h = strings.TrimPrefix(h, "*.")
	if h == "" || strings.ContainsAny(h, "/*@? ") {
		return false
	}
	return !strings.Contains(h, ":") || strings.HasPrefix(h, "[") && strings.HasSuffix(h, "]")
}

// keyFile returns where the key ring is.
func (c *Config) keyFile() string {
	if c.Keys.File != "" {
		return c.Keys.File
	}
	return filepath.Join(c.DataDir, "keys.json")
}

// needRestart names the settings of next that differ from c and take effect at the next start only.
func (c *Config) needRestart(next *Config) []string {
	var names []string
	if !slices.Equal(c.Listen, next.Listen) {
		names = append(names, "listen")
	}
	if c.DataDir != next.DataDir {
		names = append(names, "data_dir")
	}
	if c.Admin.Listen != next.Admin.Listen {
		names = append(names, "admin.listen")
	}
	if c.Store != next.Store {
		names = append(names, "store")
	}
	return names
}

// enforces reports whether any service stops anybody.
func (c *Config) enforces() bool {
	for i := range c.resolved {
		s := &c.resolved[i]
		if s.Verdict.Mode == "enforce" {
			return true
		}
		for k := range s.resolved {
			if s.resolved[k].Verdict.Mode == "enforce" {
				return true
			}
		}
	}
	return false
}

// warnings returns what is allowed but deserves a second thought.
func (c *Config) warnings() []string {
	w := prefixed("admin.", c.Admin.Warnings())
	if c.Captcha.TestAnswer != "" {
		w = append(w, "captcha.test_answer is set: every challenge has the same answer, robots included; for tests only")
	}
	for i := range c.resolved {
		s := &c.resolved[i]
		for _, h := range s.Hosts {
			w = append(w, prefixed(s.path+".cookies: ", s.Cookies.CookieDomainProblems(h))...)
		}
	}
	return w
}

func prefixed(prefix string, lines []string) []string {
	var out []string
	for _, l := range lines {
		out = append(out, prefix+l)
	}
	return out
}

// checkFiles looks at what the configuration refers to outside of itself: keys, certificates, pages and logos.
func (c *Config) checkFiles() error {
	errs := []error{c.checkPages()}
	for i := range c.resolved {
		s := &c.resolved[i]
		_, err := identity.NewService(s.Cookies)
		errs = append(errs, withPath(s.path+".cookies", err))
	}
	for i, l := range c.Listen {
		if l.TLSCert == "" {
			continue
		}
		if _, err := h1.LoadCertificates([]h1.CertificateFiles{{CertFile: l.TLSCert, KeyFile: l.TLSKey}}); err != nil {
			errs = append(errs, fmt.Errorf("listen[%d].tls_cert: %w", i, err))
		}
	}
	return errors.Join(errs...)
}

// checkPages builds the pages of all services, as a start would.
func (c *Config) checkPages() error {
	pages, err := loadPages(c)
	if err != nil {
		return err
	}
	var errs []error
	for i := range c.resolved {
		s := &c.resolved[i]
		errs = append(errs, withPath(s.path+".captcha.branding", pages.Check(&s.Captcha.Branding)))
		for j := range s.resolved {
			p := &s.resolved[j]
			errs = append(errs, withPath(p.path+".captcha.branding", pages.Check(&p.Captcha.Branding)))
		}
	}
	return errors.Join(errs...)
}

func errExampleKey(c *Config) error {
	return fmt.Errorf("keys.file: %s holds the example key of the documentation, so anybody could make passes; make a ring of your own with `antirobot keys make`", c.keyFile())
}
