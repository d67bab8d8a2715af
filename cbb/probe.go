package cbb

import "antirobot/request"

// probe is what is known about one request while patterns are tried.
type probe struct {
	v      *request.View
	rs     *ruleset
	loaded uint32 // fields that were looked up
	multi  uint32 // fields that occur more than once
	bits   [maxFields]*bitset
	paths  request.Paths
	forms  [request.MaxReadings]pathForm
	shaped bool // the paths have been computed
	cut    bool // the path is longer than the part that is matched
}

// begin prepares a probe, which may have been used before, for a request; end drops the request's bytes.
func (p *probe) begin(v *request.View, rs *ruleset) {
	p.v, p.rs = v, rs
	p.loaded, p.multi = 0, 0
	clear(p.bits[:len(rs.fields)])
	p.shaped, p.cut = false, false
}

func (p *probe) end() {
	p.v = nil
	for i := range p.paths.All() {
		p.forms[i].path = nil
	}
	p.paths.Forget()
}

// load finds what the first field with a name satisfies; nil if there is none.
func (p *probe) load(i int) *bitset {
	bit := uint32(1) << i
	p.loaded |= bit
	f := p.rs.fields[i]
	n := 0
	for j := range p.v.Fields {
		if h := &p.v.Fields[j]; request.EqualCGI(h.Name, f.name) {
			if n++; n == 1 {
				p.bits[i] = f.match(h.Value)
			} else {
				p.multi |= bit
				break
			}
		}
	}
	return p.bits[i]
}

// holds tests a condition on a field. If several fields have the name, one match is enough to block or ban, but for
// white all must match: adding a field neither evades a block nor gains admission.
func (p *probe) holds(c *fieldCond, white bool) bool {
	b := p.bits[c.field]
	if p.loaded&(1<<c.field) == 0 {
		b = p.load(c.field)
	}
	if c.absent {
		return b == nil
	}
	if b == nil {
		return false
	}
	if p.multi&(1<<c.field) == 0 {
		return b.has(c.cond)
	}
	f := p.rs.fields[c.field]
	for j := range p.v.Fields {
		if h := &p.v.Fields[j]; request.EqualCGI(h.Name, f.name) {
			if f.match(h.Value).has(c.cond) != white {
				return !white
			}
		}
	}
	return white
}

// shape computes the forms of the path: one for each way to read it.
func (p *probe) shape() {
	p.shaped = true
	path := p.v.Path
	if len(path) > maxValue {
		path, p.cut = path[:maxValue], true
	}
	p.paths.Read(path)
	for i, form := range p.paths.All() {
		p.forms[i] = pathForm{path: form}
	}
}

// pathHolds tests a condition on the path. To block or ban, one reading that satisfies it is enough; for white all
// must, and it must not be in doubt where the path ends.
func (p *probe) pathHolds(c *pathCond, white bool) bool {
	if !p.shaped {
		p.shape()
	}
	for i := range p.paths.All() {
		if c.match(&p.forms[i]) != white {
			return !white
		}
	}
	return white && !p.cut && !p.paths.HasNUL()
}
