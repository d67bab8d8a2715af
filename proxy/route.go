package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	"antirobot/captcha"
	"antirobot/identity"
	"antirobot/proxy/upstream"
	"antirobot/request"
	"antirobot/verdict"
)

// Service is one protected site, or a path of one. Immutable once in a Router.
type Service struct {
	Name     string
	Hosts    []string // exact, "*.example.com", or "*"; none: every host
	Prefixes []string // none: every path
	Upstream *upstream.Group
	Verdict  *verdict.Settings
	Identity *identity.CookieSettings
	Captcha  *captcha.Settings
	Config   ServiceConfig
	Messages MessagesConfig
	Paths    []PathRule // longest prefix first after NewRouter

	metrics    *serviceMetrics
	counts     *verdictCounters
	watching   *verdict.Settings      // Verdict in mode observe, for the gateway's own pages
	ownCookies []string               // dropped on the way to the service
	drop       func(name []byte) bool // reports client fields that the service does not get
	routes     []*messageRoute
	bodies     []*bodyRoute
}

// PathRule gives requests below a prefix settings of their own.
type PathRule struct {
	Prefix  string
	Service *Service
}

// Router finds the Service of a request. Immutable.
type Router struct {
	exact    map[string][]*Service
	suffix   map[string][]*Service // "example.com" of "*.example.com"
	anywhere []*Service
	services []*Service
	bare     []extensionless
	single   bool // one service without path rules
}

var errAmbiguous = errors.New("two services claim the same host and path prefix")

// NewRouter returns a Router over services, or all errors found.
func NewRouter(services []*Service) (*Router, error) {
	r := &Router{
		services: services, exact: map[string][]*Service{}, suffix: map[string][]*Service{},
		single: len(services) == 1 && len(services[0].Paths) == 0,
	}
	claimed := map[string]string{}
	var errs []error
	for _, s := range services {
		s.prepare()
		r.bare = append(r.bare, s.extensionless()...)
		hosts := s.Hosts
		if len(hosts) == 0 {
			hosts = []string{"*"}
		}
		for _, h := range hosts {
			for _, p := range s.prefixes() {
				if other, taken := claimed[h+p]; taken {
					errs = append(errs, fmt.Errorf("%w: %s and %s both have %s%s", errAmbiguous, other, s.Name, h, p))
				}
				claimed[h+p] = s.Name
			}
			r.add(strings.ToLower(h), s)
		}
	}
	return r, errors.Join(errs...)
}

func (r *Router) add(host string, s *Service) {
	if host == "*" {
		r.anywhere = append(r.anywhere, s)
		return
	}
	if parent, ok := strings.CutPrefix(host, "*."); ok {
		r.suffix[parent] = append(r.suffix[parent], s)
		return
	}
	r.exact[host] = append(r.exact[host], s)
}

func (s *Service) prefixes() []string {
	if len(s.Prefixes) == 0 {
		return []string{"/"}
	}
	return s.Prefixes
}

func (s *Service) prepare() {
	sort.SliceStable(s.Paths, func(i, k int) bool { return len(s.Paths[i].Prefix) > len(s.Paths[k].Prefix) })
	s.watching = new(verdict.Settings)
	*s.watching = *s.Verdict
	s.watching.Mode, s.watching.Watch = verdict.Observe, true
	if !s.Config.PassOwnCookies {
		s.ownCookies = s.Identity.OwnCookies()
	}
	s.drop = newFieldFilter(s.Config.DropFields).drops
	s.routes = newMessageRoutes(s.Messages)
	s.bodies = newBodyRoutes(s.Config.Bodies)
	for _, p := range s.Paths {
		p.Service.prepare()
	}
}

func (r *Router) count(m *coreMetrics) {
	for _, s := range r.services {
		s.count(m)
	}
}

func (s *Service) count(m *coreMetrics) {
	s.metrics, s.counts = m.service(s.Name), m.verdicts(s.Name, s.Verdict.Mode)
	for _, p := range s.Paths {
		p.Service.count(m)
	}
}

// isXML reports whether every reading of a path belongs to the XML interface, where partners are trusted.
func (s *Service) isXML(paths *request.Paths) bool {
	for _, path := range paths.All() {
		// partners' answers come to the gateway's own path
		if !under(path, s.Config.XMLPaths) && s.Captcha.Route(path) != captcha.EndpointXCheck {
			return false
		}
	}
	return true
}

func under(path []byte, prefixes []string) bool {
	for _, p := range prefixes {
		if hasPathPrefix(path, p, false) {
			return true
		}
	}
	return false
}

// isHealthCheck reports whether v is a balancer's health check and names no other path.
func (s *Service) isHealthCheck(v *request.View) bool {
	for _, p := range s.Config.HealthPaths {
		if string(v.Path) == p && (string(v.Method) == "GET" || string(v.Method) == "HEAD") {
			return named(v) == nil
		}
	}
	return false
}

// readings appends the services of all readings of a path, each once, first that of the path as it came; nothing if
// that has none. The other case is a reading if the path as it came has no settings.
func (r *Router) readings(dst []*Service, host []byte, paths *request.Paths) []*Service {
	all := paths.All()
	if string(all[0]) == "*" { // the host's root
		all = all[len(all):]
		dst = appendService(dst, r.find(host, rootPath, false))
	}
	for _, path := range all {
		s := r.find(host, path, false)
		if len(dst) == 0 && s == nil {
			return dst
		}
		dst = appendService(dst, s)
		if r.single {
			return dst
		}
	}
	for _, path := range all { // a service may be lenient in several ways
		dst = appendService(dst, r.find(host, path, true))
	}
	return dst
}

// sameButCase reports whether all readings have the same settings, except those that only ignore case.
func (r *Router) sameButCase(host []byte, paths *request.Paths) bool {
	first := r.find(host, paths.All()[0], false)
	for _, path := range paths.All()[1:] {
		if s := r.find(host, path, false); s != nil && s != first {
			return false
		}
	}
	return true
}

func appendService(dst []*Service, s *Service) []*Service {
	if s == nil || slices.Contains(dst, s) {
		return dst
	}
	return append(dst, s)
}

var rootPath = []byte("/")

func (r *Router) find(host, path []byte, fold bool) *Service {
	if s := r.site(host, path, fold); s != nil {
		return s.at(path, fold)
	}
	return nil
}

// site returns the service of a host and path, without path rules.
func (r *Router) site(host, path []byte, fold bool) *Service {
	if s := longest(r.exact[string(host)], path, fold); s != nil {
		return s
	}
	for rest := host; ; {
		dot := bytes.IndexByte(rest, '.')
		if dot < 0 {
			break
		}
		rest = rest[dot+1:]
		if s := longest(r.suffix[string(rest)], path, fold); s != nil {
			return s
		}
	}
	return longest(r.anywhere, path, fold)
}

// longest returns the service with the longest prefix of path; with fold, the same case wins.
func longest(services []*Service, path []byte, fold bool) *Service {
	var best *Service
	length, exact := -1, false
	for _, s := range services {
		for _, p := range s.prefixes() {
			if len(p) < length || len(p) == length && (exact || !fold) || !hasPathPrefix(path, p, fold) {
				continue
			}
			best, length, exact = s, len(p), hasPathPrefix(path, p, false)
		}
	}
	return best
}

// at returns the settings that apply to path; with fold, the same case wins.
func (s *Service) at(path []byte, fold bool) *Service {
	found, length := s, -1
	for _, p := range s.Paths {
		if len(p.Prefix) < length {
			break
		}
		if !hasPathPrefix(path, p.Prefix, fold) {
			continue
		}
		if !fold || hasPathPrefix(path, p.Prefix, false) {
			return p.Service
		}
		if length < 0 {
			found, length = p.Service, len(p.Prefix)
		}
	}
	return found
}

// hasPathPrefix reports whether prefix covers path at a segment boundary: "/a" covers "/a/b" but not "/ab".
func hasPathPrefix(path []byte, prefix string, fold bool) bool {
	if len(path) < len(prefix) || string(path[:len(prefix)]) != prefix &&
		(!fold || !request.EqualFold(path[:len(prefix)], prefix)) {
		return false
	}
	return len(path) == len(prefix) || strings.HasSuffix(prefix, "/") || path[len(prefix)] == '/' ||
		path[len(prefix)] == ';'
}
