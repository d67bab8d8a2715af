package verdict

import (
	"cmp"
	"math"
	"net/netip"
	"slices"
	"sync"
	"time"

	"antirobot/cbb"
	"antirobot/identity"
	"antirobot/request"
	"antirobot/verdict/bans"
	"antirobot/verdict/client"
)

const (
	recentShards = 16
	framesKept   = 56 // bytes of the fingerprint of a client's first HTTP/2 frames
	pathKept     = 72 // bytes of a path that a record keeps; the query is never kept
)

// Recent keeps the last decisions in rings of fixed size, so that an operator can ask why. A request that was stopped
// or paid for, or on which its message's or service's rules said something, goes into one ring, any other into a
// smaller one, so that a flood of humans does not push out the robots. Recording copies a few hundred bytes, allocates
// nothing but the rings themselves, a few records at a time until they are full, and takes a lock shared by one request in sixteen. Safe for
// concurrent use.
type Recent struct {
	humans   int // in a shard's ring
	stopped  int
	shards   [recentShards]recentShard
	place    func(addr netip.Addr) StoryPlace           // nil: nobody knows
	describe func(e *cbb.Entry, addr netip.Addr) string // describes entries that do not keep their text; nil: nothing can
	decided  func(e *cbb.Entry, addr netip.Addr)        // counts an entry's decisions; nil: nobody does
}

type recentShard struct {
	mu      sync.Mutex
	human   ring[record]
	stopped ring[stoppedRecord]
	_       [24]byte
}

// record is what is kept of each request: no pointer into the connection.
type record struct {
	id       request.ID
	at       int64 // unix nanoseconds; 0: empty
	service  string
	entry    *cbb.Entry
	subjects [identity.MaxSubjects]identity.Subject
	excused  identity.Subject
	refused  [8]identity.Refusal
	n        uint8
	nRefused uint8
	verdict  Verdict
	cause    Cause
	mode     Mode
	degraded bool
	methodN  uint8
	pathN    uint8
	pathCut  bool
	count    Count
	why      CountWhy
	required string // the step that the service asked for; a constant
	answered uint16 // see Story
	retry    uint16
	ja4N     uint8
	framesN  uint8
	trace    Trace
	belies   bool            // the handshake contradicts the User-Agent
	software client.Software // whose handshake it is
	lag      client.Lag      // by how much later it answers than its connection's end
	method   [8]byte
	ja4      [36]byte
	frames   [framesKept]byte
	path     [pathKept]byte
}

type stoppedRecord struct {
	record
	ban    bans.Ban
	excess Excess
	doubt  Doubt
	like   Campaign
	score  float32
	own    bool
	paid   bool
	waived Waiver
	cost   int32
	left   uint32
	pass   [16]byte

	rules, message Ruling
}

func newRecent(c *Config, lists ListMatcher, place func(addr netip.Addr) StoryPlace) *Recent {
	perShard := func(n int) int { return (n + recentShards - 1) / recentShards }
	r := &Recent{humans: perShard(c.Human), stopped: perShard(c.Stopped), place: place}
	if d, ok := lists.(interface {
		Describe(e *cbb.Entry, addr netip.Addr) string
	}); ok {
		r.describe = d.Describe
	}
	if d, ok := lists.(interface {
		Decided(e *cbb.Entry, addr netip.Addr)
	}); ok {
		r.decided = d.Decided
	}
	return r
}

func (r *Recent) shard(id request.ID) *recentShard { return &r.shards[id[15]%recentShards] }

// Record keeps a decision under the request's ID, and counts it for the list entry that made it.
func (r *Recent) Record(rid request.ID, d *Decision, v *request.View, id *identity.Identity, s *Settings) {
	if d.Entry != nil && r.decided != nil {
		r.decided(d.Entry, id.Addr)
	}
	sh := r.shard(rid)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if d.Told() == Human && !d.Paid && d.Message == nil && (d.Rules == nil || d.Rules.Action == RuleNone && d.Rules.Failed == "") {
		if r.humans == 0 {
			return
		}
		p, i := sh.human.turn(r.humans)
		d.kept = keptAt(i + 1)
		p.fill(rid, d, v, id, s)
		return
	}
	p, i := sh.stopped.turn(r.stopped)
	d.kept = -keptAt(i + 1)
	p.fill(rid, d, v, id, s)
	p.ban, p.excess, p.doubt, p.score, p.own = d.Ban, d.Excess, d.Doubt, d.Score, d.Own
	p.waived, p.like = d.Waived, d.Campaign
	p.paid, p.cost, p.left, p.pass = d.Paid, int32(d.Cost), d.Left, d.PassID
	p.rules.copyFrom(d.Rules)
	p.message.copyFrom(d.Message)
}

func (p *record) fill(rid request.ID, d *Decision, v *request.View, id *identity.Identity, s *Settings) {
	p.id, p.at, p.service, p.entry = rid, v.At.UnixNano(), s.Name, d.Entry
	p.subjects, p.n, p.excused = id.Subjects, uint8(id.N), d.Excused
	p.refused, p.nRefused = id.Refused, uint8(id.NRefused)
	p.verdict, p.cause, p.mode, p.degraded = d.Verdict, d.Cause, d.Mode, d.Degraded
	p.trace = d.Trace
	p.count, p.why, p.required = CountDocument, WhyUncounted, ""
	p.answered, p.retry = 0, 0
	p.methodN = uint8(copy(p.method[:], v.Method))
	p.ja4N, p.framesN = uint8(copy(p.ja4[:], v.JA4)), uint8(copy(p.frames[:], v.Frames))
	p.software, p.belies = client.Handshake(v)
	p.lag = client.LagOf(v.Behind)
	n := copy(p.path[:], v.Path)
	p.pathN, p.pathCut = uint8(n), n < len(v.Path)
}

// keptAt is where a decision is kept: from 1 in the ring of humans, from -1 downwards in the other; 0: it is not kept.
type keptAt int32

// Answered records with which status a stopped client was refused that can't be asked.
func (r *Recent) Answered(rid request.ID, d *Decision, status int) {
	r.amend(rid, d, func(p *record) {
		if p.answered, p.retry = uint16(status), 0; status != 429 { //nolint:gosec // an HTTP status
			return
		}
		wait := d.RetryAfter(time.Unix(0, p.at))
		if t := d.Throttle(); t != nil {
			wait = t.Wait
		}
		p.retry = uint16(min((wait+time.Second-1)/time.Second, math.MaxUint16)) //nolint:gosec // bounded
	})
}

// amend changes what is kept of a request, if it still is.
func (r *Recent) amend(rid request.ID, d *Decision, change func(*record)) {
	if d.kept == 0 {
		return
	}
	sh := r.shard(rid)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	var p *record
	if d.kept > 0 {
		p = sh.human.at(int(d.kept - 1))
	} else {
		p = &sh.stopped.at(int(-d.kept - 1)).record
	}
	if p.id == rid {
		change(p)
	}
}

// Story is a decision as an operator reads it.
type Story struct {
	RequestID  string       `json:"request-id"`
	At         time.Time    `json:"at"`
	Service    string       `json:"service"`
	Mode       string       `json:"mode"`
	Method     string       `json:"method"`
	Path       string       `json:"path"` // without the query; cut after 72 bytes, and then it ends in "…"
	Verdict    string       `json:"verdict"`
	Cause      string       `json:"cause"`
	Subject    string       `json:"subject"`               // whom the request was charged to
	Considered []string     `json:"considered"`            // all verified identities, the strongest first
	Refused    []Refusal    `json:"refused,omitempty"`     // identities that were presented and not accepted
	Place      *StoryPlace  `json:"place,omitempty"`       // where the address is, as far as a file says it
	Handshake  *StoryHello  `json:"handshake,omitempty"`   // how the client began its connection, as far as that is known
	Waived     string       `json:"waived,omitempty"`      // why the cause has no consequence
	Excused    string       `json:"excused,omitempty"`     // the identity that a ban on the address did not stop
	Entry      *StoryEntry  `json:"entry,omitempty"`       // the list entry that decided
	Rule       string       `json:"rule,omitempty"`        // the line of the rules that decided
	Score      float32      `json:"score,omitempty"`       // of the judge
	Ban        *bans.Story  `json:"ban,omitempty"`         // the ban that decided
	Excess     *StoryExcess `json:"excess,omitempty"`      // what was read beyond the quota
	Doubt      *StoryDoubt  `json:"doubt,omitempty"`       // why it may be a robot
	Campaign   *StoryAlike  `json:"campaign,omitempty"`    // who else arrives as it does
	Pass       *StoryPass   `json:"pass,omitempty"`        // the pass that paid
	Rules      *StoryRules  `json:"rules,omitempty"`       // what the service's rules said
	Message    *StoryRules  `json:"message,omitempty"`     // what the rules of a message route said
	Required   string       `json:"required,omitempty"`    // the step that the service asked for: its answer was withheld
	Answered   int          `json:"answered,omitempty"`    // the status with which a stopped client was refused that can't be asked: a program, or for a part
	RetryAfter int          `json:"retry_after,omitempty"` // with 429: the seconds that it was told to wait
	Counted    *StoryCount  `json:"counted,omitempty"`     // what it was counted as; absent if it is not, or not yet
	Degraded   bool         `json:"degraded,omitempty"`    // the store was failing
	Trace      string       `json:"trace,omitempty"`       // the ID of the trace that it is part of; empty: it is not traced
	TracePage  string       `json:"trace_page,omitempty"`  // where people look at that trace; whoever answers for the gateway sets it
}

// StoryCount is what a request was counted as, for limits, budgets and factors.
type StoryCount struct {
	As  string `json:"as"`  // page, part, script call, api call, feed, file or nothing
	Why string `json:"why"` // why it was counted as that
}

// StoryHello is how a client began its connection.
type StoryHello struct {
	JA4         string   `json:"ja4,omitempty"`
	HTTP2       string   `json:"http2,omitempty"`       // cut after 56 bytes
	Software    string   `json:"software,omitempty"`    // the library that makes such handshakes
	Contradicts bool     `json:"contradicts,omitempty"` // it can't be the browser that the User-Agent names
	Behind      *float64 `json:"behind_ms,omitempty"`   // by how much later the client answers than its connection's end; absent: not known
}

// Refusal is an identity that was presented and not accepted.
type Refusal struct {
	Kind   string `json:"kind"`
	Reason string `json:"reason"`
}

// StoryEntry is the list entry in a Story.
type StoryEntry struct {
	List    string     `json:"list"`
	Text    string     `json:"text,omitempty"`
	Service string     `json:"service,omitempty"` // for which it is; empty: for all
	Reason  string     `json:"reason,omitempty"`
	Flag    string     `json:"flag"`
	Until   *time.Time `json:"until,omitempty"`
}

// StoryPass is the pass in a Story.
type StoryPass struct {
	ID   string `json:"id"`
	Cost int    `json:"cost"`
	Left uint32 `json:"left"`
}

// Get returns the decision about a request, if it is still kept.
func (r *Recent) Get(rid request.ID) (Story, bool) {
	sh := r.shard(rid)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for p := range sh.stopped.all {
		if p.id == rid && p.at != 0 {
			return r.explain(p.story(), p.entry), true
		}
	}
	for p := range sh.human.all {
		if p.id == rid && p.at != 0 {
			return r.explain(p.story(), p.entry), true
		}
	}
	return Story{}, false
}

// Messages returns the last decisions about messages of message routes, the newest first. It looks at all records, so
// it is not for the hot path.
func (r *Recent) Messages(limit int) []Story {
	type found struct {
		at    int64
		story Story
	}
	var all []found
	for i := range r.shards {
		sh := &r.shards[i]
		sh.mu.Lock()
		for p := range sh.stopped.all {
			if p.at != 0 && p.message.Route != "" {
				all = append(all, found{p.at, r.explain(p.story(), p.entry)})
			}
		}
		sh.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b found) int { return cmp.Compare(b.at, a.at) })
	out := []Story{}
	for _, f := range all[:min(len(all), limit)] {
		out = append(out, f.story)
	}
	return out
}

// forget forgets the decisions about requests that had the subject among their identities.
func (r *Recent) forget(s identity.Subject) {
	of := func(p *record) bool { return p.at != 0 && slices.Contains(p.subjects[:p.n], s) }
	for i := range r.shards {
		sh := &r.shards[i]
		sh.mu.Lock()
		for p := range sh.stopped.all {
			if of(&p.record) {
				*p = stoppedRecord{}
			}
		}
		for p := range sh.human.all {
			if of(p) {
				*p = record{}
			}
		}
		sh.mu.Unlock()
	}
}

func (p *record) story() Story {
	s := Story{
		RequestID: p.id.String(), At: time.Unix(0, p.at).UTC(), Service: p.service, Mode: p.mode.String(),
		Method: string(p.method[:p.methodN]), Path: string(p.path[:p.pathN]),
		Verdict: p.verdict.String(), Cause: p.cause.String(), Degraded: p.degraded, Trace: p.trace.String(),
	}
	if p.pathCut {
		s.Path += "…"
	}
	for i := range p.n {
		s.Considered = append(s.Considered, p.subjects[i].String())
	}
	if p.n > 0 {
		s.Subject = s.Considered[0]
	}
	for i := range p.nRefused {
		s.Refused = append(s.Refused, Refusal{p.refused[i].Kind.String(), p.refused[i].Reason.String()})
	}
	if p.ja4N+p.framesN > 0 {
		s.Handshake = &StoryHello{JA4: string(p.ja4[:p.ja4N]), HTTP2: string(p.frames[:p.framesN]), Software: p.software.String(), Contradicts: p.belies}
		if p.lag != 0 {
			ms := math.Round(float64(p.lag.Milliseconds()))
			s.Handshake.Behind = &ms
		}
	}
	if p.excused.Kind != identity.KindNone {
		s.Excused = p.excused.String()
	}
	s.Required, s.Answered, s.RetryAfter = p.required, int(p.answered), int(p.retry)
	if p.why != WhyUncounted {
		s.Counted = &StoryCount{p.count.String(), p.why.String()}
	}
	if e := p.entry; e != nil {
		s.Entry = &StoryEntry{List: e.List, Text: e.Text, Service: e.Service, Reason: e.Reason, Flag: e.Flag.String()}
		if !e.Until.IsZero() {
			until := e.Until.UTC()
			s.Entry.Until = &until
		}
	}
	return s
}

func (p *stoppedRecord) story() Story {
	s := p.record.story()
	s.Score, s.Waived = p.score, p.waived.String()
	s.Rules, s.Message = p.rules.Story(), p.message.Story()
	switch p.cause {
	case CauseRule:
		s.Rule = p.rules.Why()
	case CauseMessage:
		s.Rule = p.message.Why()
	}
	if p.cause == CauseBan {
		s.Ban = p.ban.Story()
	}
	s.Excess = p.excess.story()
	s.Doubt, s.Campaign = p.doubt.story(), p.like.story()
	if p.paid {
		pass := identity.Subject{Kind: identity.KindSpravka, ID: p.pass}
		s.Pass = &StoryPass{ID: pass.String(), Cost: int(p.cost), Left: p.left}
	}
	return s
}

// StoryPlace is where an address is.
type StoryPlace struct {
	Country string `json:"country,omitempty"` // two letters
	ASN     uint32 `json:"asn,omitempty"`     // the autonomous system's number
	Org     string `json:"org,omitempty"`     // and its name
}

// explain adds where the address is, and which line of a list decided, where the list does not keep that with each entry.
func (r *Recent) explain(s Story, e *cbb.Entry) Story {
	if r.place != nil && len(s.Considered) > 0 {
		if sub, err := identity.ParseSubject(s.Considered[len(s.Considered)-1]); err == nil {
			addr, _ := sub.Addr()
			if at := r.place(addr); at != (StoryPlace{}) {
				s.Place = &at
			}
		}
	}
	if e != nil && e.Text == "" && len(s.Considered) > 0 {
		s.Entry.Text = r.Describe(e, s.Considered[len(s.Considered)-1])
	}
	return s
}

// Describe returns the list line that an entry stems from, for the client with that address subject ("ip:203.0.113.7");
// empty when it is not known. Not for the hot path.
func (r *Recent) Describe(e *cbb.Entry, subject string) string {
	if e.Text != "" || r.describe == nil {
		return e.Text
	}
	s, err := identity.ParseSubject(subject)
	if err != nil {
		return ""
	}
	addr, _ := s.Addr()
	return r.describe(e, addr)
}

// ring is the last records of a shard. It grows by chunks until it has as many as it may: what a site never fills takes no memory,
// and the garbage collector does not look through it.
type ring[T any] struct {
	chunks [][]T
	next   int
}

const ringChunk = 32

func (r *ring[T]) at(i int) *T { return &r.chunks[i/ringChunk][i%ringChunk] }

// turn returns the place of the record that comes next in a ring of so many, which is the oldest's once the ring is full, and its number.
func (r *ring[T]) turn(most int) (p *T, i int) {
	i = r.next
	if i/ringChunk == len(r.chunks) {
		r.chunks = append(r.chunks, make([]T, min(ringChunk, most-i)))
	}
	if r.next++; r.next == most {
		r.next = 0
	}
	return r.at(i), i
}

// all are the places that were made, those of no record among them.
func (r *ring[T]) all(yield func(*T) bool) {
	for _, c := range r.chunks {
		for i := range c {
			if !yield(&c[i]) {
				return
			}
		}
	}
}
