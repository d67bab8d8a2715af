// Package cbb is the block base: it keeps lists of networks, subjects and request patterns, refreshes them from files
// and URLs, and answers for every request which of them apply.
//
// Each entry has a flag (block: 403, ban: captcha, white: never challenged), a reason, and sometimes an end. Lookup
// fills a Match; package verdict orders its entries.
//
// Invariants:
//  1. Lookup never waits, never allocates once warm, and takes no lock that all requests share. It reads an immutable
//     snapshot, built in the background and swapped by one pointer, and the run-time entries.
//  2. All networks of all lists and flags are in one table, whose pieces carry the entries of all networks around
//     them, so one search yields a white /32 and the blocked /8 around it.
//  3. An error never empties a list: the last good copy stays, in memory and on disk, until a better one has been
//     parsed completely. A list that looks wrong (garbage, suddenly empty, too wide) is an error.
//  4. A user agent alone never makes a request white: a crawler is verified by its published ranges, or by reverse
//     DNS with the forward check. Meanwhile a bounded number of requests may pass, marked Provisional.
//  5. Paths are matched as received and in their normal form: a block or ban matches if either does, a white pattern
//     only if both do.
//  6. A run-time entry is durable before it takes effect, and its end is exact.
package cbb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

// fetchers is how many sources are fetched and parsed at once.
const fetchers = 2

// Deps is what Lists works with.
type Deps struct {
	KV        store.KV
	Feed      store.Feed
	Dir       string            // for the last good copies; empty: none are kept
	ReadOnly  bool              // Dir may belong to a running gateway: nothing is written; don't Start
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

// snapshot is immutable, except for the ranges of crawlers and the remembered values.
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

// New makes Lists from a valid configuration. It reads the last good copies and the files, so that Lookup can answer
// at once; Start fetches URLs and loads run-time entries.
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
		kv: d.KV, feed: d.Feed, now: d.Now, log: d.Log, bounds: b, over: newOverlay(), shared: d.Shared,
		logFile: d.LocalLog, losses: d.Losses, gone: map[string]goneEntry{},
		wide: func() bool { return l.config().AllowWide },
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

// Start refreshes sources, follows run-time entries and verifies crawlers until Close. ctx is for the start only. If
// the store fails, that is reported in Stats and retried. Call it once.
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

// Naming returns the entries for a subject, or a network around it, for all services and for each of those given,
// without patterns and crawlers. Not for the hot path.
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

// Describe returns the entry as a person would write it. Fetched lists do not keep the text of each line: for these
// it is the list's network around addr, empty if the list has changed since. Not for the hot path.
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

// Prepare reads the sources of a new configuration, and returns a func that puts it into use. Sources that stay keep
// their copies. The func must be called or dropped before the next Prepare.
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
		l.log.Warn().
			Err(err).
			Str("list", s.name).
			Int("failures", n).
			Bool("last_good_copy", kept).
			Msg("a list was not refreshed")
	}
}

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

// build puts a snapshot of the current plan and its sources into use.
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

type plan struct {
	cfg      Config
	lists    []planned
	rules    *ruleset
	crawlers []*crawler
	verifier *verifier
}

// planned is one list: with a source, or with fixed entries.
type planned struct {
	base   Entry
	of     string // kind of texts; empty: networks
	source *source
	fixed  *parsed
}

type running struct {
	s      *source
	cancel context.CancelFunc // nil: not started
	done   chan struct{}
}

// prepare makes a plan and collects its sources, reusing old ones that fit.
func (l *Lists) prepare(cfg Config, next map[string]*running) (*plan, error) {
	p := &plan{cfg: cfg}
	for _, in := range cfg.inline() {
		lc := ListConfig{Name: listInline, Flag: in.flag.String(), Entries: in.entries, AllowWide: true}
		if len(in.entries) > 0 {
			p.lists = append(p.lists, l.planList(&cfg, &lc, next))
		}
	}
	for i := range cfg.Lists {
		if e := cfg.Lists[i].Enabled; e == nil || *e {
			p.lists = append(p.lists, l.planList(&cfg, &cfg.Lists[i], next))
		}
	}
	if cfg.Crawlers.Enabled {
		for _, c := range cfg.Crawlers.chosen() {
			p.crawlers = append(p.crawlers, l.planCrawler(&cfg, &c, next))
		}
	}
	var err error
	if p.rules, err = compileRules(cfg.Patterns, p.crawlers); err != nil {
		return nil, err
	}
	if old := l.plan.Load(); old != nil && old.cfg.Crawlers.ProvisionalRequests == cfg.Crawlers.ProvisionalRequests {
		p.verifier = old.verifier
	} else {
		p.verifier = newVerifier(l.bounds, cfg.Crawlers.ProvisionalRequests, l.res, l.now, l.log)
	}
	return p, nil
}

func (l *Lists) planList(cfg *Config, c *ListConfig, next map[string]*running) planned {
	flag, _ := c.flag() // Validate has read it
	own := c.Own || c.Entries != nil
	p := planned{base: Entry{List: c.Name, Reason: cleanReason(c.Reason), Flag: flag, Service: c.Service, Own: own}}
	lim := limits{
		maxEntries: cmp.Or(c.MaxEntries, l.bounds.maxEntries), maxBadShare: cmp.Or(c.MaxBadShare, l.bounds.badShare),
		minCount: c.MinCount, allowWide: c.AllowWide || own && (cfg.AllowWide || flag >= White), allowEmpty: c.AllowEmpty || c.Format == formatCrowdSec, named: own,
	}
	if lim.of, lim.texts = c.textKind(); lim.texts {
		p.of = c.Of
	}
	if c.Entries != nil {
		p.fixed = parseFixed(c.Entries, lim)
		return p
	}
	refresh := cfg.Refresh
	if flag == White {
		refresh = cfg.RefreshWhite
	}
	p.source = l.source(&source{
		name: c.Name, url: c.URL, file: c.File, format: c.Format, keyFile: c.KeyFile,
		refresh: cmp.Or(c.Refresh, refresh), limits: lim,
	}, next)
	return p
}

func (l *Lists) planCrawler(cfg *Config, c *CrawlerConfig, next map[string]*running) *crawler {
	cr, _ := newCrawler(c) // Validate has already compiled it
	lim := limits{maxEntries: l.bounds.maxEntries, maxBadShare: l.bounds.badShare}
	if len(c.Ranges) > 0 {
		cr.static = parseFixed(c.Ranges, lim)
	}
	for _, u := range c.RangeURLs {
		cr.sources = append(cr.sources, l.source(&source{name: c.Name, url: u, refresh: cfg.RefreshWhite, limits: lim}, next))
	}
	for _, f := range c.RangeFiles {
		cr.sources = append(cr.sources, l.source(&source{name: c.Name, file: f, refresh: cfg.RefreshWhite, limits: lim}, next))
	}
	return cr
}

// source returns the running source of this configuration, or a new one with the present file or kept copy.
func (l *Lists) source(s *source, next map[string]*running) *source {
	s.poll, s.timeout, s.bytes = l.bounds.poll, l.bounds.fetch, l.bounds.bytes
	id := fmt.Sprintf("%q %q %q %q %q %v %+v", s.name, s.url, s.file, s.format, s.keyFile, s.refresh, s.limits)
	if r := next[id]; r != nil {
		return r.s // a crawler that names the same file twice
	}
	if r := l.sources[id]; r != nil {
		next[id] = r
		return r.s
	}
	s.client, s.disk, s.gate, s.now = l.client, l.disk, l.gate, l.now
	if err := s.restore(); err != nil {
		l.log.Warn().Err(err).Str("list", s.name).Msg("the kept copy of a list is not used")
	}
	if s.file != "" {
		if _, _, err := s.update(context.Background()); err != nil {
			l.report(s, err)
		}
	}
	next[id] = &running{s: s}
	return s
}

func parseFixed(entries []string, lim limits) *parsed {
	lim.maxEntries = len(entries)
	lim.allowWide = true
	p := newParser(lim)
	for i, e := range entries {
		if lim.texts {
			_ = p.text(e) // Validate has accepted it
			continue
		}
		p.line(i+1, []byte(e))
	}
	d, err := p.finish(0)
	if err != nil {
		panic("BUG: configured entries passed Validate and do not parse: " + err.Error())
	}
	return d
}
