package proxy

import (
	"math"
	"slices"
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
