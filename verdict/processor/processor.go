// Package processor judges requests off their path: it counts the pace of every subject and bans those that no person
// could be.
//
// What it reads is the verdict's events, what it concludes are bans. In this first form it knows sliding windows, set
// per service; factors and formulas come to stand beside them behind the same seams.
//
// Invariants:
//  1. Offer never blocks and never allocates: what does not fit is shed and counted.
//  2. Memory is bounded by the queue and by max_sessions; a session that makes room is counted.
//  3. White-listed requests, requests of a service whose mode is off, blocked ones and sub-resources are no pace. A
//     challenged request is: who hammers at the captcha stays banned. A sub-resource that was answered with a document
//     was a page, whatever it called itself.
//  4. Whom a request is charged to: its winner; the crowd of its address, if it brought cookies; its network. A network
//     is never banned, its count is a factor. The first two requests of a subject never ban it.
//  5. An address is many people, so its limits are multiples of a subject's. Without cookies: one for each User-Agent
//     seen, up to address_agents (they are free to forge), and one for each subject that the address has established.
//     With cookies: crowd_factor and one for each established subject. A request that its subject's own ban stops is
//     not charged to the crowd: one robot in an office is banned alone.
package processor

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/identity"
	"antirobot/verdict"
)

// Config is the processor section, for all services together; the limits are the services' own.
type Config struct {
	Enabled       bool          `mapstructure:"enabled"`        // false: nothing is counted and nobody is banned for pace
	Exempt        []string      `mapstructure:"exempt"`         // networks whose clients are counted and never banned for pace
	Queue         int           `mapstructure:"queue"`          // events that wait, all workers together; a power of two is used
	Workers       int           `mapstructure:"workers"`        // goroutines that judge
	MaxSessions   int           `mapstructure:"max_sessions"`   // subjects, crowds and networks counted at once
	AddressAgents int           `mapstructure:"address_agents"` // most User-Agents that raise the limits of an address
	CrowdFactor   int           `mapstructure:"crowd_factor"`   // limits of an address over all subjects with cookies
	MaxBan        time.Duration `mapstructure:"max_ban"`        // bans double with each repetition up to this
	Forget        time.Duration `mapstructure:"forget"`         // a subject not banned for so long begins anew
}

// DefaultConfig returns a queue of 16384 events, two workers, a million sessions. This machine itself is exempt: where a
// balancer on it is not named in trusted_proxies, all visitors have its address, and a ban would stop them all.
func DefaultConfig() Config {
	return Config{
		Enabled: true, Exempt: []string{"127.0.0.0/8", "::1/128"},
		Queue: 16384, Workers: 2, MaxSessions: 1_000_000, AddressAgents: 8, CrowdFactor: 8,
		MaxBan: 24 * time.Hour, Forget: 24 * time.Hour,
	}
}

// Validate returns every problem at once.
func (c *Config) Validate() error {
	var errs []error
	within := func(path string, v, least, most int) {
		if v < least || v > most {
			errs = append(errs, fmt.Errorf("%s: %d is not between %d and %d", path, v, least, most))
		}
	}
	within("queue", c.Queue, 16, 1<<22)
	within("workers", c.Workers, 1, 64)
	within("max_sessions", c.MaxSessions, sessionShards, 100_000_000)
	within("address_agents", c.AddressAgents, 1, 64)
	within("crowd_factor", c.CrowdFactor, 1, 1000)
	if c.MaxBan < time.Second || c.MaxBan > 30*24*time.Hour {
		errs = append(errs, fmt.Errorf("max_ban: %v is not between 1s and 720h", c.MaxBan))
	}
	if c.Forget < time.Minute || c.Forget > 30*24*time.Hour {
		errs = append(errs, fmt.Errorf("forget: %v is not between 1m and 720h", c.Forget))
	}
	for i, n := range c.Exempt {
		if _, err := netip.ParsePrefix(n); err != nil {
			errs = append(errs, fmt.Errorf("exempt[%d]: %q is no network such as 10.0.0.0/8", i, n))
		}
	}
	return errors.Join(errs...)
}

// Bench is where bans are made and standings kept: verdict.Cacher. No method waits for a store.
type Bench interface {
	BanSoon(b verdict.Ban) error
	Observe(e *verdict.Event)
	EstablishedAt(addr [16]byte) int
}

// Processor is the slow half. It is a verdict.Sink and a verdict.Judge. Safe for concurrent use.
type Processor struct {
	cfg      Config
	bench    Bench
	log      zerolog.Logger
	queues   []*queue
	sessions *sessions
	services atomic.Pointer[[]*rates]
	exempt   []netip.Prefix
	warned   atomic.Int64 // unix seconds of the last warning about an exempt address

	offered, shed, unknown, bans, banErrors, spared *metrics.Counter

	stop chan struct{}
	wg   sync.WaitGroup
}

// rates is a service as the judgement needs it.
type rates struct {
	*verdict.Service
	limits []limit
}

type limit struct {
	verdict.Limit
	reason, factor string
}

// New makes a Processor that knows no service yet.
func New(cfg Config, bench Bench, log zerolog.Logger, set *metrics.Set) (*Processor, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("processor: %w", err)
	}
	p := &Processor{
		cfg: cfg, bench: bench, log: log, sessions: newSessions(cfg.MaxSessions), stop: make(chan struct{}),
		offered:   set.NewCounter("antirobot_events_offered_total"),
		shed:      set.NewCounter("antirobot_events_shed_total"),
		unknown:   set.NewCounter("antirobot_events_unknown_service_total"),
		bans:      set.NewCounter("antirobot_processor_bans_total"),
		banErrors: set.NewCounter("antirobot_processor_ban_errors_total"),
		spared:    set.NewCounter("antirobot_processor_spared_total"),
	}
	for _, n := range cfg.Exempt {
		p.exempt = append(p.exempt, netip.MustParsePrefix(n).Masked()) // validated
	}
	for range cfg.Workers {
		p.queues = append(p.queues, newQueue(cfg.Queue/cfg.Workers))
	}
	set.NewGauge("antirobot_sessions", func() float64 { return float64(p.sessions.live.Load()) })
	set.NewGauge("antirobot_sessions_evicted_total", func() float64 { return float64(p.sessions.evicted.Load()) })
	set.NewGauge("antirobot_events_waiting", func() float64 {
		n := 0
		for _, q := range p.queues {
			n += q.waiting()
		}
		return float64(n)
	})
	return p, nil
}

// SetServices replaces the services; each stands at its Index. Events that wait are judged by the new ones, so an index
// keeps its meaning from one configuration to the next.
func (p *Processor) SetServices(list []*verdict.Service) {
	var n int
	for _, s := range list {
		n = max(n, int(s.Index)+1)
	}
	table := make([]*rates, n)
	for _, s := range list {
		r := &rates{Service: s}
		for _, l := range s.Limits[:min(len(s.Limits), verdict.MaxLimits)] {
			r.limits = append(r.limits, limit{
				Limit: l, reason: fmt.Sprintf("pace: more than %d pages in %v", l.Requests, l.Window), factor: "pages_" + l.Window.String(),
			})
		}
		table[s.Index] = r
	}
	p.services.Store(&table)
}

func (p *Processor) service(i uint16) *rates {
	t := p.services.Load()
	if t == nil || int(i) >= len(*t) {
		return nil
	}
	return (*t)[i]
}

// Start starts the workers.
func (p *Processor) Start() {
	for _, q := range p.queues {
		p.wg.Go(func() { q.run(p.stop, p.Process) })
	}
	p.wg.Go(p.sweep)
}

// Close judges what waits and ends the workers. Events offered later are shed.
func (p *Processor) Close() error {
	for _, q := range p.queues {
		q.closed.Store(true)
	}
	close(p.stop)
	p.wg.Wait()
	return nil
}

// Offer implements verdict.Sink.
func (p *Processor) Offer(e *verdict.Event) bool {
	p.offered.Inc()
	if e.N == 0 || int(e.N) > len(e.Subjects) {
		p.shed.Inc()
		return false
	}
	// The events of one address keep their order.
	a := &e.Subjects[e.N-1].ID
	q := p.queues[(uint(a[15])+uint(a[14])*31+uint(a[6])*17+uint(a[7]))%uint(len(p.queues))]
	if !q.offer(e) {
		p.shed.Inc()
		return false
	}
	return true
}

// Process judges one event in the caller's goroutine: what the workers do, and what a replay does with recorded ones.
func (p *Processor) Process(e *verdict.Event) {
	r := p.service(e.Service)
	if r == nil {
		p.unknown.Inc()
		return
	}
	p.bench.Observe(e)
	if e.Kind != verdict.EventRequest || !counts(e) {
		return
	}
	winner, addr := e.Subjects[0], e.Subjects[e.N-1]
	network := p.count(sessionKey{role: roleNetwork, service: e.Service, id: networkOf(addr.ID)}, e, r)
	if winner.Kind == identity.KindIP {
		p.judge(sessionKey{role: roleSubject, kind: winner.Kind, service: e.Service, id: winner.ID}, winner, e, r, network)
		return
	}
	p.judge(sessionKey{role: roleSubject, kind: winner.Kind, service: e.Service, id: winner.ID}, winner, e, r, network)
	if addr.Kind == identity.KindIP && !(e.Verdict == verdict.Robot && e.Own) {
		p.judge(sessionKey{role: roleCrowd, service: e.Service, id: addr.ID}, addr, e, r, network)
	}
}

// counts reports whether an event is pace.
func counts(e *verdict.Event) bool {
	if e.Verdict == verdict.Blocked {
		return false
	}
	switch e.Cause {
	case verdict.CauseWhite, verdict.CauseOff, verdict.CauseDemand:
		return false
	}
	return !e.Static || e.Document
}

// count adds the event to a session that is never banned, and returns the pages in the service's longest window.
func (p *Processor) count(k sessionKey, e *verdict.Event, r *rates) float32 {
	var seen [verdict.MaxLimits]float32
	p.sessions.add(k, e, r.limits, &seen)
	var most float32
	for _, n := range seen {
		most = max(most, n)
	}
	return most
}

// judge adds the event to a session, and bans the subject if that is more than a limit allows.
func (p *Processor) judge(k sessionKey, sub identity.Subject, e *verdict.Event, r *rates, network float32) {
	var seen [verdict.MaxLimits]float32
	s := p.sessions.add(k, e, r.limits, &seen)
	if s.total <= 2 {
		return
	}
	for i := range r.limits {
		l := &r.limits[i]
		if seen[i] <= float32(l.Requests) {
			continue
		}
		times := p.times(k, s.agents, e.Subjects[e.N-1].ID)
		if seen[i] > float32(l.Requests)*times {
			p.convict(k, sub, e, r, l, seen[i], times, network)
			return
		}
	}
}

// times is how many times a subject's limits hold for a session (invariant 5).
func (p *Processor) times(k sessionKey, agents int, addr [16]byte) float32 {
	switch {
	case k.role == roleCrowd:
		return float32(p.cfg.CrowdFactor + p.bench.EstablishedAt(addr))
	case k.kind == identity.KindIP:
		return float32(min(max(agents, 1), p.cfg.AddressAgents) + p.bench.EstablishedAt(addr))
	}
	return 1
}

// convict bans, unless more than half of a ban is still ahead. Each ban of a subject is twice as long as the one before;
// in mode observe, where nobody could have taken the hint, they stay as they are.
func (p *Processor) convict(k sessionKey, sub identity.Subject, e *verdict.Event, r *rates, l *limit, seen, times, network float32) {
	if p.spares(e.Subjects[e.N-1].ID) {
		p.spare(sub, e.At)
		return
	}
	length, ok := p.sessions.sentence(k, e.At, l.Ban, p.cfg.MaxBan, p.cfg.Forget, e.Mode == verdict.Observe)
	if !ok {
		return
	}
	b := verdict.Ban{
		Subject: sub, Until: e.At.Add(length), Made: e.At, Service: r.Name, Source: verdict.SourceProcessor,
		Score: 1, Threshold: r.Threshold, Reason: l.reason,
		Factors: [verdict.MaxFactors]verdict.Factor{
			{Name: l.factor, Value: seen},
			{Name: "limit", Value: float32(l.Requests) * times},
			{Name: "network_pages", Value: network},
		},
	}
	if err := p.bench.BanSoon(b); err != nil {
		p.banErrors.Inc()
		p.log.Warn().Err(err).Str("subject", sub.String()).Msg("a ban could not be made")
		return
	}
	p.bans.Inc()
}

// spares reports whether an address is exempt.
func (p *Processor) spares(addr [16]byte) bool {
	a := netip.AddrFrom16(addr).Unmap()
	for _, n := range p.exempt {
		if n.Contains(a) {
			return true
		}
	}
	return false
}

// spareEvery is how often an operator is told that an exempt address would have been banned, in seconds.
const spareEvery = 60

func (p *Processor) spare(sub identity.Subject, at time.Time) {
	p.spared.Inc()
	if last := p.warned.Load(); at.Unix()-last >= spareEvery && p.warned.CompareAndSwap(last, at.Unix()) {
		p.log.Warn().Str("subject", sub.String()).Msg("over the limits but exempt (processor.exempt); " +
			"if this is a balancer, name it in identity.trusted_proxies so that visitors are told apart")
	}
}

// Judge implements verdict.Judge: 1 if the subject is over a limit at this moment, before its ban has been made or after
// the table of bans lost it, else 0. The present request is not counted yet: it becomes an event later.
func (p *Processor) Judge(v *identity.View, id *identity.Identity, s *verdict.Service) float32 {
	r := p.service(s.Index)
	if r == nil || id.N == 0 {
		return 0
	}
	winner, addr := id.Subjects[0], id.Subjects[id.N-1]
	if p.spares(addr.ID) {
		return 0
	}
	if p.over(sessionKey{role: roleSubject, kind: winner.Kind, service: s.Index, id: winner.ID}, addr.ID, v.At, r) {
		return 1
	}
	if winner.Kind != identity.KindIP && freeToMake(winner.Kind) &&
		p.over(sessionKey{role: roleCrowd, service: s.Index, id: addr.ID}, addr.ID, v.At, r) {
		return 1
	}
	return 0
}

// freeToMake reports whether a ban on the address would stop an identity of the kind.
func freeToMake(k identity.Kind) bool { return k != identity.KindL && k != identity.KindService }

func (p *Processor) over(k sessionKey, addr [16]byte, at time.Time, r *rates) bool {
	var seen [verdict.MaxLimits]float32
	s, ok := p.sessions.read(k, at, r.limits, &seen)
	if !ok || s.total <= 2 {
		return false
	}
	for i := range r.limits {
		if n := float32(r.limits[i].Requests); seen[i] > n && seen[i] > n*p.times(k, s.agents, addr) {
			return true
		}
	}
	return false
}

// networkOf masks the ID of an address to its /24 or /48.
func networkOf(id [16]byte) [16]byte {
	if netip.AddrFrom16(id).Is4In6() {
		id[15] = 0
		return id
	}
	clear(id[6:])
	return id
}

// sweep forgets sessions that nothing hangs on any more.
func (p *Processor) sweep() {
	t := time.NewTicker(time.Minute)
	defer t.Stop()
	for {
		select {
		case <-p.stop:
			return
		case at := <-t.C:
			p.sessions.sweep(at, p.longest(), p.cfg.Forget)
		}
	}
}

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
