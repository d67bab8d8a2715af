package cbb

import (
	"context"
	"fmt"
)

// plan is a prepared configuration. It is immutable.
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
	of     string // texts of which kind; empty: networks
	source *source
	fixed  *parsed
}

// running is a source and its goroutine.
type running struct {
	s      *source
	cancel context.CancelFunc // nil: not started
	done   chan struct{}
}

// prepare makes a plan and collects its sources, reusing old ones where they fit.
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

// chosen returns the crawlers that are in use.
func (c *CrawlersConfig) chosen() []CrawlerConfig {
	var out []CrawlerConfig
	for _, b := range builtinCrawlers() {
		for _, name := range c.Builtin {
			if b.Name == name {
				if !c.FetchRanges {
					b.RangeURLs = nil
				}
				out = append(out, b)
				break
			}
		}
	}
	return append(out, c.Own...)
}

// Calls returns the URLs that lists and the ranges of crawlers are fetched from.
func (c *Config) Calls() (urls []string) {
	for i := range c.Lists {
		if u := c.Lists[i].URL; u != "" {
			urls = append(urls, u)
		}
	}
	if c.Crawlers.Enabled {
		for _, crawler := range c.Crawlers.chosen() {
			urls = append(urls, crawler.RangeURLs...)
		}
	}
	return urls
}

func (l *Lists) planList(cfg *Config, c *ListConfig, next map[string]*running) planned {
	flag, _ := c.flag() // Validate has read it
	own := c.Own || c.Entries != nil
	p := planned{base: Entry{List: c.Name, Reason: cleanReason(c.Reason), Flag: flag, Service: c.Service, Own: own}}
	lim := limits{
		maxEntries: or(c.MaxEntries, l.bounds.maxEntries), maxBadShare: or(c.MaxBadShare, l.bounds.badShare), minCount: c.MinCount,
		allowWide: c.AllowWide || own && (cfg.AllowWide || flag >= White), allowEmpty: c.AllowEmpty || c.Format == formatCrowdSec, named: own,
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
		name: c.Name, url: c.URL, file: c.File, format: c.Format, keyFile: c.KeyFile, refresh: or(c.Refresh, refresh), limits: lim,
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

// parseFixed parses entries that Validate has accepted.
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

func or[T comparable](v, w T) T {
	var zero T
	if v == zero {
		return w
	}
	return v
}

// source returns the running source of this configuration, or a new one with what is currently on disk or in the file.
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
