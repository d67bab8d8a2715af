package config

import "slices"

// Observe makes every service that would stop visitors only look, whatever the file says: decisions are made, logged
// and counted, and all requests pass. c is valid, and not yet in use.
func (c *Config) Observe() {
	for i := range c.Resolved {
		c.Resolved[i].observe()
		for k := range c.Resolved[i].Resolved {
			c.Resolved[i].Resolved[k].observe()
		}
	}
}

// Stops reports whether anybody is stopped at the service, or at one of its paths.
func (s *Service) Stops() bool {
	return s.Verdict.Mode == enforce || slices.ContainsFunc(s.Resolved, func(p Path) bool { return p.Stops() })
}

const enforce = "enforce"

func (s *Service) observe() {
	if s.Verdict.Mode == enforce {
		s.Verdict.Mode = "observe"
	}
}
