package processor

import (
	"math"
	"math/bits"
	"time"

	"antirobot/identity"
	"antirobot/verdict"
	"antirobot/verdict/client"
	"antirobot/verdict/tally"
)

// role says what the members of a group have in common.
type role uint8

const (
	roleSubject role = iota // for a pace: one subject
	roleCrowd               // for a pace: an address, over all requests that brought cookies
	roleNetwork             // a /24 or /48
	roleAgent               // a User-Agent
	roleShape               // which fields are present, in which order, from which browser
)

// groupKey names a group.
type groupKey struct {
	role role
	id   [16]byte
}

// What a group counts, and how long it remembers it: counts fade as those of sessions do.
const (
	groupHour = 3600.0
	groupDay  = 86400.0
)

// group is what many subjects have done together.
type group struct {
	at       int64 // unix milliseconds to which the counts have faded
	minute   float32
	hour     float32   // pages
	loads    float32   // pages that were loaded, as opposed to called by scripts
	parts    float32   // sub-resources, over the hour, like the next ones
	offered  float32   // pages of browsers without our cookie
	fields   float32   // pages whose fields are known
	noRefs   float32   // pages without referer
	bans     float32   // over the day
	members  [4]uint64 // a bit for each address of this hour
	hourNo   uint32
	previous uint32 // members in the hour before
}

// fade brings the counts forward to a time; late events count as if they were on time.
func (g *group) fade(at time.Time) {
	ms := at.UnixMilli()
	if hour := uint32(ms / 3600_000); hour > g.hourNo {
		g.previous = 0
		if hour == g.hourNo+1 {
			g.previous = uint32(g.size())
		}
		g.members, g.hourNo = [4]uint64{}, hour
	}
	if ms <= g.at {
		return
	}
	gap := float64(ms-g.at) / 1000
	if g.at == 0 {
		gap = 0
	}
	g.at = ms
	if gap == 0 {
		return
	}
	g.minute *= tally.Fading(gap, 60)
	h := tally.Fading(gap, groupHour)
	g.hour, g.loads, g.parts, g.offered, g.fields, g.noRefs = g.hour*h, g.loads*h, g.parts*h, g.offered*h, g.fields*h, g.noRefs*h
	d := tally.Fading(gap, groupDay)
	g.bans *= d
}

// size estimates the members of this hour.
func (g *group) size() float32 {
	n := 0
	for _, w := range g.members {
		n += bits.OnesCount64(w)
	}
	const size = 256
	if n == size {
		n--
	}
	return float32(-size * math.Log(1-float64(n)/size))
}

// membership is how many members were seen in this hour or the one before.
func (g *group) membership() float32 { return max(g.size(), float32(g.previous)) }

// join notes a member.
func (g *group) join(h uint64) {
	h = h * 0x9e3779b97f4a7c15 >> 40
	g.members[h/64%uint64(len(g.members))] |= 1 << (h % 64)
}

// turn adds a page, with the weight that its address has left.
func (g *group) turn(e *verdict.Event, load bool, member uint64, w float32) {
	g.fade(e.At)
	g.join(member)
	g.minute += w
	g.hour += w
	if load {
		g.loads += w
	}
	if e.Referer == client.RefererNone {
		g.noRefs += w
	}
	if e.Partial {
		return
	}
	g.fields += w
	if e.Cookies&client.CookieOffered != 0 {
		g.offered += w
	}
}

// part adds a sub-resource.
func (g *group) part(e *verdict.Event, w float32) {
	g.fade(e.At)
	g.parts += w
}

// groups are the groups that one event belongs to.
type groups struct {
	keys [3]groupKey
	n    int
}

// groupsOf lists the groups of an event: its network, its User-Agent and its header's shape.
func groupsOf(e *verdict.Event) (g groups) {
	add := func(k groupKey) {
		g.keys[g.n] = k
		g.n++
	}
	addr := e.Subjects[e.N-1]
	add(groupKey{role: roleNetwork, id: identity.NetworkOf(addr.ID)})
	if e.Agent != 0 {
		add(groupKey{role: roleAgent, id: idOf(e.Agent, 0)})
	}
	if e.Shape != 0 && e.Page && !e.Partial {
		add(groupKey{role: roleShape, id: idOf(e.Shape, uint64(e.Claim.Family)<<32|uint64(e.Language))})
	}
	return g
}

// idOf makes an ID of hashes.
func idOf(a, b uint64) (id [16]byte) {
	for i := range 8 {
		id[i], id[8+i] = byte(a>>(8*i)), byte(b>>(8*i))
	}
	return id
}
