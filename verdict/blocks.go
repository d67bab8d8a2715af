package verdict

import (
	"antirobot/cbb"
	"antirobot/identity"
	"antirobot/request"
)

// Blocks returns what in the lists blocks a visitor now, whose request was decided before; empty: nothing does. Bans, rules and all
// that Decide may count are not asked. It allocates, and is not for each request.
func (c *Cacher) Blocks(v *request.View, id *identity.Identity, s *Settings) (by string) {
	if s.Mode != Enforce {
		return ""
	}
	var m cbb.Match
	now := *v
	now.At = c.now()
	c.lists.Lookup(&m, &now, id, s.Name)
	e := m.OwnBlock
	if e == nil && m.White == nil {
		e = m.Block
	}
	if e == nil {
		return ""
	}
	return e.List + ": " + c.recent.Describe(e, "ip:"+id.Addr.String())
}
