package verdict

import (
	"encoding/binary"
	"net/netip"
	"time"

	"antirobot/bounded"
	"antirobot/identity"
	"antirobot/request"
	"antirobot/verdict/bans"
	"antirobot/verdict/quota"
	"antirobot/verdict/standing"
)

// Excess says until when a client has to be checked because more was read than the quota allows, or all new clients of a
// network. It is not a ban: it does not grow with repetition, and a pass answers it.
type Excess struct {
	quota.Excess
	Client uint32 // Event.Client; 0: clients of the network without a record
}

// tableSize bounds each of the tables of what processors have told about clients and networks.
const tableSize = 200_000

// readers is what is known of how much clients have read. Safe for concurrent use.
type readers struct {
	clients  *bounded.Expiring[readerKey, Excess]
	networks *bounded.Expiring[identity.Prefix, Excess]
	known    *bounded.Expiring[readerKey, reader]
}

// readerKey names a client at the services of a group.
type readerKey struct{ client, group uint32 }

// reader is a client of which something is known: that it has loaded subresources, or has used half of its quota.
type reader struct{ record, near bool }

func newReaders() readers {
	return readers{
		bounded.NewExpiring[readerKey, Excess](tableSize), bounded.NewExpiring[identity.Prefix, Excess](tableSize), bounded.NewExpiring[readerKey, reader](tableSize),
	}
}

func (t *readers) put(x *Excess) {
	if x.Client == 0 {
		t.networks.Put(x.Prefix, x.Until, *x)
	} else {
		t.clients.Put(readerKey{x.Client, x.Prefix.Group}, x.Until, *x)
	}
}

func (t *readers) sweep(at int64) {
	t.clients.Sweep(at)
	t.networks.Sweep(at)
	t.known.Sweep(at)
}

// Exceeds records that more was read than the quota allows.
func (c *Cacher) Exceeds(x *Excess) {
	c.readers.put(x)
	if c.said.tells() {
		c.said.tell(saidExcess, c.appendExcess(nil, x))
	}
}

// KnowReader records that a client has a record of loading subresources, or that it has used half of its quota.
func (c *Cacher) KnowReader(client, group uint32, record, near bool, until time.Time) {
	c.knowReader(client, group, reader{record, near}, until)
	if c.said.tells() {
		body := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, client), group)
		body = append(body, b2u(record)|b2u(near)<<1)
		c.said.tell(saidReader, binary.BigEndian.AppendUint64(body, uint64(until.Add(c.skewNow()).UnixMilli()))) //nolint:gosec // after 1970
	}
}

func (c *Cacher) knowReader(client, group uint32, r reader, until time.Time) {
	k := readerKey{client, group}
	if was, end, ok := c.readers.known.Find(k, c.now().UnixNano()); ok && was.record && !r.record {
		r.record, until = true, end
	}
	c.readers.known.Put(k, until, r)
	if r.record {
		if x, _, ok := c.readers.clients.Find(k, c.now().UnixNano()); ok && x.Bare {
			c.readers.clients.Remove(k)
		}
	}
}

// IsNear reports whether a client has used half of its quota: its browser's prefetches are answered 503, so that it is not
// challenged for pages that were never opened.
func (c *Cacher) IsNear(v *request.View, id *identity.Identity, s *Settings) bool {
	r, _, _ := c.readers.known.Find(readerKey{clientOf(id, v), s.Group}, v.At.UnixNano())
	return r.near
}

// exceeds looks for an excess that applies to the request. Subresources are not stopped: a visitor who has answered gets
// them anyway, and a page that is stopped needs none. What claims to be one must be known to be one.
func (c *Cacher) exceeds(d *Decision, v *request.View, id *identity.Identity, s *Settings) bool {
	if id.N == 0 || id.Partner || c.readers.clients.Len() == 0 && c.readers.networks.Len() == 0 {
		return false
	}
	if id.Winner().Kind == identity.KindAuth && c.paths.proved(c.pathKey(s, v)) != readingDocument { // a program: it can't answer
		return false
	}
	if !c.findExcess(&d.Excess, v, id, s) {
		return false
	}
	if c.paths.read(c.pathKey(s, v)) == readingPart {
		d.Excess = Excess{}
		return false
	}
	d.Step = StepCheck
	if d.Excess.Scope == quota.ScopeNewcomers && d.Excess.Bare && !d.Excess.Jar {
		d.Step = StepPress
	}
	d.Step = max(d.Step, s.Quota)
	return true
}

func (c *Cacher) findExcess(x *Excess, v *request.View, id *identity.Identity, s *Settings) (ok bool) {
	at, k := v.At.UnixNano(), readerKey{clientOf(id, v), s.Group}
	if *x, _, ok = c.readers.clients.Find(k, at); ok {
		return true
	}
	if c.readers.networks.Len() == 0 {
		return false
	}
	if r, _, _ := c.readers.known.Find(k, at); r.record || c.returns(id, v.At) {
		return false
	}
	var of [4]identity.Prefix
	for _, p := range of[:identity.Prefixes(&of, id.Subjects[id.N-1].ID, s.Group)] {
		if *x, _, ok = c.readers.networks.Find(p, at); ok {
			return true
		}
	}
	return false
}

// Stands reports whether an event comes from a visitor who stands for themselves (a login, a signed service cookie) or
// is established: from people whom the site knows. An Authorization that is honoured is a program's.
func (c *Cacher) Stands(e *Event) bool {
	for i := range e.N {
		if e.Subjects[i].Kind != identity.KindAuth && c.stands(e.Subjects[i]) {
			return true
		}
	}
	return false
}

// Returns reports whether an event comes from a visitor who Stands, or was seen as a human on an earlier day.
func (c *Cacher) Returns(e *Event) bool {
	for i := range e.N {
		if c.standsAlone(e.Subjects[i], e.At) {
			return true
		}
	}
	return false
}

// returns is Returns for a request.
func (c *Cacher) returns(id *identity.Identity, at time.Time) bool {
	for i := range id.N {
		if c.standsAlone(id.Subjects[i], at) {
			return true
		}
	}
	return false
}

// known is Stands for a request.
func (c *Cacher) known(id *identity.Identity) bool {
	for i := range id.N {
		if c.stands(id.Subjects[i]) {
			return true
		}
	}
	return false
}

func (c *Cacher) stands(sub identity.Subject) bool {
	switch {
	case sub.Kind.Vouched():
		return true
	case standing.Earns(sub.Kind):
		return c.standing.Established(sub)
	}
	return false
}

// Paths returns what is known about the paths of all services.
func (c *Cacher) Paths() *Paths { return &c.paths }

// appendExcess appends an excess: network, bits, scope and flags, group, until (unix milliseconds), client, figures, window.
func (c *Cacher) appendExcess(dst []byte, x *Excess) []byte {
	dst = append(dst, x.Prefix.ID[:]...)
	dst = append(dst, x.Prefix.Bits, byte(x.Scope)<<3|b2u(x.Jar)<<2|b2u(x.New)<<1|b2u(x.Bare))
	dst = binary.BigEndian.AppendUint32(dst, x.Prefix.Group)
	dst = binary.BigEndian.AppendUint64(dst, uint64(x.Until.Add(c.skewNow()).UnixMilli())) //nolint:gosec // after 1970
	for _, v := range [...]uint32{x.Client, x.Read, x.Most} {
		dst = binary.BigEndian.AppendUint32(dst, v)
	}
	return bans.AppendText(dst, x.Window)
}

func (c *Cacher) heardExcess(b []byte) bool {
	const fixed = 16 + 2 + 4 + 8 + 3*4
	if len(b) < fixed {
		return false
	}
	x := Excess{Client: binary.BigEndian.Uint32(b[30:]), Excess: quota.Excess{
		Prefix: identity.Prefix{ID: [16]byte(b), Bits: b[16], Group: binary.BigEndian.Uint32(b[18:])},
		Scope:  quota.Scope(b[17] >> 3), Jar: b[17]&4 != 0, New: b[17]&2 != 0, Bare: b[17]&1 != 0,
		Until: c.heardTime(b[22:]), Read: binary.BigEndian.Uint32(b[34:]), Most: binary.BigEndian.Uint32(b[38:]),
	}}
	var ok bool
	if x.Window, b, ok = bans.CutText(b[fixed:], bans.MaxName); !ok || len(b) > 0 || x.Prefix.Bits > 128 || x.Prefix.Bits%8 != 0 || x.Scope > quota.ScopeGrade {
		return false
	}
	if x.Until.After(c.now()) {
		c.readers.put(&x)
	}
	return true
}

func (c *Cacher) heardReader(b []byte) bool {
	if len(b) != 4+4+1+8 {
		return false
	}
	if until := c.heardTime(b[9:]); until.After(c.now()) {
		c.knowReader(binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:]), reader{b[8]&1 != 0, b[8]&2 != 0}, until)
	}
	return true
}

// StoryExcess is an Excess as JSON shows it.
type StoryExcess struct {
	Scope     string    `json:"scope"` // client, address, network, newcomers or unusual
	Network   string    `json:"network,omitempty"`
	Until     time.Time `json:"until"`
	Read      uint32    `json:"read"` // pages within the window, weighed
	Most      uint32    `json:"most"`
	Window    string    `json:"window"`
	OneClient bool      `json:"one_client"` // one client is checked; otherwise those of the network without a record
}

// Short says in short why a visitor is checked, as words.Reason reads it.
func (x *StoryExcess) Short() string { return "quota: " + x.Scope }

// story returns the excess as JSON shows it; nil if there is none.
func (x *Excess) story() *StoryExcess {
	if x.Until.IsZero() {
		return nil
	}
	s := &StoryExcess{Scope: x.Scope.String(), Until: x.Until.UTC(), Read: x.Read, Most: x.Most, Window: x.Window, OneClient: x.Client != 0}
	if x.Prefix.Bits > 0 {
		addr, bits := netip.AddrFrom16(x.Prefix.ID), int(x.Prefix.Bits)
		if addr.Is4In6() && bits >= 96 {
			addr, bits = addr.Unmap(), bits-96
		}
		s.Network = netip.PrefixFrom(addr, bits).String()
	}
	return s
}
