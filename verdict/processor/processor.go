// Package processor judges requests off their path: it bans clients that are faster than a service allows, and clients
// whose factors a formula takes for a robot's.
//
// It reads the verdict's events, and its conclusions are bans. An event goes through session (what is known of one
// subject, over all services), group (of those it belongs to) and pace (what the limits of a service count), and, when
// an evaluation is due, through the factors to the formula. All factors are in one table: factors_table.go. What is learnt of a service's visitors
// as a whole is in rooms beside this one: how newcomers arrive (newcomers)
// and what their browsers send (browsers).
//
// Invariants:
//  1. Offer never blocks and never allocates: what does not fit is dropped and counted.
//  2. Memory is bounded by the queue and max_sessions; evicted sessions are counted.
//  3. White-listed requests, requests of a service whose mode is off, blocked ones and sub-resources do not count as
//     pace. A challenged request does: a client that hammers at the captcha stays banned. A sub-resource that was
//     answered with a document was a page, whatever it claimed to be.
//  4. A request is charged to its winner; to the crowd of its address, if it brought cookies; and to its network. A
//     network is never banned, its counts are factors. The first two requests of a subject always pass: it is first
//     evaluated with its second one.
//  5. An address is many people, so its limits are multiples of a subject's. Without cookies: one for each User-Agent
//     seen, up to address_agents (they cost nothing to forge), and one for each subject that the address has
//     established. With cookies: crowd_factor, plus one for each established subject. A request that its subject's own
//     ban stops is not charged to the crowd: one robot in an office is banned alone.
//  6. Process uses no clock but the event's time and waits for nothing: replaying the same events makes the same bans,
//     as long as no table is full.
//  7. What is not known is NaN and weighs nothing: fields of a recorded line or of a partner's server, fields that
//     nobody at the service sends.
package processor

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/bounded"
	"antirobot/identity"
	"antirobot/request"
	"antirobot/verdict"
	"antirobot/verdict/browsers"
	"antirobot/verdict/formula"
	"antirobot/verdict/label"
	"antirobot/verdict/learn"
	"antirobot/verdict/quota"
	"antirobot/verdict/training"
)

// Processor is the slow half. It is a verdict.Sink and a verdict.Scorer. Safe for concurrent use.
type Processor struct {
	cfg      Config
	keeper   BanKeeper
	log      zerolog.Logger
	queues   []*queue
	clock    *atomic.Uint32 // the second of the latest event
	sessions *bounded.Table[identity.Subject, session]
	trails   *bounded.Table[identity.Subject, trail]
	paces    paces
	quota    *quota.Quota
	polls    polls
	scripts  scripts
	secret   uint64
	training *training.Log // nil: no training log is kept
	labels   *label.Table
	learner  *learn.Collector // nil: nothing is learnt
	formula  *formula.Live
	observer Observer
	vectors  sync.Pool
	recalls  chan recallTask
	running  atomic.Bool // recalls are being made
	services atomic.Pointer[[]*rates]
	exempt   []netip.Prefix
	warned   atomic.Int64 // unix seconds of the last warning about an exempt address

	offered, shed, unknown, bans, banErrors, spared, evaluations, dropped, recalled, askErrors *metrics.Counter

	life              atomic.Int32 // made, started, closed
	stop, stopErrands chan struct{}
	ready             chan struct{} // closed when the workers may begin
	judged            func(e *verdict.Event)
	wg, recallsDone   sync.WaitGroup
}

// Observer is told about each evaluation. The factors are valid during the call only.
type Observer func(sub identity.Subject, service uint16, at time.Time, factors []float32, score float32)

// Deps is what a Processor works with. Keeper and Metrics are required.
type Deps struct {
	Keeper   BanKeeper
	Formula  *formula.Live          // loaded with FactorNames, the model may be replaced at any time; nil: only the limits ban
	Training string                 // directory of the training log; empty: none is kept
	Labels   *label.Table           // what operators and services say of subjects; nil: nothing
	Learner  *learn.Collector       // learns from evaluations; nil: nobody
	Observer Observer               // nil: nobody
	Judged   func(e *verdict.Event) // told of each event that a worker has judged; may be called by several at once. nil: nobody
	Waits    bool                   // the workers begin when Recall has ended
	Secret   uint64                 // decides which networks are asked what the site's people are like; always the same in a replay
	Log      zerolog.Logger
	Metrics  *metrics.Set
}

// The values of life.
const (
	made int32 = iota
	started
	closed
)

// rates is a service in the form that the judgement needs.
type rates struct {
	*verdict.Settings
	limits []limit
	calls  []limit             // of calls of scripts and apps
	sent   *[2]browsers.Fields // directly, and through trusted proxies
	people *people             // of all settings with the name
	from   uint32              // a subject's pages count for the limits once there are more than this
}

// fieldsOf returns which fields arrive by the way of the event.
func (r *rates) fieldsOf(e *verdict.Event) *browsers.Fields {
	if e.Direct {
		return &r.sent[0]
	}
	return &r.sent[1]
}

type limit struct {
	verdict.Limit
	reason, factor string
}

// New makes a Processor that knows no services yet: Prepare adds them. It opens the training log.
func New(cfg Config, d Deps) (*Processor, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("processor: %w", err)
	}
	set, places, clock := d.Metrics, newSeed(), new(atomic.Uint32)
	p := &Processor{
		cfg: cfg, keeper: d.Keeper, formula: d.Formula, observer: d.Observer, labels: d.Labels, learner: d.Learner, secret: d.Secret, log: d.Log, stop: make(chan struct{}), stopErrands: make(chan struct{}),
		ready: make(chan struct{}), judged: d.Judged, clock: clock,
		sessions:  bounded.NewTable[identity.Subject, session](cfg.MaxSessions, places.subject, clock),
		trails:    bounded.NewTable[identity.Subject, trail](max(bounded.Shards, cfg.MaxSessions/trailsPart), places.subject, clock),
		paces:     newPaces(max(bounded.Shards, cfg.MaxSessions/4), places.pace, clock),
		quota:     quota.New(cfg.Quota, cfg.MaxSessions/readersPart, clock),
		offered:   set.NewCounter("antirobot_events_offered_total"),
		shed:      set.NewCounter("antirobot_events_shed_total"),
		unknown:   set.NewCounter("antirobot_events_unknown_service_total"),
		bans:      set.NewCounter("antirobot_processor_bans_total"),
		banErrors: set.NewCounter("antirobot_processor_ban_errors_total"),
		spared:    set.NewCounter("antirobot_processor_spared_total"),

		evaluations: set.NewCounter("antirobot_evaluations_total"),
		dropped:     set.NewCounter("antirobot_processor_recalls_dropped_total"),
		recalled:    set.NewCounter("antirobot_bans_recalled_total"),
		askErrors:   set.NewCounter("antirobot_processor_store_errors_total"),
		recalls:     make(chan recallTask, recallQueue),
	}
	p.vectors.New = func() any { return new(vector) }
	var err error
	for _, n := range cfg.Exempt {
		network, _ := request.ParseNetwork(n) // validated
		p.exempt = append(p.exempt, network)
	}
	if !d.Waits {
		close(p.ready)
	}
	for range cfg.Workers {
		p.queues = append(p.queues, newQueue(cfg.Queue/cfg.Workers))
	}
	set.NewGauge("antirobot_sessions", func() float64 { return float64(p.sessions.Len()) })
	set.NewGauge("antirobot_sessions_evicted_total", func() float64 { return float64(p.sessions.Evicted()) })
	set.NewGauge("antirobot_readers", func() float64 { return float64(p.quota.Len()) })
	set.NewGauge("antirobot_readers_evicted_total", func() float64 { return float64(p.quota.Evicted()) })
	set.NewGauge("antirobot_events_waiting", func() float64 {
		n := 0
		for _, q := range p.queues {
			n += q.waiting()
		}
		return float64(n)
	})
	if d.Training != "" && cfg.Enabled {
		d := training.Deps{Dir: d.Training, Names: FactorNames(), Labels: d.Labels, Log: d.Log, Metrics: set}
		if p.training, err = training.Open(cfg.Training, d); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// Prepare prepares for other services, each at its Index, and returns a func that puts them into use.
// Waiting events are judged by the new ones, so an index keeps its meaning from one configuration to the next.
func (p *Processor) Prepare(services []*verdict.Settings) (commit func(), err error) {
	var n int
	for _, s := range services {
		n = max(n, int(s.Index)+1)
	}
	table := make([]*rates, n)
	of := map[uint32]*people{}
	if old := p.services.Load(); old != nil {
		for _, r := range *old {
			if r != nil {
				of[r.Group] = r.people
			}
		}
	}
	for _, s := range services {
		if other := table[s.Index]; other != nil {
			return nil, fmt.Errorf("processor: settings of %s and of %s have one index", other.Name, s.Name)
		}
		if of[s.Group] == nil {
			of[s.Group] = &people{secret: p.secret}
		}
		r := &rates{Settings: s, sent: new([2]browsers.Fields), people: of[s.Group]}
		if old := p.service(s.Index); old != nil {
			r.sent = old.sent
		}
		for _, l := range s.Limits[:min(len(s.Limits), verdict.MaxLimits)] {
			r.limits = append(r.limits, limit{
				Limit: l, reason: fmt.Sprintf("pace: more than %d pages in %v", l.Requests, l.Window), factor: "pages_" + l.Window.String(),
			})
			l.Requests = int(float32(l.Requests) * max(s.CallFactor, 1))
			r.calls = append(r.calls, limit{
				Limit: l, reason: fmt.Sprintf("pace: more than %d calls in %v", l.Requests, l.Window), factor: "calls_" + l.Window.String(),
			})
		}
		r.from = countFrom(s.Limits)
		table[s.Index] = r
	}
	return func() { p.services.Store(&table) }, nil
}

// countFrom is after how many pages a subject is counted for the limits: most subjects never come near them and cost no
// memory there. It delays a first ban by a tenth of the smallest limit at most.
func countFrom(limits []verdict.Limit) uint32 {
	most := 8
	for _, l := range limits {
		most = min(most, l.Requests/10)
	}
	return uint32(max(most, 0))
}

func (p *Processor) service(i uint16) *rates {
	t := p.services.Load()
	if t == nil || int(i) >= len(*t) {
		return nil
	}
	return (*t)[i]
}

// Start starts the workers. Without it, only Process judges.
func (p *Processor) Start(context.Context) error {
	if !p.life.CompareAndSwap(made, started) {
		return errors.New("start processor: it was started or closed already")
	}
	if p.training != nil {
		p.training.Start()
	}
	for _, q := range p.queues {
		p.wg.Go(func() {
			select {
			case <-p.ready:
			case <-p.stop:
			}
			q.run(p.stop, p.work)
		})
	}
	p.wg.Go(p.sweep)
	p.running.Store(true)
	p.recallsDone.Go(p.runRecalls)
	return nil
}

func (p *Processor) work(e *verdict.Event) {
	p.Process(e)
	if p.judged != nil {
		p.judged(e)
	}
}

// Close judges what is waiting, stops the workers and writes out the training log. Events offered later are dropped.
func (p *Processor) Close() error {
	if p.life.Swap(closed) == closed {
		return nil
	}
	for _, q := range p.queues {
		q.closed.Store(true)
	}
	close(p.stop)
	p.wg.Wait()
	close(p.stopErrands)
	p.recallsDone.Wait()
	p.running.Store(false)
	if p.training != nil {
		return p.training.Close()
	}
	return nil
}

// sweep forgets what no longer has any effect.
func (p *Processor) sweep() {
	t := time.NewTicker(time.Minute)
	defer t.Stop()
	for {
		select {
		case <-p.stop:
			return
		case at := <-t.C:
			p.Sweep(at)
		}
	}
}

// Sweep forgets sessions, paces and groups that no longer have any effect. The goroutine of Start calls it each minute;
// a replay calls it with the time of its events.
func (p *Processor) Sweep(at time.Time) {
	now := at.Unix()
	p.paces.sweep(at, p.longest(), p.cfg.Forget)
	p.sessions.Sweep(func(_ identity.Subject, s *session) bool {
		return now-int64(s.last) > sessionIdle && s.lastBan.over(now, p.cfg.Forget)
	})
	p.trails.Sweep(func(_ identity.Subject, t *trail) bool { return now-t.at/1000 > sessionIdle })
	p.quota.Sweep(at)
}

// trailsPart is how many sessions there may be for each trail: most subjects come for only a page or two.
const trailsPart = 24

// readersPart is the same for the quota's clients and scopes, and for voices.
const readersPart = 5

// sessionIdle is after how many seconds without an event a session or a group is forgotten, unless the table fills up
// earlier: by then what was counted over the day has faded.
const sessionIdle = 2 * 86400

// longest is the longest window of any service.
func (p *Processor) longest() (d time.Duration) {
	if t := p.services.Load(); t != nil {
		for _, r := range *t {
			for i := 0; r != nil && i < len(r.limits); i++ {
				d = max(d, r.limits[i].Window)
			}
		}
	}
	return min(d, math.MaxInt64/4)
}
