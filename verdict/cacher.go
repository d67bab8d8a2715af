package verdict

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/bounded"
	"antirobot/cbb"
	"antirobot/identity"
	"antirobot/request"
	"antirobot/spravka"
	"antirobot/store"
	"antirobot/store/behind"
	"antirobot/verdict/bans"
	"antirobot/verdict/client"
	"antirobot/verdict/ledger"
	"antirobot/verdict/standing"
)

// ListMatcher is what the Cacher needs of the lists, which neither wait nor allocate. cbb.Lists implements it.
type ListMatcher interface {
	// Lookup fills m with what the lists say about a request.
	Lookup(m *cbb.Match, v *request.View, id *identity.Identity, service string)
	// Listed reports whether the list called name contains addr or sub; one of the two may be zero.
	Listed(name string, addr netip.Addr, sub identity.Subject, service string, at time.Time) bool
}

// Scorer is the inline judge of services with Sync. It answers from memory, and neither waits nor allocates; a score
// above the service's threshold means robot. d is the decision so far: its event holds what the lists know of the
// request.
type Scorer interface {
	Score(d *Decision, v *request.View, id *identity.Identity, s *Settings) (score float32)
}

// Deps is what a Cacher works with. Store, Lists and Metrics are required.
type Deps struct {
	Store   store.Store
	Lists   ListMatcher
	Now     func() time.Time // nil: time.Now
	Log     zerolog.Logger
	Metrics *metrics.Set
	// LocalLog is the file that keeps what a shared store has, for starting while the store is away; empty: there is none.
	LocalLog string

	Losses *store.Losses   // nil: losses of a shared store are written back, but not reported
	Hash   request.HashKey // by which paths and targets are hashed; gateways and processors that work together have the same
	Secret uint64          // decides which addresses share a place where people are met; always the same in a replay

	Part Part // of the work that this process does

	Place  func(addr netip.Addr) StoryPlace // says where addresses are, for stories; nil: nobody knows
	Banned func(b *bans.Ban)                // is told of every ban that is made here, and must not wait; nil: nobody is
}

// Cacher is the fast half: it answers from memory, in the request's own goroutine. Safe for concurrent use.
type Cacher struct {
	cfg     Config
	st      store.Store
	lists   ListMatcher
	now     func() time.Time
	log     zerolog.Logger
	local   atomic.Pointer[store.LocalLog]
	logFile string
	losses  *store.Losses
	tell    func(b *bans.Ban)

	bans       *bans.Table
	banWrites  *behind.Writer[bans.Key]
	ledger     *ledger.Ledger
	revoked    *revocations
	standing   *standing.Table
	latest     *latest
	recent     *Recent
	readers    readers
	doubts     doubts
	campaigns  campaigns
	met        *met
	said       *conclusions
	paths      Paths
	costs      costs
	loads      loads
	attack     attack
	spared     *bounded.Counts[sparedOf]
	preflights preflights
	claims     *client.Table

	attackStep Step
	skew       skewed
	jumps      atomic.Uint64 // of the clock, as far as they have been handled
	stale      atomic.Uint32 // one bit per follower of the shared store whose last attempt to read it failed
	badRecords *metrics.Counter
	bansMade   [2]*metrics.Counter

	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// New makes a Cacher. It can decide at once; Start fills it from the store.
func New(cfg Config, d Deps) (*Cacher, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("verdict: %w", err)
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	c := &Cacher{
		cfg: cfg, st: d.Store, lists: d.Lists, now: d.Now, log: d.Log, logFile: d.LocalLog, losses: d.Losses, tell: d.Banned,
		bans:    bans.NewTable(cfg.MaxBans),
		latest:  newLatest(),
		readers: newReaders(),
		doubts:  newDoubts(tableSize),
		claims:  client.NewTable(d.Hash),
		met:     &met{secret: d.Secret},
		spared:  bounded.NewCounts[sparedOf](time.Minute, sparedPlaces),
		said:    newConclusions(d.Part),
		recent:  newRecent(&cfg.Decisions, describer(d.Lists)),
	}
	c.revoked = newRevocations(d.Store, cfg.MaxRevocations, d.Now, d.Losses, c.logRevocation)
	c.ledger = ledger.New(ledger.Options{Store: d.Store, Tariff: cfg.Pass, Most: cfg.MaxPasses, Losses: d.Losses, Now: c.passNow})
	c.recent.place = d.Place
	if t, ok := d.Lists.(interface {
		Decided(e *cbb.Entry, addr netip.Addr)
	}); ok {
		c.recent.decided = t.Decided
	}
	var tell func(s identity.Subject, record []byte)
	if c.said.tells() {
		tell = c.tellStanding
	}
	c.standing = standing.New(d.Store, cfg.Standing, d.Now, tell)
	c.attack.seed, c.preflights.seed = maphash.MakeSeed(), maphash.MakeSeed()
	c.attackStep, _ = parseStep(cfg.Attack.Then)
	c.banWrites = behind.New(c.writeBan)
	c.register(d.Metrics)
	return c, nil
}

// describer returns the method by which lists print their entries; nil for lists that can't say more than the entry
// does.
func describer(lists ListMatcher) func(e *cbb.Entry, addr netip.Addr) string {
	if d, ok := lists.(interface {
		Describe(e *cbb.Entry, addr netip.Addr) string
	}); ok {
		return d.Describe
	}
	return nil
}

// Allowance returns what is known of a pass; false if it has paid nothing on this node.
func (c *Cacher) Allowance(id [16]byte) (ledger.Allowance, bool) { return c.ledger.Allowance(id) }

// Decisions returns the recent decisions.
func (c *Cacher) Decisions() *Recent { return c.recent }

// Decide returns the verdict on a request. It never waits, and allocates nothing.
func (c *Cacher) Decide(d *Decision, v *request.View, id *identity.Identity, s *Settings) {
	c.decide(d, v, id, s, false)
}

// DecideDemand is Decide for a request that demands the captcha (the test query of the XML interface): it is Robot
// unless it is Blocked, spends nothing and is not counted anywhere.
func (c *Cacher) DecideDemand(d *Decision, v *request.View, id *identity.Identity, s *Settings) {
	c.decide(d, v, id, s, true)
}

func (c *Cacher) decide(d *Decision, v *request.View, id *identity.Identity, s *Settings, demand bool) {
	d.reset(id, s.Mode)
	d.Demand, d.claims = demand, c.claims
	if s.Mode == Off {
		d.Cause = CauseOff
		return
	}
	if v.IsACMEChallenge() && c.mayAskACME(v, id) { // whatever anybody wants of its sender, or the service loses its certificate
		d.Waived = WaivedWellKnown
		return
	}
	d.Degraded = c.stale.Load() != 0
	m := &d.match
	c.lists.Lookup(m, v, id, s.Name)
	if m.OwnBlock != nil {
		d.say(Blocked, CauseOwnBlock, m.OwnBlock)
		return
	}
	action := RuleNone
	if s.Rules != nil {
		action = c.ask(d, v, id, s)
	}
	switch {
	case action == RuleBlock:
		d.say(Blocked, CauseRule, nil)
		return
	case m.White != nil && !demand:
		d.say(Human, CauseWhite, m.White)
		return
	case m.White != nil:
	case m.Block != nil && !c.wellKnown(v, id):
		d.say(Blocked, CauseBlockList, m.Block)
		return
	case action >= RuleThrottle && !(action == RuleThrottle && c.wellKnown(v, id)):
		d.say(Blocked, CauseRule, nil)
		return
	}
	if demand {
		d.say(Robot, CauseDemand, nil)
		return
	}
	suspect := c.suspects(d, action, v, id, s)
	if suspect {
		d.Waived = c.waived(d, v, id, s)
		suspect = d.Waived == NotWaived
	}
	if !suspect && c.attacked(d, v, id, s) {
		suspect, d.Waived, d.Cause = true, NotWaived, CauseAttack
	}
	if suspect {
		d.Verdict = Robot
		if d.unsure() {
			d.Verdict = Unsure
		}
		looks := v.NamesIcon() && c.looksRight(v, id, s) // browsers ask for the icon by themselves, so that it costs nothing
		if !looks {
			c.pay(d, v, id, s)
			looks = d.Verdict != Human && c.looksRight(v, id, s)
		}
		switch {
		case looks:
			d.Verdict, d.Waived = Human, WaivedLooks
		case d.Verdict != Human && c.wellKnown(v, id):
			d.Verdict, d.Waived = Human, WaivedWellKnown
		}
	}
}

// ask runs the service's rules, which can see whether a ban has already said robot.
func (c *Cacher) ask(d *Decision, v *request.View, id *identity.Identity, s *Settings) RuleAction {
	so := Human
	if d.match.Ban != nil || c.banned(d, v, id, s) {
		so = Robot
	}
	d.Ban, d.Own, d.Excused = bans.Ban{}, false, identity.Subject{}
	d.Rules = d.room(0)
	s.Rules.Judge(d.Rules, v, id, s, so)
	return d.Rules.Action
}

func (d *Decision) say(v Verdict, c Cause, e *cbb.Entry) { d.Verdict, d.Cause, d.Entry = v, c, e }

// suspects is step 4 without the pass: the first of ban list, ban, rule, judge, budget, doubt and campaign that
// speaks.
func (c *Cacher) suspects(d *Decision, action RuleAction, v *request.View, id *identity.Identity, s *Settings) bool {
	if e := d.match.Ban; e != nil {
		d.say(Robot, CauseBanList, e)
		return true
	}
	if c.banned(d, v, id, s) {
		d.Cause, d.Score = CauseBan, d.Ban.Score
		return true
	}
	if action == RuleRobot {
		d.Cause = CauseRule
		return true
	}
	if s.Sync && s.Scorer != nil {
		if score := s.Scorer.Score(d, v, id, s); score > s.Threshold {
			d.Cause, d.Score = CauseJudge, score
			return true
		}
	}
	if c.exceeds(d, v, id, s) {
		d.Cause = CauseQuota
		return true
	}
	if c.doubted(d, v, id, s) {
		d.Cause, d.Score = CauseDoubt, d.Doubt.Score
		return true
	}
	return c.arrives(d, v, id, s)
}

// banned looks for the ban that stops a request. The strongest identity that stands for itself decides: bans on it stop
// the request; bans on weaker identities and on the address do not. An identity that costs nothing to create stands for
// nothing: a ban on it, or as a last resort on the address, stops it.
func (c *Cacher) banned(d *Decision, v *request.View, id *identity.Identity, s *Settings) bool {
	at := v.At.UnixNano()
	isClient := func(only uint32) bool { return only == clientOf(id, v) }
	for i := range id.N {
		sub := id.Subjects[i]
		if c.bans.Lookup(&d.Ban, sub, s.Name, s.Threshold, at, isClient) {
			if d.Ban.Source == bans.SourceProcessor && freeToMake(sub.Kind) && c.holdsPass(d, v, id) {
				return false
			}
			d.Own = sub.Kind != identity.KindIP || id.N == 1
			return true
		}
		if c.standsAlone(sub, v.At) {
			c.excuse(d, sub, id.Subjects[i+1:id.N], s, at, isClient)
			return false
		}
	}
	return false
}

// freeToMake reports whether a subject costs nothing to create, and so says nothing about who the visitor is.
func freeToMake(k identity.Kind) bool {
	return k == identity.KindIP || k == identity.KindI || k == identity.KindFuid
}

// standsAlone reports whether an identity counts in its own right, whatever its address has done.
func (c *Cacher) standsAlone(sub identity.Subject, at time.Time) bool {
	switch {
	case sub.Kind.Vouched():
		return true
	case standing.Earns(sub.Kind):
		return c.standing.Counts(sub, at)
	}
	return false
}

// excuse records the identity that bans on something weaker did not stop.
func (c *Cacher) excuse(d *Decision, who identity.Subject, weaker []identity.Subject, s *Settings, at int64, isClient func(only uint32) bool) {
	for _, sub := range weaker {
		if c.bans.Lookup(&d.Ban, sub, s.Name, s.Threshold, at, isClient) {
			d.Excused, d.Ban = who, bans.Ban{}
			return
		}
	}
}

// Issued tells the ledger about a new pass and who has just earned it. With a shared store it takes the first lease,
// without waiting.
func (c *Cacher) Issued(p *spravka.Pass, v *request.View, id *identity.Identity) {
	c.ledger.Issued(p, c.passNow())
	if !id.Partner {
		c.latest.put(p, v, id)
	}
}

// Counted records what a decided request counts as, so that an operator who asks why can see it.
func (c *Cacher) Counted(rid request.ID, d *Decision, e *Event, s *Settings) {
	if e.Kind != EventRequest {
		return
	}
	is, why := c.paths.Count(e, s.Group)
	c.recent.counted(rid, d, is, why)
}

// Required records the step that the service asked for instead of the answer to a decided request.
func (c *Cacher) Required(rid request.ID, d *Decision, step string) {
	c.recent.amend(rid, d, func(p *record) { p.required = step })
}

// Health returns nil, or the error that keeps the Cacher from reading or writing its store.
func (c *Cacher) Health() error {
	errs := []error{c.banWrites.Err(), c.ledger.Writes().Err(), c.revoked.behind.Err(), c.standing.Writes().Err()}
	if c.stale.Load() != 0 {
		errs = append(errs, errors.New("verdict: the shared store could not be read"))
	}
	return errors.Join(errs...)
}
