package cbb

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/identity"
	"antirobot/request"
	"antirobot/store"
)

// The names of the gateway's own lists.
const (
	listInline   = "inline"
	listPatterns = "patterns"
	ListCrawlers = "crawlers" // of the entries for verified crawlers
)

// fetchers is how many sources are fetched and parsed at the same time.
const fetchers = 2

// Deps is what Lists works with.
type Deps struct {
	KV        store.KV
	Feed      store.Feed
	Dir       string            // for the last good copies; empty: none are kept
	ReadOnly  bool              // Dir belongs to a gateway that may be running: its copies are read, nothing is changed; don't Start
	Resolver  Resolver          // nil: the system's
	Transport http.RoundTripper // nil: our own
	Now       func() time.Time  // nil: time.Now
	Log       zerolog.Logger
	Metrics   *metrics.Set  // nil: no metrics
	Shared    bool          // other gateways use the same KV and Feed
	LocalLog  string        // the file that keeps the run-time entries of a shared store; empty: there is none
	Losses    *store.Losses // nil: losses of a shared store are written back, but not reported

	bounds *bounds // nil: defaultBounds
}

// Lists answers which entries apply to a request. Make it with New; safe for concurrent use.
type Lists struct {
	disk   *disk
	client *http.Client
	res    Resolver
	now    func() time.Time
	log    zerolog.Logger
	gate   chan struct{}
	bounds bounds
	probes sync.Pool // of *probe only

	snap  atomic.Pointer[snapshot]
	plan  atomic.Pointer[plan] // changed under mu
	live  *runtimeEntries
	tally *tally

	mu      sync.Mutex          // orders Start, Close and configuration changes; guards the fields below
	sources map[string]*running // by identity of their configuration
	ctx     context.Context     //nolint:containedctx // of Start; sources of a later configuration run under it
	cancel  context.CancelFunc
	tasks   sync.WaitGroup

	buildMu sync.Mutex
	dirty   chan struct{}
}

// snapshot is what Lookup reads. It is immutable, except for the ranges of crawlers and the remembered values.
type snapshot struct {
	table    *table
	layers   []layer // from which the table was built
	quiet    []layer // networks and subjects for rules alone
	texts    map[string]textList
	rules    *ruleset
	crawlers []*crawler
	verifier *verifier
	builtAt  time.Time
	took     time.Duration
}

// New makes Lists from a valid configuration. It reads the last good copies and the files, so that Lookup can answer at
// once; URLs are fetched, and run-time entries are loaded, by Start.
func New(cfg Config, d Deps) (*Lists, error) {
	if d.Now == nil {
		d.Now = time.Now
	}
	b := defaultBounds()
	if d.bounds != nil {
		b = *d.bounds
	}
	dk, err := newDisk(d.Dir, d.ReadOnly)
	if err != nil {
		return nil, err
	}
	l := &Lists{
		disk: dk, client: newClient(d.Transport), res: d.Resolver, now: d.Now, log: d.Log,
		gate: make(chan struct{}, fetchers), bounds: b, sources: map[string]*running{}, dirty: make(chan struct{}, 1),
	}
	l.tally = newTally(l)
	l.live = &runtimeEntries{
		kv: d.KV, feed: d.Feed, now: d.Now, log: d.Log, bounds: b, over: newOverlay(), shared: d.Shared, logFile: d.LocalLog,
		losses: d.Losses, gone: map[string]goneEntry{}, wide: func() bool { return l.config().AllowWide },
	}
	commit, err := l.Prepare(cfg)
	if err != nil {
		return nil, err
	}
	commit()
	l.tally.loadCounts()
	l.tally.settleLists(d.Now())
	if d.Metrics != nil {
		d.Metrics.RegisterMetricsWriter(l.writeMetrics)
	}
	return l, nil
}

// Start begins to refresh, to follow run-time entries and to verify crawlers, until Close. ctx is for the start only.
// It loads the run-time entries first; if the store fails then, that is reported in Stats and retried. Call it once.
func (l *Lists) Start(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx != nil {
		return errors.New("start lists: already started")
	}
	l.ctx, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	l.live.openLog()
	if err := l.live.scan(ctx); err != nil {
		l.live.storeFailed(err)
		l.log.Error().Err(err).Msg("run-time list entries are not known yet")
	}
	for _, r := range l.sources {
		l.run(r)
	}
	l.plan.Load().verifier.begin(l.ctx)
	l.tasks.Go(func() { l.live.follow(l.ctx) })
	l.tasks.Go(func() { l.rebuildLoop(l.ctx) })
	l.tasks.Go(func() { l.tally.count(l.ctx) })
	l.tasks.Go(func() {
		for store.Pause(l.ctx, sweepEvery) {
			l.live.sweep()
		}
	})
	return nil
}

// Close ends all background work and waits for it. Lookup keeps answering.
func (l *Lists) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cancel == nil {
		return nil
	}
	l.cancel()
	for _, r := range l.sources {
		l.stop(r)
	}
	l.plan.Load().verifier.stop()
	l.tasks.Wait()
	l.tally.saveCounts()
	l.client.CloseIdleConnections()
	return l.live.local.Load().Close()
}

// Lookup fills m with the entries that apply to a request of a service. It does not wait; m may be reused, and the
// entries may be kept.
func (l *Lists) Lookup(m *Match, v *request.View, id *identity.Identity, service string) {
	*m = Match{}
	s := l.snap.Load()
	l.live.over.lookup(m, id, service, v.At)
	s.table.lookup(m, id, service)
	if len(s.rules.patterns) > 0 {
		p, ok := l.probes.Get().(*probe)
		if !ok {
			p = new(probe)
		}
		p.begin(v, s.rules)
		s.rules.lookup(m, p, service)
		p.end()
		l.probes.Put(p)
	}
	if m.White == nil && m.OwnBlock == nil {
		white, honest := s.crawlerEntry(v, id.Addr, s.verifier)
		m.White, m.Liar = white, !honest
	}
}

// Naming returns the entries that name a subject, or a network around it, for all services and for each of those given. What patterns say, and
// whether it is a crawler, depends on the request. Not for the hot path.
func (l *Lists) Naming(sub identity.Subject, services []string, at time.Time) []*Entry {
	id := identity.Identity{Subjects: [identity.MaxSubjects]identity.Subject{sub}, N: 1}
	id.Addr, _ = sub.Addr()
	var list []*Entry
	s := l.snap.Load()
	for _, service := range append([]string{""}, services...) {
		var m Match
		l.live.over.lookup(&m, &id, service, at)
		s.table.lookup(&m, &id, service)
		for _, e := range []*Entry{m.OwnBlock, m.White, m.Block, m.Ban} {
			if e != nil && !slices.Contains(list, e) {
				list = append(list, e)
			}
		}
	}
	return list
}

// Describe returns the entry as a person would write it. Lists of networks from files and URLs do not keep the text of
// each line: for these it is the list's network around addr; empty if the list has changed since. Not for the hot path.
func (l *Lists) Describe(e *Entry, addr netip.Addr) string {
	if e.Text != "" {
		return e.Text
	}
	s := l.snap.Load()
	for i := range s.layers {
		if p, ok := s.layers[i].describe(e, addr); ok {
			return textOf(p)
		}
	}
	return ""
}

func (l *Lists) config() *Config { return &l.plan.Load().cfg }

// Prepare reads what a new configuration names, and returns a func that puts it into use. Sources that stay keep their
// copies. What was prepared must be put into use, or discarded, before Prepare is called again.
func (l *Lists) Prepare(cfg Config) (commit func(), err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	next := map[string]*running{}
	p, err := l.prepare(cfg, next)
	if err != nil {
		return nil, err
	}
	return func() { l.take(p, next) }, nil
}

// take puts a plan and its sources into use.
func (l *Lists) take(p *plan, next map[string]*running) {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.plan.Swap(p)
	gone := l.sources
	l.sources = next
	l.build()
	for id, r := range gone {
		if next[id] != r {
			l.stop(r)
		}
	}
	if old != nil && old.verifier != p.verifier {
		old.verifier.stop()
	}
	if l.ctx != nil && l.ctx.Err() == nil {
		for _, r := range next {
			l.run(r)
		}
		if old.verifier != p.verifier {
			p.verifier.begin(l.ctx)
		}
	}
}

func (l *Lists) run(r *running) {
	if r.cancel != nil {
		return
	}
	ctx, cancel := context.WithCancel(l.ctx)
	r.cancel, r.done = cancel, make(chan struct{})
	go func() {
		defer close(r.done)
		r.s.run(ctx, l.changedSource, l.report)
	}()
}

func (l *Lists) stop(r *running) {
	if r.cancel != nil {
		r.cancel()
		<-r.done
	}
}

// report logs a failure the first time, and then less and less often.
func (l *Lists) report(s *source, err error) {
	s.mu.Lock()
	n, kept := s.status.failures, s.data.Load() != nil
	s.mu.Unlock()
	if n&(n-1) == 0 {
		l.log.Warn().Err(err).Str("list", s.name).Int("failures", n).Bool("last_good_copy", kept).Msg("a list was not refreshed")
	}
}

// changedSource requests a new snapshot; several changes in a row lead to one.
func (l *Lists) changedSource() {
	select {
	case l.dirty <- struct{}{}:
	default:
	}
}

func (l *Lists) rebuildLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.dirty:
		}
		if !store.Pause(ctx, 200*time.Millisecond) { // several sources often change together
			return
		}
		select {
		case <-l.dirty:
		default:
		}
		l.build()
	}
}

// build makes the snapshot of the current plan from what its sources have, and puts it into use.
func (l *Lists) build() {
	l.buildMu.Lock()
	defer l.buildMu.Unlock()
	p, began := l.plan.Load(), l.now()
	s := &snapshot{rules: p.rules, crawlers: p.crawlers, verifier: p.verifier, texts: make(map[string]textList)}
	for i := range p.lists {
		d := p.lists[i].fixed
		if src := p.lists[i].source; src != nil {
			d = src.data.Load()
		}
		s.add(&p.lists[i].base, d)
	}
	for _, c := range p.crawlers {
		c.rebuild()
	}
	if old := l.snap.Load(); old != nil && slices.Equal(old.layers, s.layers) {
		s.table = old.table // only patterns or crawlers changed
	} else {
		s.table = buildTable(s.layers)
	}
	s.builtAt = l.now()
	s.took = s.builtAt.Sub(began)
	l.snap.Store(s)
}

// add puts the content of a list where it is looked for; nil: it is not there yet.
func (s *snapshot) add(base *Entry, d *parsed) {
	switch {
	case d == nil:
	case d.texts != nil:
		s.texts[base.List] = textList{d.texts, base.Service}
	case base.Flag == ForRules:
		s.quiet = append(s.quiet, layer{*base, d})
	default:
		s.layers = append(s.layers, layer{*base, d})
	}
}

func (r *runtimeEntries) storeFailed(err error) {
	if err == nil {
		r.storeErr.Store(nil)
		return
	}
	r.storeErr.Store(&err)
}
