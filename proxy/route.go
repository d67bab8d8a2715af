package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"sort"
	"strings"

	"antirobot/captcha"
	"antirobot/identity"
	"antirobot/proxy/upstream"
	"antirobot/request"
	"antirobot/verdict"
)

// Service is one protected site, or a path of one, with all that its requests are served by. It is immutable once it
// is part of a Router.
type Service struct {
	Name     string
	Hosts    []string // exact names, "*.example.com", or "*"; none: every host
	Prefixes []string // path prefixes on those hosts; none: every path
	Upstream *upstream.Group
	Verdict  *verdict.Settings
	Identity *identity.CookieSettings
	Captcha  *captcha.Settings
	Config   ServiceConfig
	Messages MessagesConfig
	Paths    []PathRule // settings of parts of the service, longest prefix first after NewRouter

	metrics    *serviceMetrics
	watching   *verdict.Settings // Verdict in mode observe: for the gateway's own pages, which cost nothing
	ownCookies []string          // that the service does not get
	routes     []*messageRoute
}

// PathRule gives the requests below a prefix a Service of their own, with the same name and upstream.
type PathRule struct {
	Prefix  string
	Service *Service
}

// Router finds the Service of a request. It is immutable and safe for concurrent use.
type Router struct {
	exact    map[string][]*Service
	suffix   map[string][]*Service // "example.com" of "*.example.com"
	anywhere []*Service
	single   bool // one service without path rules: no reading of a path could mean another
	normal   Normaliser
}

// Normaliser appends the normal form of a raw path to dst: what the most liberal upstream might read in it.
type Normaliser func(dst, raw []byte) []byte

// ErrAmbiguous is returned by NewRouter when two services claim the same host and prefix.
var ErrAmbiguous = errors.New("two services claim the same host and path prefix")

// NewRouter returns a Router over services, or all errors it found.
func NewRouter(services []*Service, normal Normaliser, m *Metrics) (*Router, error) {
	r := &Router{
		normal: normal, exact: map[string][]*Service{}, suffix: map[string][]*Service{},
		single: len(services) == 1 && len(services[0].Paths) == 0,
	}
	claimed := map[string]string{}
	var errs []error
	for _, s := range services {
		s.prepare(m)
		hosts := s.Hosts
		if len(hosts) == 0 {
			hosts = []string{"*"}
		}
		for _, h := range hosts {
			for _, p := range s.prefixes() {
				if other, taken := claimed[h+p]; taken {
					errs = append(errs, fmt.Errorf("%w: %s and %s both have %s%s", ErrAmbiguous, other, s.Name, h, p))
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

func (s *Service) prepare(m *Metrics) {
	sort.SliceStable(s.Paths, func(i, k int) bool { return len(s.Paths[i].Prefix) > len(s.Paths[k].Prefix) })
	s.metrics = m.service(s.Name)
	s.watching = new(verdict.Settings)
	*s.watching = *s.Verdict
	s.watching.Mode, s.watching.Watch = verdict.Observe, true
	if !s.Config.PassOwnCookies {
		s.ownCookies = s.Identity.OwnCookies()
	}
	s.routes = newMessageRoutes(s.Messages)
	for _, p := range s.Paths {
		p.Service.prepare(m)
	}
}

// isXML reports whether path belongs to the service's XML interface.
func (s *Service) isXML(path []byte) bool {
	for _, p := range s.Config.XMLPaths {
		if hasPathPrefix(path, p) {
			return true
		}
	}
	// the partner's answers come to the gateway's own address
	return s.Captcha.Route(path) == captcha.EndpointXCheck
}

// isHealthCheck reports whether v is a balancer's question, which is passed on without a verdict.
func (s *Service) isHealthCheck(v *request.View) bool {
	for _, p := range s.Config.HealthPaths {
		if string(v.Path) == p && (string(v.Method) == "GET" || string(v.Method) == "HEAD") {
			return true
		}
	}
	return false
}

// Find returns the service of a request by its host (lower case, without port) and raw path; nil if there is none.
// A path that an upstream could read differently is looked up both ways, and the stricter service is returned.
func (r *Router) Find(host, path []byte, scratch *[]byte) *Service {
	if len(path) == 1 && path[0] == '*' { // OPTIONS *: the server as a whole, so the host's root
		path = rootPath
	}
	raw := r.find(host, path)
	if raw == nil || r.single {
		return raw
	}
	*scratch = r.normal((*scratch)[:0], path)
	if bytes.Equal(*scratch, path) {
		return raw
	}
	return stricter(raw, r.find(host, *scratch))
}

var rootPath = []byte("/")

func (r *Router) find(host, path []byte) *Service {
	if s := longest(r.exact[string(host)], path); s != nil {
		return s.at(path)
	}
	for rest := host; ; {
		dot := bytes.IndexByte(rest, '.')
		if dot < 0 {
			break
		}
		rest = rest[dot+1:]
		if s := longest(r.suffix[string(rest)], path); s != nil {
			return s.at(path)
		}
	}
	if s := longest(r.anywhere, path); s != nil {
		return s.at(path)
	}
	return nil
}

// longest returns the service with the longest prefix of path.
func longest(services []*Service, path []byte) *Service {
	var best *Service
	length := -1
	for _, s := range services {
		for _, p := range s.prefixes() {
			if len(p) > length && hasPathPrefix(path, p) {
				best, length = s, len(p)
			}
		}
	}
	return best
}

// at returns the settings that hold for path.
func (s *Service) at(path []byte) *Service {
	for _, p := range s.Paths {
		if hasPathPrefix(path, p.Prefix) {
			return p.Service
		}
	}
	return s
}

// hasPathPrefix reports whether prefix covers path at a segment's border: "/a" covers "/a" and "/a/b" but not "/ab".
func hasPathPrefix(path []byte, prefix string) bool {
	if len(path) < len(prefix) || string(path[:len(prefix)]) != prefix {
		return false
	}
	return len(path) == len(prefix) || strings.HasSuffix(prefix, "/") || path[len(prefix)] == '/' || path[len(prefix)] == ';'
}

// stricter returns the service that lets less through.
func stricter(a, b *Service) *Service {
	if b == nil {
		return a
	}
	if b.Verdict.Mode < a.Verdict.Mode { // Enforce < Observe < Off
		return b
	}
	return a
}
