package config

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/identity"
	"antirobot/problem"
	"antirobot/proxy"
	"antirobot/proxy/h1"
	"antirobot/proxy/h1/hello"
	"antirobot/proxy/upstream"
	"antirobot/request"
	"antirobot/rules"
	"antirobot/rules/requestrules"
	"antirobot/rules/sources"
	"antirobot/templates"
)

// Warnings returns valid settings that deserve a second look.
func (c *Config) Warnings() []string {
	w := append(c.unknownVariables(), prefixed("admin.", c.Admin.Warnings())...)
	w = append(w, prefixed("check.", c.Check.Warnings())...)
	w = append(w, prefixed("lists.", c.Lists.Warnings())...)
	w = append(w, prefixed("message.", c.Message.Warnings(c.ruleLists(), len(c.Geo.Files) > 0))...)
	warn := func(format string, args ...any) { w = append(w, fmt.Sprintf(format, args...)) }
	if c.Captcha.TestAnswer != "" {
		warn("captcha.test_answer is set: every challenge has the same answer, robots included; for tests only")
	}
	for i, p := range c.Identity.TrustedProxies {
		if n, err := request.ParseNetwork(p); err == nil && n.Bits() == 0 {
			warn("identity.trusted_proxies[%d]: %s is everybody: any client can say that it is another", i, p)
		}
	}
	for i := range c.Listen {
		if c.Listen[i].ProxyProtocol && len(c.Identity.TrustedProxies) == 0 {
			warn("listen[%d].proxy_protocol: is read from identity.trusted_proxies only, and there are none", i)
		}
	}
	for i := range c.Lists.Lists {
		if f := c.Lists.Lists[i].File; f != "" {
			if _, err := os.Stat(f); err != nil {
				warn("lists.lists[%d].file: %v: the list has no entries until it is there", i, err)
			}
		}
	}
	w = append(w, c.unreadable()...)
	w = append(w, c.readByOthers()...)
	for i, f := range c.Geo.Files {
		if _, err := os.Stat(f); err != nil {
			warn("geo.files[%d]: %v: nothing is known by it until it is there", i, err)
		}
	}
	for i := range c.Resolved {
		s := &c.Resolved[i]
		for _, h := range s.Hosts {
			w = append(w, prefixed(s.Path+".cookies: ", s.Cookies.CookieDomainProblems(h))...)
		}
		w = append(w, s.wildcards()...)
		w = append(w, c.messageWarnings(s)...)
		if s.Upstream.TLS.InsecureSkipVerify {
			warn("%s.upstream.tls.insecure_skip_verify: whoever stands between the gateway and the service can read "+
				"and change everything", s.Path)
		}
	}
	return w
}

// wildcards reports paths of a service with a *, which stands for itself in them: such a setting fits no request.
func (s *Service) wildcards() (w []string) {
	look := func(key, path string) {
		if strings.Contains(path, "*") {
			w = append(w, fmt.Sprintf("%s: the * in %s stands for itself; a prefix such as /static covers all below it",
				key, path))
		}
	}
	for i, p := range s.Prefixes {
		look(fmt.Sprintf("%s.prefixes[%d]", s.Path, i), p)
	}
	for _, l := range []struct {
		key   string
		paths []string
	}{
		{"ajax_paths", s.Requests.AJAXPaths},
		{"xml_paths", s.Requests.XMLPaths},
		{"health_paths", s.Requests.HealthPaths},
	} {
		for i, p := range l.paths {
			look(fmt.Sprintf("%s.requests.%s[%d]", s.Path, l.key, i), p)
		}
	}
	for i := range s.Resolved {
		p := &s.Resolved[i]
		look(p.Path+".prefix", p.Prefix)
	}
	return w
}

// messageWarnings reports rules of a service or of its paths that have no effect, or not the intended one.
func (c *Config) messageWarnings(s *Service) []string {
	var w []string
	names, err := c.RuleNames()
	if err != nil {
		return nil // it has been said
	}
	look := func(s *Service) {
		w = append(w, prefixed(s.Path+".rules: ", s.Rules.Warnings(names))...)
		if len(s.Messages.Routes) > 0 && len(c.Check.Listen) > 0 && c.Check.Style != "full" {
			w = append(w, s.Path+".messages.routes: a balancer that asks with check.style verdict keeps the bodies: "+
				"messages of "+
				"requests that do not pass through the gateway itself are not judged; use style full, or proxy these "+
				"routes")
		}
	}
	look(s)
	for k := range s.Resolved {
		look(&s.Resolved[k].Service)
	}
	return oneOfEach(w)
}

func prefixed(prefix string, lines []string) []string {
	var out []string
	for _, l := range lines {
		out = append(out, prefix+l)
	}
	return out
}

// CheckFiles looks at what the configuration refers to outside of itself: keys, certificates, pages.
func (c *Config) CheckFiles() error {
	var errs []error
	for i, l := range c.Listen {
		if l.ClientCA != "" {
			if _, err := h1.LoadClientCAs(l.ClientCA, false); err != nil {
				errs = append(errs, fmt.Errorf("listen[%d].%w", i, err))
			}
		}
		if l.TLSCert == "" {
			continue
		}
		if _, err := hello.LoadCertificates(l.Files()); err != nil {
			errs = append(errs, fmt.Errorf("listen[%d].tls_cert: %w", i, err))
		}
	}
	if _, err := proxy.NewCheckRules(c.Check); err != nil {
		errs = append(errs, problem.At("check", err))
	}
	if _, err := LoadModels(c.Formula); err != nil {
		errs = append(errs, err)
	}
	var override fs.FS
	if dir := c.Captcha.Templates; dir != "" {
		override = os.DirFS(dir)
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			errs = append(errs, fmt.Errorf("captcha.templates: %q is not a directory", dir))
			override = nil
		}
	}
	pages, err := templates.New(override)
	if err != nil {
		return errors.Join(append(errs, problem.At("captcha.templates", err))...)
	}
	names, err := c.RuleNames()
	if err != nil {
		return errors.Join(append(errs, problem.At("formula", err))...)
	}
	errs = append(errs, problem.At("message", c.Message.CheckRules(names.Formulas)))
	inherited := problem.Lines(c.inherited.checkFiles(pages, names))
	errs = append(errs, problemsAt("defaults", inherited))
	for i := range c.Resolved {
		s := &c.Resolved[i]
		own := without(errors.Join(problem.At("upstream", checkUpstream(s.Upstream)), s.checkFiles(pages, names)),
			inherited)
		errs = append(errs, problemsAt(s.Path, own))
		known := slices.Concat(inherited, own)
		for k := range s.Resolved {
			p := &s.Resolved[k]
			errs = append(errs, problemsAt(p.Path, without(p.checkFiles(pages, names), known)))
		}
	}
	return errors.Join(errs...)
}

func checkUpstream(cfg upstream.Config) error {
	if cfg.TLS.CAFile == "" && cfg.TLS.CertFile == "" {
		return nil
	}
	g, err := upstream.New(cfg, upstream.Deps{Log: zerolog.Nop(), Metrics: metrics.NewSet()})
	if err != nil {
		return err
	}
	return g.Close()
}

func (s *Service) checkFiles(pages *templates.Set, names *requestrules.Names) error {
	var keys error
	if len(s.Cookies.Login.Keys)+len(s.Cookies.ServiceCookie.Keys) > 0 {
		_, keys = identity.NewCookieSettings(s.Cookies)
	}
	return errors.Join(problem.At("cookies", keys), problem.At("captcha.branding", pages.Check(&s.Captcha.Branding)),
		problem.At("rules", s.Rules.Check(names)))
}

// RuleNames are what rules may call by name.
func (c *Config) RuleNames() (*requestrules.Names, error) {
	formulas, err := sources.LoadFormulas(c.Formula.Named)
	if err != nil {
		return nil, err
	}
	return &requestrules.Names{Lists: c.ruleLists(), Formulas: formulas, Places: len(c.Geo.Files) > 0}, nil
}

func (c *Config) ruleLists() []rules.List { return sources.Named(c.Lists.Names()) }

// Calls returns the hosts that the gateway may call, sorted: those of its services, of the store, of lists and
// crawlers' ranges, of webhooks (of messages and of alarms) and second opinions, of the receiver of traces, of who
// signs people in to the console, and of the certificate authority. It calls no others, but for the fleet's gateways,
// whose addresses are in the store, and where these hosts send it: a list's redirect, an authority or a provider may
// name further ones. Addresses are looked up by the machine's resolver.
func (c *Config) Calls() (hosts []string) {
	urls := c.Lists.Calls()
	for i := range c.Resolved {
		urls = append(urls, c.Resolved[i].Upstream.URLs...)
		for k := range c.Resolved[i].Messages.Routes {
			urls = append(urls, c.Resolved[i].Messages.Routes[k].Webhook())
		}
	}
	for _, o := range c.Message.SecondOpinions {
		urls = append(urls, o.Calls()...)
	}
	for i := range c.Alarms.Webhooks {
		if address, err := c.Alarms.Webhooks[i].Address(); err == nil {
			urls = append(urls, address)
		}
	}
	if c.Traces.Endpoint != "" {
		urls = append(urls, c.Traces.Endpoint)
	}
	for _, address := range c.Store.Servers() {
		urls = append(urls, strings.Split(address, ",")...)
	}
	urls = append(urls, c.Admin.OIDC.Issuer)
	if len(c.TLS.ACME.Hosts) > 0 {
		urls = append(urls, c.TLS.ACME.Directory)
	}
	for _, text := range urls {
		if !strings.Contains(text, "://") {
			text = "//" + text
		}
		if u, err := url.Parse(text); err == nil && u.Host != "" {
			hosts = append(hosts, u.Host) // without what comes before an @
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// secretFiles calls f with each file of a secret that is read at start, and its key.
func (c *Config) secretFiles(f func(path, file string)) {
	look := func(used bool, path, file string) {
		if used && file != "" {
			f(path, file)
		}
	}
	look(true, "admin.tls_key", c.Admin.TLSKey)
	look(c.Admin.OIDC.Issuer != "", "admin.oidc.client_secret_file", c.Admin.OIDC.SecretFile)
	look(len(c.Check.Listen) > 0, "check.secret_file", c.Check.SecretFile)
	look(c.Store.Shared() && c.Keys.File == "", "keys.secret_file", c.Keys.SecretFile)
	look(c.Store.Shared(), "store.redis.password_file", c.Store.Redis.PasswordFile)
	look(c.Traces.Endpoint != "", "traces.authorization_file", c.Traces.AuthorizationFile)
	for i := range c.Alarms.Webhooks {
		look(true, fmt.Sprintf("alarms.webhooks[%d].url_file", i), c.Alarms.Webhooks[i].URLFile)
	}
	for i, l := range c.Listen {
		look(true, fmt.Sprintf("listen[%d].tls_key", i), l.TLSKey)
	}
}

// unreadable says which files that are needed at start can't be read here: another user, or another machine, may be
// able to.
func (c *Config) unreadable() []string {
	var w []string
	look := func(path, file string) {
		f, err := os.Open(file)
		if err == nil {
			err = f.Close()
		}
		if err != nil {
			w = append(w, fmt.Sprintf("%s: %v: the gateway does not start until it can read it", path, err))
		}
	}
	if c.Admin.TLSCert != "" {
		look("admin.tls_cert", c.Admin.TLSCert)
	}
	c.secretFiles(look)
	return w
}

// readByOthers says which secrets others than the gateway can read.
func (c *Config) readByOthers() []string {
	own, err := os.Getgroups()
	own = append(own, os.Getegid())
	// as root, the gateway's groups are unknown
	anyGroup := err != nil || os.Geteuid() == 0
	var w []string
	c.secretFiles(func(path, file string) {
		st, err := os.Stat(file)
		if err != nil {
			return // it has been said
		}
		ours := anyGroup
		if sys, ok := st.Sys().(*syscall.Stat_t); ok {
			ours = ours || slices.Contains(own, int(sys.Gid))
		}
		if who := otherReaders(st.Mode(), ours); who != "" {
			w = append(w, fmt.Sprintf("%s: %s has mode %04o: %s can read the secret: chmod 600 it", path, file,
				st.Mode().Perm(), who))
		}
	})
	return w
}

// otherReaders names the users other than the owner who can read a file; "": none. A group of the gateway's own is the
// usual way to let it read a file of another user's.
func otherReaders(mode fs.FileMode, ours bool) string {
	switch {
	case mode&0o007 != 0:
		return "everybody on this machine"
	case mode&0o070 != 0 && !ours:
		return "a group that the gateway is not in"
	}
	return ""
}
