package gateway

import (
	"context"
	"errors"
	"reflect"
	"time"

	"antirobot/captcha"
	"antirobot/config"
	"antirobot/identity"
	"antirobot/problem"
	"antirobot/proxy"
	"antirobot/proxy/upstream"
	"antirobot/rules/requestrules"
	"antirobot/templates"
	"antirobot/verdict"
)

// Services are the services of a configuration, ready for use: part of a Snapshot.
type Services struct {
	Router *proxy.Router
	Judged []*verdict.Settings // of every service and path
	// Unserved says what the answers look like to requests that reach no service: as the defaults have it.
	Unserved *captcha.Settings
	groups   map[string]*upstream.Group
}

// ServiceDeps is what services are made with.
type ServiceDeps struct {
	Pages   *templates.Set
	Rules   *requestrules.Engine
	Scorer  verdict.Scorer // of services with verdict.sync
	Indexes *Indexes
	// Upstreams makes the connection pool of a service; nil: nothing is ever forwarded.
	Upstreams func(cfg upstream.Config) (*upstream.Group, error)
}

// NewServices makes the services of a configuration, or returns all that is wrong with them.
func NewServices(cfg *config.Config, d ServiceDeps) (*Services, error) {
	names, err := cfg.RuleNames()
	if err != nil {
		return nil, problem.At("formula", err)
	}
	b := builder{ServiceDeps: d, names: names, groups: map[string]*upstream.Group{}}
	var services []*proxy.Service
	for i := range cfg.Resolved {
		services = append(services, b.service(&cfg.Resolved[i]))
	}
	if err := errors.Join(b.errs...); err != nil {
		return nil, err
	}
	router, err := proxy.NewRouter(services)
	if err != nil {
		return nil, err
	}
	who, err := identity.NewCookieSettings(cfg.Inherited().Cookies)
	if err != nil {
		return nil, problem.At("defaults.cookies", err)
	}
	unserved, err := captcha.NewSettings(cfg.Inherited().Captcha, captcha.SettingsDeps{Hosts: cfg.Inherited(), Cookies: who, Pages: d.Pages})
	if err != nil {
		return nil, problem.At("defaults.captcha", err)
	}
	return &Services{Router: router, Judged: b.judged, Unserved: unserved, groups: b.groups}, nil
}

// builder builds services and collects what goes wrong.
type builder struct {
	ServiceDeps
	names  *requestrules.Names
	groups map[string]*upstream.Group
	judged []*verdict.Settings
	errs   []error
}

func (b *builder) service(s *config.Service) *proxy.Service {
	group := b.group(s)
	p := b.settings(s, s, "", group)
	for i := range s.Resolved {
		path := &s.Resolved[i]
		p.Paths = append(p.Paths, proxy.PathRule{Prefix: path.Prefix, Service: b.settings(s, &path.Service, path.Prefix, group)})
	}
	return p
}

// settings builds the settings of a whole service or of a path below it.
func (b *builder) settings(whole, s *config.Service, prefix string, group *upstream.Group) *proxy.Service {
	fail := func(section string, err error) {
		b.errs = append(b.errs, problem.At(s.Path+"."+section, err))
	}
	who, err := identity.NewCookieSettings(s.Cookies)
	if err != nil {
		fail("cookies", err)
		return &proxy.Service{}
	}
	who.ForService(whole.Name)
	c, err := captcha.NewSettings(s.Captcha, captcha.SettingsDeps{Service: whole.Name, Hosts: whole, Cookies: who, Pages: b.Pages, Pictures: pictures(whole)})
	fail("captcha", err)
	v, err := s.Verdict.Settings(whole.Name, b.Indexes.Of(whole.Name, prefix))
	if err != nil {
		fail("verdict", err)
		return &proxy.Service{}
	}
	v.Scorer = b.Scorer
	r, err := b.Rules.Ruleset(whole.Name, s.Rules, b.names)
	if err != nil {
		fail("rules", err)
	} else if r != nil {
		v.Rules = r
	}
	b.judged = append(b.judged, v)
	return &proxy.Service{
		Name: whole.Name, Hosts: whole.Hosts, Prefixes: whole.Prefixes, Upstream: group, Verdict: v, Identity: who, Captcha: c,
		Config: s.Requests, Messages: s.Messages,
	}
}

// pictures returns the img_url_templates of a service and of its paths: one of a path may lead out of that path.
func pictures(whole *config.Service) []string {
	all := []string{whole.Captcha.Picture()}
	for i := range whole.Resolved {
		all = append(all, whole.Resolved[i].Captcha.Picture())
	}
	return all
}

func (b *builder) group(s *config.Service) *upstream.Group {
	if b.Upstreams == nil {
		return nil
	}
	cfg := s.Upstream
	cfg.Service = s.Name
	g, err := b.Upstreams(cfg)
	if err != nil {
		b.errs = append(b.errs, problem.At(s.Path+".upstream", err))
		return nil
	}
	b.groups[s.Name] = g
	return g
}

// newServices makes the services of cfg. Connection pools of services whose upstream has not changed are taken over from
// the present configuration; new ones are not started, so that nothing is open if they are not used after all.
func (a *Server) newServices(cfg *config.Config, pages *templates.Set) (*Services, error) {
	return NewServices(cfg, ServiceDeps{
		Pages: pages, Rules: a.requestRules, Scorer: a.proc, Indexes: a.indexes,
		Upstreams: func(cfg upstream.Config) (*upstream.Group, error) {
			if old := a.groups[cfg.Service]; old != nil && reflect.DeepEqual(*old.Config(), cfg) {
				return old, nil
			}
			return upstream.New(cfg, upstream.Deps{Log: a.Logger("upstream"), Metrics: a.set})
		},
	})
}

// retireAfter is how long requests that began with the old configuration keep its connection pools.
const retireAfter = time.Minute

// useGroups puts the connection pools of services into use.
func (a *Server) useGroups(s *Services) {
	for name, g := range s.groups {
		if a.groups[name] != g {
			if err := g.Start(context.Background()); err != nil {
				a.log.Error().Err(err).Str("service", name).Msg("start the connection pool")
			}
		}
	}
	a.groups = s.groups
}

// retire closes the pools that are no longer part of the configuration, once requests under way can be expected to be
// over.
func (a *Server) retire(old map[string]*upstream.Group) {
	for name, g := range old {
		if a.groups[name] != g {
			time.AfterFunc(a.retireAfter, func() { _ = g.Close() })
		}
	}
}
