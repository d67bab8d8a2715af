package gateway

import (
	"context"
	"errors"
	"maps"
	"math"
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

// services are the services of a configuration, ready for use.
type services struct {
	router   *proxy.Router
	judged   []*verdict.Settings // of every service and path
	unserved *captcha.Settings   // for requests that reach no service, from the defaults
	groups   map[string]*upstream.Group
}

// newServices makes the services of cfg, or returns all problems. Connection pools whose configuration has not changed
// are taken over; new ones are not started, so that nothing is open if they are not used.
func (j *Judge) newServices(cfg *config.Config, pages *templates.Set) (*services, error) {
	names, err := cfg.RuleNames()
	if err != nil {
		return nil, problem.At("formula", err)
	}
	b := builder{j: j, pages: pages, names: names, groups: map[string]*upstream.Group{}}
	var all []*proxy.Service
	for i := range cfg.Resolved {
		all = append(all, b.service(&cfg.Resolved[i]))
	}
	if err := errors.Join(b.errs...); err != nil {
		return nil, err
	}
	router, err := proxy.NewRouter(all)
	if err != nil {
		return nil, err
	}
	who, err := identity.NewCookieSettings(cfg.Inherited().Cookies)
	if err != nil {
		return nil, problem.At("defaults.cookies", err)
	}
	unserved, err := captcha.NewSettings(cfg.Inherited().Captcha, captcha.SettingsDeps{
		Hosts: cfg.Inherited(), Cookies: who, Pages: pages,
	})
	if err != nil {
		return nil, problem.At("defaults.captcha", err)
	}
	return &services{router: router, judged: b.judged, unserved: unserved, groups: b.groups}, nil
}

// builder builds services and collects what goes wrong.
type builder struct {
	j      *Judge
	pages  *templates.Set
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
		p.Paths = append(p.Paths, proxy.PathRule{
			Prefix:  path.Prefix,
			Service: b.settings(s, &path.Service, path.Prefix, group),
		})
	}
	return p
}

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
	c, err := captcha.NewSettings(s.Captcha, captcha.SettingsDeps{
		Service: whole.Name, Hosts: whole, Cookies: who, Pages: b.pages, Pictures: pictures(whole),
	})
	fail("captcha", err)
	v, err := s.Verdict.Settings(whole.Name, b.j.indexes.of(whole.Name, prefix))
	if err != nil {
		fail("verdict", err)
		return &proxy.Service{}
	}
	v.Scorer = b.j.Processors[0]
	r, err := b.j.rules.Ruleset(whole.Name, s.Rules, b.names)
	if err != nil {
		fail("rules", err)
	} else if r != nil {
		v.Rules = r
	}
	b.judged = append(b.judged, v)
	return &proxy.Service{
		Name: whole.Name, Hosts: whole.Hosts, Prefixes: whole.Prefixes, Upstream: group, Verdict: v, Identity: who,
		Captcha: c,
		Config:  s.Requests, Messages: s.Messages,
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

// group returns the connection pool of a service; nil in a replay, which forwards nothing.
func (b *builder) group(s *config.Service) *upstream.Group {
	if b.j.live == nil {
		return nil
	}
	cfg := s.Upstream
	cfg.Service = s.Name
	g := b.j.groups[s.Name]
	if g == nil || !reflect.DeepEqual(*g.Config(), cfg) {
		var err error
		if g, err = upstream.New(cfg, upstream.Deps{Log: b.j.d.Log("upstream"), Metrics: b.j.d.Metrics}); err != nil {
			b.errs = append(b.errs, problem.At(s.Path+".upstream", err))
			return nil
		}
	}
	b.groups[s.Name] = g
	return g
}

// retireAfter is how long requests that began with the old configuration keep its connection pools.
const retireAfter = time.Minute

// useGroups puts connection pools into use, and closes those that they replace once requests in progress should be
// over.
func (j *Judge) useGroups(groups map[string]*upstream.Group) {
	for name, g := range groups {
		if j.groups[name] != g {
			if err := g.Start(context.Background()); err != nil {
				log := j.d.Log("upstream")
				log.Error().Err(err).Str("service", name).Msg("start the connection pool")
			}
		}
	}
	for name, g := range j.groups {
		if groups[name] != g {
			time.AfterFunc(j.retireAfter, func() { _ = g.Close() })
		}
	}
	j.groups = groups
}

func (j *Judge) closeGroups() error {
	var errs []error
	for _, g := range j.groups {
		errs = append(errs, g.Close())
	}
	return errors.Join(errs...)
}

// addresses returns the addresses of each service, as its connection pool has them.
func (j *Judge) addresses() map[string][]upstream.AddrState {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := make(map[string][]upstream.AddrState, len(j.groups))
	for name, g := range j.groups {
		all[name] = g.Healthy()
	}
	return all
}

// indexes number the settings of services and their paths. A number keeps its meaning over reloads, because queued
// events are judged by it; that of a service or path that is gone is reused when all others have been. The zero value
// is ready.
type indexes struct {
	numbers map[string]uint16
	used    map[uint16]bool
	next    uint16
}

// keptIndexes is how many numbers of services and paths that are gone are kept, because these may come back.
const keptIndexes = 1024

func indexKey(name, prefix string) string { return name + " " + prefix }

// of returns the number of a service, for which prefix is empty, or of a path of it.
func (x *indexes) of(name, prefix string) uint16 {
	key := indexKey(name, prefix)
	if i, ok := x.numbers[key]; ok {
		return i
	}
	if x.numbers == nil {
		x.numbers, x.used = map[string]uint16{}, map[uint16]bool{}
	}
	for range math.MaxUint16 { // if all are used, two have one, which the processor refuses
		if !x.used[x.next] {
			break
		}
		x.next++
	}
	i := x.next
	x.numbers[key], x.used[i] = i, true
	x.next++
	return i
}

// trim forgets the numbers that no settings in use have, if there are many.
func (x *indexes) trim(judged []*verdict.Settings) {
	if len(x.numbers) <= len(judged)+keptIndexes {
		return
	}
	used := make(map[uint16]bool, len(judged))
	for _, s := range judged {
		used[s.Index] = true
	}
	maps.DeleteFunc(x.numbers, func(_ string, i uint16) bool { return !used[i] })
	x.used = used
}
