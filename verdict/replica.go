package verdict

import (
	"net/netip"
	"sync/atomic"
	"time"

	"antirobot/bounded"
	"antirobot/identity"
	"antirobot/request"
	"antirobot/verdict/bans"
	"antirobot/verdict/quota"
	"antirobot/verdict/replicate"
	"antirobot/verdict/reputation"
)

// tableSize bounds each of the tables of decisions about clients and networks.
const tableSize = 200_000

// maxCampaigns bounds the table of campaigns.
const maxCampaigns = 256

// Replica is what the processors have decided, except for bans. Safe for concurrent use.
type Replica struct {
	*Reputation
	clients   *bounded.Expiring[readerKey, Excess]
	networks  *bounded.Expiring[identity.Prefix, Excess]
	readers   *bounded.Expiring[readerKey, reader]
	doubts    *bounded.Expiring[doubtKey, Doubt]
	campaigns *bounded.Expiring[uint64, Campaign]
	lastBeat  atomic.Pointer[beat] // nil: none was heard
}

func newReplica(r *Reputation) *Replica {
	return &Replica{
		Reputation: r,
		clients:    bounded.NewExpiring[readerKey, Excess](tableSize),
		networks:   bounded.NewExpiring[identity.Prefix, Excess](tableSize),
		readers:    bounded.NewExpiring[readerKey, reader](tableSize),
		doubts:     bounded.NewExpiring[doubtKey, Doubt](tableSize),
		campaigns:  bounded.NewExpiring[uint64, Campaign](maxCampaigns),
	}
}

func (r *Replica) sweep(at int64) {
	r.clients.Sweep(at)
	r.networks.Sweep(at)
	r.readers.Sweep(at)
	r.doubts.Sweep(at)
	r.campaigns.Sweep(at)
	r.people.Sweep(at)
}

// apply applies one message of the feed, and reports whether it is well-formed. A kind of a later version is passed over.
func (r *Replica) apply(msg []byte) bool {
	return replicate.Each(msg, func(kind byte, record []byte) bool {
		r.applied.Add(1)
		var apply func()
		read := func(x coder, f func()) bool {
			c := replicate.Reader(record, r.skewNow())
			x.code(c)
			apply = f
			return c.OK()
		}
		var ok bool
		switch kind {
		case recordExcess:
			var x Excess
			ok = read(&x, func() { r.putExcess(&x) })
		case recordReader:
			var x readerRecord
			ok = read(&x, func() { r.putReader(&x) })
		case recordDoubt:
			var d Doubt
			ok = read(&d, func() { r.putDoubt(&d) })
		case recordCampaign:
			var x Campaign
			ok = read(&x, func() { r.putCampaign(&x) })
		case recordPlace:
			var p place
			ok = read(&p, func() { r.applyPlace(&p) })
		case recordBeat:
			var b beat
			ok = read(&b, func() { r.heardBeat(&b) })
		case recordReputation:
			return r.grades.Merge(record)
		default:
			return true
		}
		if ok {
			apply()
		}
		return ok
	})
}

// Beat tells the gateways that this processor works, and how old the events are that it judges.
func (r *Replica) Beat(age time.Duration) { r.publish(recordBeat, &beat{r.now(), age}) }

func (r *Replica) heardBeat(b *beat) {
	if now := r.now(); b.at.After(now) {
		b.at = now
	}
	if last := r.lastBeat.Load(); last == nil || !b.at.Before(last.at) {
		r.lastBeat.Store(b)
	}
}

// Heard returns when a processor was last heard of, and how old the events were that it judged.
func (r *Replica) Heard() (at time.Time, age time.Duration) {
	if b := r.lastBeat.Load(); b != nil {
		return b.at, b.age
	}
	return time.Unix(0, 0), 0
}

// Excess says until when a client has to be checked because more was read than the quota allows, or all new clients of a
// network. It is not a ban: it does not grow with repetition, and a pass answers it.
type Excess struct {
	quota.Excess
	Client uint32 // Event.Client; 0: clients of the network without a record
}

func (x *Excess) code(c *replicate.Codec) {
	c.Prefix(&x.Prefix)
	replicate.Uint(c, &x.Scope)
	for _, is := range [...]*bool{&x.Jar, &x.New, &x.Bare} {
		c.Bool(is)
	}
	c.Time(&x.Until)
	for _, n := range [...]*uint32{&x.Client, &x.Read, &x.Most} {
		replicate.Uint(c, n)
	}
	c.Text(&x.Window, bans.MaxName)
	c.Fail(x.Scope > quota.ScopeGrade)
}

// Exceeds records that more was read than the quota allows.
func (r *Replica) Exceeds(x *Excess) {
	r.putExcess(x)
	r.publish(recordExcess, x)
}

func (r *Replica) putExcess(x *Excess) {
	if x.Client == 0 {
		r.networks.Put(x.Prefix, x.Until, *x)
	} else {
		r.clients.Put(readerKey{x.Client, x.Prefix.Group}, x.Until, *x)
	}
}

// findExcess sets x to the excess that applies to a request.
func (r *Replica) findExcess(x *Excess, v *request.View, id *identity.Identity, s *Settings) (ok bool) {
	at, k := v.At.UnixNano(), readerKey{clientOf(id, v), s.Group}
	if *x, _, ok = r.clients.Find(k, at); ok {
		return true
	}
	if r.networks.Len() == 0 {
		return false
	}
	if known, _, _ := r.readers.Find(k, at); known.record || r.best(id.Subjects[:id.N], v.At) > reputation.New {
		return false
	}
	var around [4]identity.Prefix
	for _, p := range around[:identity.Prefixes(&around, id.Subjects[id.N-1].ID, s.Group)] {
		if *x, _, ok = r.networks.Find(p, at); ok {
			return true
		}
	}
	return false
}

// readerKey names a client at the services of a group.
type readerKey struct{ client, group uint32 }

// reader is a client that has a record of loading subresources, or has used half of its quota.
type reader struct{ record, near bool }

type readerRecord struct {
	readerKey
	reader
	until time.Time
}

func (x *readerRecord) code(c *replicate.Codec) {
	replicate.Uint(c, &x.client)
	replicate.Uint(c, &x.group)
	c.Bool(&x.record)
	c.Bool(&x.near)
	c.Time(&x.until)
}

// KnowReader records that a client has a record of loading subresources, or that it has used half of its quota.
func (r *Replica) KnowReader(client, group uint32, record, near bool, until time.Time) {
	x := readerRecord{readerKey{client, group}, reader{record, near}, until}
	r.putReader(&x)
	r.publish(recordReader, &x)
}

func (r *Replica) putReader(x *readerRecord) {
	is, until, at := x.reader, x.until, r.now().UnixNano()
	if was, end, ok := r.readers.Find(x.readerKey, at); ok && was.record && !is.record {
		is.record, until = true, end
	}
	r.readers.Put(x.readerKey, until, is)
	if is.record {
		if over, _, ok := r.clients.Find(x.readerKey, at); ok && over.Bare {
			r.clients.Remove(x.readerKey)
		}
	}
}

// IsNear reports whether a client has used half of its quota: its browser's prefetches are answered 503, so that it is not
// challenged for pages that were never opened.
func (r *Replica) IsNear(v *request.View, id *identity.Identity, s *Settings) bool {
	known, _, _ := r.readers.Find(readerKey{clientOf(id, v), s.Group}, v.At.UnixNano())
	return known.near
}

// Doubt says that a subject may be a robot: its score is above that of people, and too low for a ban. Like a ban it applies
// to requests with its subject, unless they bring a stronger identity that stands for itself; but one on an address applies
// only to requests that bring nothing else. It is a plain value.
type Doubt struct {
	Subject identity.Subject
	Group   uint32 // the services it is known at; see Settings.Group
	Until   time.Time
	Score   float32
	Factors [bans.MaxFactors]bans.Factor // the strongest first; an empty name ends them
}

type doubtKey struct {
	subject identity.Subject
	group   uint32
}

func (d *Doubt) code(c *replicate.Codec) {
	c.Subject(&d.Subject)
	replicate.Uint(c, &d.Group)
	c.Time(&d.Until)
	c.Float(&d.Score)
	bans.CodeFactors(c, &d.Factors)
	c.Fail(!(d.Score >= 0 && d.Score <= 1))
}

// Doubt records a doubt from now on; one without a time takes back an earlier one.
func (r *Replica) Doubt(d *Doubt) {
	if r.putDoubt(d) {
		r.publish(recordDoubt, d)
	}
}

// putDoubt reports whether it changed anything.
func (r *Replica) putDoubt(d *Doubt) bool {
	k := doubtKey{d.Subject, d.Group}
	if d.Until.IsZero() {
		return r.doubts.Remove(k)
	}
	return r.doubts.Put(k, d.Until, *d)
}

// findDoubt sets d to the doubt that applies to a request.
func (r *Replica) findDoubt(d *Doubt, v *request.View, id *identity.Identity, s *Settings) (ok bool) {
	if r.doubts.Len() == 0 {
		return false
	}
	for i, sub := range id.Subjects[:id.N] {
		if sub.Kind == identity.KindIP && i > 0 {
			return false
		}
		if *d, _, ok = r.doubts.Find(doubtKey{sub, s.Group}, v.At.UnixNano()); ok {
			return true
		}
		if r.grade(sub, v.At) > reputation.New {
			return false
		}
	}
	return false
}

// Campaign is a fingerprint with which at present nearly only robots arrive at the services of a group. Robots at many
// addresses are new at each of them, but arrive alike: until the campaign is over, the first page of such a visitor is
// challenged. It is a plain value.
type Campaign struct {
	Mark           uint64    // see Event.Arrival
	Until          time.Time // zero: it is over
	Robots, People uint32    // among the arrivals of the last hours
}

func (x *Campaign) code(c *replicate.Codec) {
	replicate.Uint(c, &x.Mark)
	c.Time(&x.Until)
	replicate.Uint(c, &x.Robots)
	replicate.Uint(c, &x.People)
}

// AskArrivals has visitors challenged from now on that arrive like a campaign.
func (r *Replica) AskArrivals(x *Campaign) {
	r.putCampaign(x)
	r.publish(recordCampaign, x)
}

func (r *Replica) putCampaign(x *Campaign) {
	if x.Until.IsZero() {
		r.campaigns.Remove(x.Mark)
	} else {
		r.campaigns.Put(x.Mark, x.Until, *x)
	}
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

// Short names the reason of a check as words.Reason reads it.
func (x *StoryExcess) Short() string { return "quota: " + x.Scope }

// story returns the excess as JSON shows it; nil if there is none.
func (x *Excess) story() *StoryExcess {
	if x.Until.IsZero() {
		return nil
	}
	s := &StoryExcess{
		Scope: x.Scope.String(), Until: x.Until.UTC(), Read: x.Read, Most: x.Most, Window: x.Window, OneClient: x.Client != 0,
	}
	if x.Prefix.Bits > 0 {
		addr, bits := netip.AddrFrom16(x.Prefix.ID), int(x.Prefix.Bits)
		if addr.Is4In6() && bits >= 96 {
			addr, bits = addr.Unmap(), bits-96
		}
		s.Network = netip.PrefixFrom(addr, bits).String()
	}
	return s
}

// StoryDoubt is a Doubt as JSON shows it.
type StoryDoubt struct {
	Subject string             `json:"subject"`
	Until   time.Time          `json:"until"`
	Score   float32            `json:"score"`
	Factors map[string]float32 `json:"factors,omitempty"`
	Amounts map[string]float32 `json:"amounts,omitempty"` // what each factor added to the score, in log-odds
}

// Doubtful reports whether there was a doubt about the visitor from which nothing followed (verdict.unsure.then: nothing).
func (s *Story) Doubtful() bool {
	return s.Doubt != nil && s.Pass == nil && s.Verdict == Human.String() && s.Cause == CauseNone.String()
}

// story returns the doubt as JSON shows it; nil if there is none.
func (d *Doubt) story() *StoryDoubt {
	if d.Subject.Kind == identity.KindNone {
		return nil
	}
	s := &StoryDoubt{Subject: d.Subject.String(), Until: d.Until.UTC(), Score: d.Score}
	s.Factors, s.Amounts = bans.FactorMaps(&d.Factors)
	return s
}

// StoryAlike is a Campaign as JSON shows it.
type StoryAlike struct {
	Robots uint32    `json:"robots"` // among the arrivals of the last hours
	People uint32    `json:"people"` // among the same
	Until  time.Time `json:"until"`
}

// story returns the campaign as JSON shows it; nil if there is none.
func (x *Campaign) story() *StoryAlike {
	if x.Until.IsZero() {
		return nil
	}
	return &StoryAlike{Robots: x.Robots, People: x.People, Until: x.Until.UTC()}
}
