package verdict

import (
	"net/netip"
	"time"

	"antirobot/identity"
	"antirobot/request"
)

// Bounds of what a Note quotes, in bytes.
const (
	notedPath  = 128
	notedAgent = 128
)

// Note is what the journal is told about one request: a plain value without pointers into the connection, to be filled in
// by Decision.Note and copied. The rest of the story is in Recent, from where Noted fetches it.
type Note struct {
	ID       request.ID
	At       time.Time
	Service  string
	Kind     EventKind
	Verdict  Verdict
	Cause    Cause
	Mode     Mode
	Paid     bool
	Subject  identity.Subject // whom the request was charged to
	Addr     netip.Addr       // of the client
	Status   uint16           // of the answer; 0: unknown
	Took     time.Duration    // 0: unknown
	BytesOut int64
	Work     bool    // a challenge of work
	Share    float32 // of the requests like it that are noted: 1 is all of them
	Trace    Trace

	kept                   keptAt
	methodN, pathN, agentN uint8
	method                 [8]byte
	path                   [notedPath]byte
	agent                  [notedAgent]byte
}

// Note fills in n about a request that has been decided. It copies, and allocates nothing.
func (d *Decision) Note(n *Note, rid request.ID, v *request.View, id *identity.Identity, s *Settings) {
	n.ID, n.At, n.Service, n.Addr = rid, v.At, s.Name, id.Addr
	n.Verdict, n.Cause, n.Mode, n.Paid, n.Subject = d.Told(), d.Cause, d.Mode, d.Paid, d.Subject
	n.kept = d.kept
	n.methodN = uint8(copy(n.method[:], v.Method))
	n.pathN = uint8(copy(n.path[:], v.Path))
	n.agentN = uint8(copy(n.agent[:], v.Get("User-Agent")))
}

// Method returns the method; it is valid as long as n.
func (n *Note) Method() []byte { return n.method[:n.methodN] }

// Path returns the path without the query, cut after 128 bytes; it is valid as long as n.
func (n *Note) Path() []byte { return n.path[:n.pathN] }

// Agent returns the User-Agent, cut after 128 bytes; it is valid as long as n.
func (n *Note) Agent() []byte { return n.agent[:n.agentN] }

// Noted returns the whole story of a noted request, if it is still kept. It is not for the hot path.
func (r *Recent) Noted(n *Note) (Story, bool) {
	if n.kept == 0 {
		return Story{}, false
	}
	sh := r.shard(n.ID)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if n.kept > 0 {
		if p := sh.human.at(int(n.kept - 1)); p.id == n.ID {
			return r.explain(p.story(), p.entry), true
		}
		return Story{}, false
	}
	if p := sh.stopped.at(int(-n.kept - 1)); p.id == n.ID {
		return r.explain(p.story(), p.entry), true
	}
	return Story{}, false
}

// Journal remembers requests for longer than Recent does. Note copies n, never waits, and allocates nothing but room for more
// that wait than ever before.
type Journal interface {
	Note(n *Note)
	// Human reports whether a request that was simply human is to be noted, and the share of those that are.
	Human(rid request.ID) (share float32, ok bool)
}
