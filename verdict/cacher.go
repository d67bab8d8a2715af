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
	"antirobot/store"
	"antirobot/store/behind"
	"antirobot/verdict/bans"
	"antirobot/verdict/client"
	"antirobot/verdict/ledger"
	"antirobot/verdict/quota"
	"antirobot/verdict/reputation"
)

// ListMatcher is what the Cacher needs of the lists, which neither wait nor allocate. cbb.Lists implements it.
type ListMatcher interface {
	// Lookup fills m with the entries that match a request.
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
	// LocalLog is the file that keeps the bans, revocations and payments of a shared store, for starting while the store is
	// away; empty: there is none.
	LocalLog string

	Losses *store.Losses   // nil: losses of a shared store are written back, but not reported
	Hash   request.HashKey // by which paths and targets are hashed; the same at gateways and processors that work together
	Part   Part            // of the work that this process does

	Place  func(addr netip.Addr) StoryPlace // says where addresses are, for stories; nil: unknown
	Banned func(b *bans.Ban)                // is told of every ban that is made here, and must not wait; nil: nothing is told
}

// Cacher is the fast half: it answers from memory, in the request's own goroutine. Its parts each have one job: see their
// types. Safe for concurrent use.
type Cacher struct {
	*LiveBans
	*Replica // and Reputation
	*Passes  // and Revocations
	*Attacks
	*Loads
	paths  Paths
	exempt *exemptions
	recent *Recent

	*clock
	cfg     Config
	lists   ListMatcher
	claims  *client.Table
	log     zerolog.Logger
	logFile string
	local   atomic.Pointer[store.LocalLog]
	stale   atomic.Uint32 // one bit per follower of the shared store whose last attempt to read it failed
	bad     *metrics.Counter

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
	k := &clock{st: d.Store, read: d.Now}
	c := &Cacher{
		clock: k, cfg: cfg, lists: d.Lists, claims: client.NewTable(d.Hash), log: d.Log, logFile: d.LocalLog,
		exempt: newExemptions(cfg.Pass.Parts), recent: newRecent(&cfg, d.Lists, d.Place),
		bad: d.Metrics.NewCounter("antirobot_bad_records_total"),
	}
	c.paths.hash = c.claims.Key()
	c.Loads = &Loads{paths: &c.paths}
	f := newFeed(k, d.Part)
	grades := reputation.Options{Store: d.Store, Now: d.Now, Keep: cfg.Keep, Most: cfg.MaxVisitors}
	if f.queue != nil {
		grades.Publish = func(record []byte) { f.publishRecord(recordReputation, record) }
	}
	c.Replica = newReplica(&Reputation{
		feed: f, grades: reputation.NewTable(grades), people: bounded.NewExpiring[[16]byte, metAt](metPlaces),
	})
	c.LiveBans = &LiveBans{
		clock: k, table: bans.NewTable(cfg.MaxBans), losses: d.Losses, log: d.Log, local: &c.local, bad: c.bad,
		onOther: func(b *bans.Ban) { c.grades.Ban(b.Subject, c.now()) }, onBan: c.onBan(d),
	}
	c.LiveBans.writes = behind.New(c.LiveBans.write)
	revoked := &Revocations{clock: k, max: cfg.MaxRevocations, losses: d.Losses, local: &c.local}
	revoked.writes = behind.New(revoked.write)
	l := ledger.Options{Store: d.Store, Tariff: cfg.Pass, Most: cfg.MaxPasses, Losses: d.Losses, Now: c.passNow}
	c.Passes = &Passes{
		clock: k, Revocations: revoked, ledger: ledger.New(l), tariff: cfg.Pass, paths: &c.paths, seed: maphash.MakeSeed(),
		latest: bounded.NewExpiring[uint64, latestPass](latestMost),
	}
	c.Attacks = &Attacks{clock: k, cfg: cfg.Attack, bad: c.bad, seed: maphash.MakeSeed()}
	c.Attacks.step, _ = parseStep(cfg.Attack.Then)
	c.register(d.Metrics)
	return c, nil
}

// onBan returns the func that takes a ban which is made here.
func (c *Cacher) onBan(d Deps) func(b *bans.Ban) {
	var made [2]*metrics.Counter
	for s := range made {
		made[s] = d.Metrics.NewCounter(fmt.Sprintf("antirobot_bans_made_total{source=%q}", bans.Source(s))) //nolint:gosec // 0 or 1
	}
	return func(b *bans.Ban) {
		c.grades.Ban(b.Subject, c.now())
		made[b.Source].Inc()
		if d.Banned != nil {
			d.Banned(b)
		}
	}
}

// Decisions returns the recent decisions.
func (c *Cacher) Decisions() *Recent { return c.recent }

// Paths returns what is known about the paths of all services.
func (c *Cacher) Paths() *Paths { return &c.paths }

// Decide returns the verdict on a request. It never waits, and allocates nothing.
func (c *Cacher) Decide(d *Decision, v *request.View, id *identity.Identity, s *Settings) {
	d.reset(id, s.Mode)
	c.decide(d, v, id, s)
}

// DecideDemand is Decide for a request that demands the captcha (the test query of the XML interface): it is Robot
// unless it is Blocked, spends nothing and is not counted anywhere.
func (c *Cacher) DecideDemand(d *Decision, v *request.View, id *identity.Identity, s *Settings) {
	d.reset(id, s.Mode)
	d.Demand = true
	c.decide(d, v, id, s)
}

func (c *Cacher) decide(d *Decision, v *request.View, id *identity.Identity, s *Settings) {
	d.claims = c.claims
	switch {
	case s.Mode == Off:
		d.Cause = CauseOff
		return
	case c.exempt.isACME(v, id): // or the service loses its certificate
		d.Waived = WaivedWellKnown
		return
	}
	d.Degraded = c.stale.Load() != 0
	action, decided := c.listed(d, v, id, s)
	if decided {
		return
	}
	if d.Demand {
		d.say(Robot, CauseDemand, nil)
		return
	}
	stops := c.suspects(d, action, v, id, s)
	if stops {
		d.Waived = c.waived(d, v, id, s)
		stops = d.Waived == NotWaived
	}
	if !stops && c.attacked(d, v, id, s) {
		stops, d.Waived, d.Cause, d.Step = true, NotWaived, CauseAttack, c.Attacks.step
	}
	if stops {
		c.stop(d, v, id, s)
	}
}

// listed takes steps 1 to 3: lists and rules that decide whatever else is known. It returns what the rules ask for.
func (c *Cacher) listed(d *Decision, v *request.View, id *identity.Identity, s *Settings) (action RuleAction, decided bool) {
	m := &d.match
	c.lists.Lookup(m, v, id, s.Name)
	if m.OwnBlock != nil {
		d.say(Blocked, CauseOwnBlock, m.OwnBlock)
		return RuleNone, true
	}
	if s.Rules != nil {
		action = c.ask(d, v, id, s)
	}
	switch {
	case action == RuleBlock:
		d.say(Blocked, CauseRule, nil)
	case m.White != nil && !d.Demand:
		d.say(Human, CauseWhite, m.White)
	case m.White != nil:
		return action, false
	case m.Block != nil && !c.exempt.isWellKnown(v, id):
		d.say(Blocked, CauseBlockList, m.Block)
	case action >= RuleThrottle && !(action == RuleThrottle && c.exempt.isWellKnown(v, id)):
		d.say(Blocked, CauseRule, nil)
	default:
		return action, false
	}
	return action, true
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

// suspects is step 4 without the pass: the first of ban list, ban, rule, judge, quota, doubt and campaign that applies.
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
	switch {
	case c.exceeds(d, v, id, s):
		d.Cause = CauseQuota
	case c.doubted(d, v, id, s):
		d.Cause, d.Score = CauseDoubt, d.Doubt.Score
	case c.arrives(d, v, id, s):
		d.Cause = CauseCampaign
	default:
		return false
	}
	return true
}

// stop takes the rest of step 4: what answers a suspicion.
func (c *Cacher) stop(d *Decision, v *request.View, id *identity.Identity, s *Settings) {
	d.Verdict = Robot
	if d.unsure() {
		d.Verdict = Unsure
	}
	isLook := func() bool { return c.exempt.isLook(v, id, c.paths.read(c.paths.keyOf(s, v))) }
	looks := v.NamesIcon() && isLook() // browsers ask for the icon by themselves, so it costs nothing
	if !looks {
		c.pay(d, v, id, s)
		looks = d.Verdict != Human && isLook()
	}
	switch {
	case looks:
		d.Verdict, d.Waived = Human, WaivedLooks
	case d.Verdict != Human && c.exempt.isWellKnown(v, id):
		d.Verdict, d.Waived = Human, WaivedWellKnown
	}
}

// banned looks for the ban that stops a request. The strongest identity that stands for itself decides: bans on it stop
// the request; bans on weaker identities and on the address do not. An identity that costs nothing to create stands for
// nothing: a ban on it, or as a last resort on the address, stops it.
func (c *Cacher) banned(d *Decision, v *request.View, id *identity.Identity, s *Settings) bool {
	at := v.At.UnixNano()
	isClient := func(only uint32) bool { return only == clientOf(id, v) }
	for i, sub := range id.Subjects[:id.N] {
		if c.LiveBans.table.Lookup(&d.Ban, sub, s.Name, s.Threshold, at, isClient) {
			if d.Ban.Source == bans.SourceProcessor && isFree(sub.Kind) && c.holdsSpent(d, v, id) {
				return false
			}
			d.Own = sub.Kind != identity.KindIP || id.N == 1
			return true
		}
		if c.grade(sub, v.At) == reputation.New {
			continue
		}
		for _, weaker := range id.Subjects[i+1 : id.N] {
			if c.LiveBans.table.Lookup(&d.Ban, weaker, s.Name, s.Threshold, at, isClient) {
				d.Excused, d.Ban = sub, bans.Ban{}
				break
			}
		}
		return false
	}
	return false
}

// isFree reports whether a subject costs nothing to create, and so says nothing about who the visitor is.
func isFree(k identity.Kind) bool {
	return k == identity.KindIP || k == identity.KindI || k == identity.KindFuid
}

// exceeds looks for an excess that applies to the request. Subresources are not stopped: a visitor who has answered gets
// them anyway, and a page that is stopped needs none. A request that claims to be one must be known to be one.
func (c *Cacher) exceeds(d *Decision, v *request.View, id *identity.Identity, s *Settings) bool {
	if id.N == 0 || id.Partner || c.clients.Len() == 0 && c.networks.Len() == 0 {
		return false
	}
	// An honoured Authorization is a program's: it can't answer.
	if id.Winner().Kind == identity.KindAuth && c.paths.proved(c.paths.keyOf(s, v)) != readingDocument {
		return false
	}
	if !c.findExcess(&d.Excess, v, id, s) {
		return false
	}
	if c.isPart(v, s) {
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

// isPart reports whether the path is known to be a subresource.
func (c *Cacher) isPart(v *request.View, s *Settings) bool {
	return c.paths.read(c.paths.keyOf(s, v)) == readingPart
}

// doubted looks for a doubt about the request. It sets d.Doubt wherever there is one, and reports whether that stops the
// request.
func (c *Cacher) doubted(d *Decision, v *request.View, id *identity.Identity, s *Settings) bool {
	if id.Partner || !c.findDoubt(&d.Doubt, v, id, s) {
		return false
	}
	if !(d.Doubt.Score > s.Unsure) {
		d.Doubt = Doubt{}
		return false
	}
	if s.Step == StepNothing || c.isPart(v, s) {
		return false
	}
	d.Step = s.Step
	return true
}

// arrives reports whether a new visitor arrives like those of a campaign.
func (c *Cacher) arrives(d *Decision, v *request.View, id *identity.Identity, s *Settings) bool {
	if c.campaigns.Len() == 0 || s.Campaign == StepNothing || !nameless(&id.Subjects, id.N) || id.IBirth != 0 || id.Partner ||
		len(v.Method) == 0 {
		return false
	}
	f, agent := d.read(v, id)
	mark, ok := arrivalOf(f, methodOf(v.Method), agent, shapeOf(d.claims.Key(), v.Path), s.Group)
	if !ok {
		return false
	}
	x, _, ok := c.campaigns.Find(mark, v.At.UnixNano())
	if !ok || c.KnowsPlace(id.Subjects[id.N-1].ID, v.At) {
		return false
	}
	d.Campaign, d.Step = x, s.Campaign
	return true
}

// attacked reports whether the request is challenged because the site is under attack: its visitor is not Known.
func (c *Cacher) attacked(d *Decision, v *request.View, id *identity.Identity, s *Settings) bool {
	return c.challenges(id, v.At) && c.best(id.Subjects[:id.N], v.At) != reputation.Known && !c.isPart(v, s)
}

// waived returns why the verdict of d, which would stop the request, has no consequence.
func (c *Cacher) waived(d *Decision, v *request.View, id *identity.Identity, s *Settings) Waiver {
	w := s.when
	if w == nil {
		return NotWaived
	}
	switch d.Cause {
	case CauseBan:
		if d.Ban.Source != bans.SourceProcessor {
			return NotWaived
		}
	case CauseJudge, CauseQuota, CauseDoubt, CauseCampaign:
	default:
		return NotWaived
	}
	if !w.anywhere && !c.isWithin(w, v, id, s) {
		return WaivedNetwork
	}
	if w.path > 0 && c.costs.of(c.paths.keyOf(s, v)) < w.path {
		return WaivedPath
	}
	if !w.byLoad() {
		return NotWaived
	}
	if share := c.share(s, v.At.UnixNano()); share == 0 || id.N == 0 || !c.chosen(id, share) {
		return WaivedLoad
	}
	d.Busy = true
	return NotWaived
}

// isWithin reports whether a visitor's address is in one of the networks of a condition, or on one of its lists.
func (c *Cacher) isWithin(w *when, v *request.View, id *identity.Identity, s *Settings) bool {
	for _, n := range w.networks {
		if n.Contains(id.Addr) {
			return true
		}
	}
	for _, name := range w.lists {
		if c.lists.Listed(name, id.Addr, identity.Subject{}, s.Name, v.At) {
			return true
		}
	}
	return false
}

// Blocks returns the list entry that blocks a visitor now, whose request was decided before; empty: none does. Bans and
// rules are not asked. It allocates, and is not for each request.
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

// Preflight reports whether the preflight of a request that is stopped goes on to its service, whose answer is not seen
// here. It is called twice for a preflight that a balancer asks about and then sends here: count is set once.
func (c *Cacher) Preflight(v *request.View, id *identity.Identity, count bool) bool {
	addr := id.Subjects[id.N-1]
	return addr.Kind == identity.KindIP && c.exempt.isPreflight(v, addr.ID, c.KnownAt(addr.ID), count)
}

// Answered is called when a balancer reports what the service answered to a request: like answers that pass through the
// gateway, that shows what the path is.
func (c *Cacher) Answered(v *request.View, s *Settings, status int, contentType []byte) {
	if string(v.Method) != "GET" || status < 200 || status >= 300 || status == 204 {
		return
	}
	is := readingDocument
	switch typeOf(contentType) {
	case TypePart, TypeScript:
		is = readingPart
	case TypeData, TypeFeed:
		is = readingData
	case TypeRanges:
		return
	}
	c.paths.answered(c.paths.keyOf(s, v), is)
}

// NoDocument reports whether answers have shown that a request is not for a document: but for a subresource, or for data
// for a script or a program.
func (c *Cacher) NoDocument(v *request.View, s *Settings) bool {
	switch c.paths.proved(c.paths.keyOf(s, v)) {
	case readingPart:
		return true
	case readingData:
		k := v.Kind()
		return k == request.KindScript || k == request.KindAPI
	}
	return false
}

// Counted records what a decided request counts as, for operators.
func (c *Cacher) Counted(rid request.ID, d *Decision, e *Event, s *Settings) {
	if e.Kind == EventRequest {
		is, why := c.paths.Count(e, s.Group)
		c.recent.amend(rid, d, func(p *record) { p.count, p.why = is, why })
	}
}

// Required records the step that the service asked for instead of the answer to a decided request.
func (c *Cacher) Required(rid request.ID, d *Decision, step string) {
	c.recent.amend(rid, d, func(p *record) { p.required = step })
}

// Forget forgets what is known of a subject here, except for its bans. It visits all records, so it is for operators.
func (c *Cacher) Forget(s identity.Subject) {
	c.grades.Forget(s)
	c.doubts.Drop(func(k doubtKey) bool { return k.subject == s })
	c.recent.forget(s)
}

// Health returns nil, or the error that keeps the Cacher from reading or writing its store.
func (c *Cacher) Health() error {
	var errs []error
	for _, w := range c.writers() {
		errs = append(errs, w.Err())
	}
	if c.stale.Load() != 0 {
		errs = append(errs, errors.New("verdict: the shared store could not be read"))
	}
	return errors.Join(errs...)
}
