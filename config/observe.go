package config

// Observe makes every service that would stop visitors only look, whatever the file says: decisions are made, logged and
// counted, and everybody passes. c is valid, and not yet in use.
func (c *Config) Observe() {
	for i := range c.Resolved {
		c.Resolved[i].observe()
		for k := range c.Resolved[i].Resolved {
			c.Resolved[i].Resolved[k].observe()
		}
	}
}

func (s *Service) observe() {
	if s.Verdict.Mode == "enforce" {
		s.Verdict.Mode = "observe"
	}
}
