package proxy

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"time"

	"antirobot/request"
	"antirobot/verdict"
)

const (
	pathsUnion  = "union"
	pathsRefuse = "refuse"
)

// readings are the settings of all readings of a path, starting with the path as it came. There are several only for
// paths that no browser makes, or that differ by case.
type readings struct {
	list   []*Service
	merged Service // of list, if several
	charge *verdict.Settings
	joined []byte // a path without its script
}

// find fills s, and returns the service of the request; nil: none. part: a subresource is requested. It allocates
// nothing after the first use, unless several message routes match.
func (s *readings) find(r *Router, host []byte, paths *request.Paths, part bool) *Service {
	s.list = r.readings(s.list[:0], host, paths)
	if len(s.list) > 0 && !r.single {
		s.addAliases(r, host, paths, part)
	}
	return s.service()
}

func (s *readings) service() *Service {
	switch len(s.list) {
	case 0:
		return nil
	case 1:
		return s.list[0]
	}
	s.merge()
	return &s.merged
}

func (s *readings) forget() {
	if len(s.list) > 1 {
		s.merged, s.charge = Service{}, nil
	}
	clear(s.list)
	s.list = s.list[:0]
}

func (s *readings) several() bool { return len(s.list) > 1 }

// merge combines all settings into the strictest. The path as it came decides about upstream, identity and captcha.
func (s *readings) merge() {
	s.merged = *s.list[0]
	m := &s.merged
	s.charge = m.Verdict
	for _, o := range s.list[1:] {
		m.Config.MaxBody = tighter(m.Config.MaxBody, o.Config.MaxBody)
		m.Config.ResponseTimeout = time.Duration(tighter(int64(m.Config.ResponseTimeout),
			int64(o.Config.ResponseTimeout)))
		m.Config.TellService = m.Config.TellService || o.Config.TellService
		if !o.Config.PassOwnCookies && m.Config.PassOwnCookies {
			m.Config.PassOwnCookies, m.ownCookies = false, o.ownCookies
		}
		for _, route := range o.routes {
			if !slices.Contains(m.routes, route) {
				m.routes = append(m.routes[:len(m.routes):len(m.routes)], route)
			}
		}
		m.bodies = append(m.bodies[:len(m.bodies):len(m.bodies)], o.bodies...)
		if o.Verdict.Mode != verdict.Off && (s.charge.Mode == verdict.Off ||
			pace(o.Verdict.Limits) < pace(s.charge.Limits)) {
			s.charge = o.Verdict
		}
	}
}

func tighter(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

func pace(limits []verdict.Limit) float64 {
	least := math.Inf(1)
	for _, l := range limits {
		least = min(least, float64(l.Requests)/l.Window.Seconds())
	}
	return least
}

// unclear returns why a request is refused for its path; empty: it is not.
func (c *Case) unclear() string {
	if c.paths.HasNUL() {
		return "The path holds an escaped NUL.\n"
	}
	if c.under.several() && !c.snap.Router.sameButCase(c.view.Host, &c.paths) {
		for _, s := range c.under.list {
			if s.Config.AmbiguousPaths == pathsRefuse {
				return "The path can be read in several ways.\n"
			}
		}
	}
	if len(c.svc.routes) > 1 && c.svc.claimedTwice(c.view.Method, &c.paths) {
		return "The path can be read as that of two kinds of messages.\n"
	}
	return ""
}

// claimedTwice reports whether readings of a path lead to different message routes.
func (s *Service) claimedTwice(method []byte, paths *request.Paths) bool {
	var first *messageRoute
	for _, path := range paths.All() {
		r := s.routeOf(method, path, false)
		if r != nil && first != nil && r != first {
			return true
		}
		if r != nil {
			first = r
		}
	}
	return false
}

// judge decides once for each of the settings and keeps the strictest decision. A pass pays once.
func (c *Case) judge(watch bool) {
	if !c.under.several() {
		c.judgeBy(&c.decision, c.svc, watch)
		return
	}
	kept := c.under.list[0]
	c.judgeBy(&c.decision, kept, watch)
	for _, s := range c.under.list[1:] {
		d := new(verdict.Decision)
		c.judgeBy(d, s, watch || c.decision.Paid)
		if stricter(d, &c.decision) {
			c.decision, *d, kept = *d, c.decision, s
		}
	}
	c.svc.Verdict, c.svc.watching = kept.Verdict, kept.watching
}

func (c *Case) judgeBy(d *verdict.Decision, s *Service, watch bool) {
	with := s.Verdict
	if watch && with.Mode != verdict.Off {
		with = s.watching
	}
	if c.xml && c.svc.Captcha.Demands(c.view, c.partner) {
		c.core.deps.Decider.DecideDemand(d, c.view, &c.id, with)
	} else {
		c.core.deps.Decider.Decide(d, c.view, &c.id, with)
	}
	d.Mode = s.Verdict.Mode
}

// stricter reports whether a lets less through than b; of equals, the enforced one.
func stricter(a, b *verdict.Decision) bool {
	switch {
	case a.Stops() != b.Stops():
		return a.Stops()
	case a.Stops():
		return a.Verdict > b.Verdict
	case a.Mode != b.Mode:
		return a.Mode < b.Mode // Enforce < Observe < Off
	}
	return a.Verdict > b.Verdict || a.Paid && !b.Paid
}

// charged returns the settings whose limits a request of svc counts towards.
func (s *readings) charged(svc *Service) *verdict.Settings {
	if s.several() {
		return s.charge
	}
	return svc.Verdict
}

// rewriteFields replace the request's path at some services (IIS with a rewriting module, Symfony and Zend before
// 2018). The gateway drops them; beside a balancer they may reach the service.
var rewriteFields = [...]string{"X-Original-URL", "X-Rewrite-URL"}

// rewritten returns the path that a field names; nil: none.
func rewritten(f *request.Field) []byte {
	if len(f.Name) != len(rewriteFields[0]) && len(f.Name) != len(rewriteFields[1]) {
		return nil
	}
	for _, name := range rewriteFields {
		if !request.EqualCGI(f.Name, name) {
			continue
		}
		path := bytes.TrimSpace(f.Value)
		if i := bytes.Index(path, []byte("://")); i > 0 {
			path = path[i+len("://"):]
			path = path[max(0, bytes.IndexByte(path, '/')):]
		}
		if i := bytes.IndexByte(path, '?'); i >= 0 {
			path = path[:i]
		}
		return path
	}
	return nil
}

func rewrite(v *request.View, fields []request.Field) {
	v.Fields = fields
	v.Named = named(v)
}

// named returns the first path in the head that differs from the request's; nil: none.
func named(v *request.View) []byte {
	for i := range v.Fields {
		if path := rewritten(&v.Fields[i]); len(path) > 0 && !bytes.Equal(path, v.Path) {
			return path
		}
	}
	return nil
}

// addRewritten adds the settings of paths that the head names, and reports whether there are any.
func (s *readings) addRewritten(r *Router, v *request.View) (named bool) {
	if r.single {
		return false
	}
	for i := range v.Fields {
		path := rewritten(&v.Fields[i])
		if len(path) == 0 || path[0] != '/' || bytes.Equal(path, v.Path) {
			continue
		}
		named = true
		var paths request.Paths
		paths.Read(path)
		for _, found := range r.readings(nil, v.Host, &paths) {
			s.list = appendService(s.list, found)
		}
		s.addAliases(r, v.Host, &paths, false)
	}
	return named
}

// Services know a path by several names:
//
// - front controllers serve the rest of a script's path: /index.php/login is /login;
// - frameworks strip a format: /login.json is /login to Rails, and to Spring before 5.3;
// - servers add an extension: /login is /login.php with MultiViews, ASP.NET's friendly URLs, and try_files of nginx.
//
// Settings of one of these paths hold for its other names. Settings of the whole host or of the directory do not: an
// exempt script
// exempts none of the paths that it serves.

// scripts are the extensions of programs that servers run with the rest of the path: PHP, CGI, FastCGI, WSGI, IIS and
// ColdFusion.
var scripts = [...]string{
	"php", "php3", "php4", "php5", "php7", "php8", "phtml", "pht", "phar", "cgi", "fcgi", "fpl", "pl", "py", "rb",
	"wsgi", "asp", "aspx", "cfm",
}

var pageEndings = [...]string{"html", "htm"}

// ending returns the index of the dot of a file name's extension; -1: it has none.
func ending(name []byte) int {
	if i := bytes.LastIndexByte(name, '.'); i > 0 && i < len(name)-1 && len(name)-i-1 <= maxFormat {
		return i
	}
	return -1
}

func oneOf(endings []string, ending []byte) bool {
	for _, e := range endings {
		if request.EqualFold(e, ending) {
			return true
		}
	}
	return false
}

// script returns the bounds of the first segment of a path that names a script and is followed by a slash; 0, 0: none.
func script(path []byte) (begin, end int) {
	if bytes.IndexByte(path, '.') < 0 {
		return 0, 0
	}
	for begin < len(path) && path[begin] == '/' {
		begin++
		n := bytes.IndexByte(path[begin:], '/')
		if n < 0 {
			break
		}
		if dot := ending(path[begin : begin+n]); dot > 0 && oneOf(scripts[:], path[begin+dot+1:begin+n]) {
			return begin, begin + n
		}
		begin += n
	}
	return 0, 0
}

// withoutEnding returns a path without its format; nil if it has none. A number is none: /v1.2 is another version.
func withoutEnding(path []byte) []byte {
	path = bytes.TrimRight(path, "/")
	name := path[bytes.LastIndexByte(path, '/')+1:]
	dot := ending(name)
	if dot < 0 || len(bytes.Trim(name[dot+1:], "0123456789")) == 0 {
		return nil
	}
	return path[:len(path)-len(name)+dot]
}

func directory(path []byte) []byte { return path[:bytes.LastIndexByte(path, '/')+1] }

// extensionless is a setting for a file, by the path without its extension.
type extensionless struct {
	site, service *Service
	prefix        string
	whole         bool // nothing may follow
}

func (s *Service) extensionless() (out []extensionless) {
	for _, p := range s.Paths {
		bare := string(withoutEnding([]byte(p.Prefix)))
		if bare == "" {
			continue
		}
		end := []byte(strings.Trim(p.Prefix[len(bare):], "./"))
		isScript, isPage := oneOf(scripts[:], end), oneOf(pageEndings[:], end)
		taken := false
		for _, other := range s.Paths {
			taken = taken || strings.TrimRight(other.Prefix, "/") == bare
		}
		if !taken && (isScript || isPage) {
			out = append(out, extensionless{s, p.Service, bare, isPage})
		}
	}
	return out
}

func (e *extensionless) covers(path []byte) bool {
	return hasPathPrefix(path, e.prefix, true) && (!e.whole || len(bytes.TrimRight(path, "/")) == len(e.prefix))
}

// addAliases adds the settings of a path's other names. The extension of a subresource (/login.css) is no format.
func (s *readings) addAliases(r *Router, host []byte, paths *request.Paths, part bool) {
	for _, path := range paths.All() {
		s.addFormat(r, host, path, part)
		if begin, end := script(path); end > 0 {
			dir, served := path[:begin], path[end:]
			s.addOwn(r, host, served, rootPath)
			s.addFormat(r, host, served, part)
			if begin > 1 {
				s.joined = append(append(s.joined[:0], dir[:begin-1]...), served...)
				s.addOwn(r, host, s.joined, dir)
				s.addFormat(r, host, s.joined, part)
			}
		}
		for i := range r.bare {
			if e := &r.bare[i]; e.covers(path) && r.site(host, path, true) == e.site {
				s.list = appendService(s.list, e.service)
			}
		}
	}
}

// addFormat adds the settings of a path without its format, unless the path with it has its own.
func (s *readings) addFormat(r *Router, host, path []byte, part bool) {
	if part {
		return
	}
	if bare := withoutEnding(path); bare != nil && r.find(host, path, false) == r.find(host, directory(path), false) {
		s.addOwn(r, host, bare, directory(bare))
	}
}

// addOwn adds the settings of a path itself, without those of its host or directory.
func (s *readings) addOwn(r *Router, host, path, dir []byte) {
	root, above := r.find(host, rootPath, false), r.find(host, dir, false)
	for _, fold := range [...]bool{false, true} {
		if own := r.find(host, path, fold); own != root && own != above {
			s.list = appendService(s.list, own)
		}
	}
}
