package cbb

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Config says which lists there are.
type Config struct {
	Lists []ListConfig `mapstructure:"lists"`
	// Entries of the operator's own, for all services: "address, CIDR, range or kind:id", then a reason.
	Block    []string        `mapstructure:"block"`
	Ban      []string        `mapstructure:"ban"`
	White    []string        `mapstructure:"white"`
	Patterns []PatternConfig `mapstructure:"patterns"`
	Crawlers CrawlersConfig  `mapstructure:"crawlers"`

	Refresh      time.Duration `mapstructure:"refresh"`       // of block and ban lists from URLs
	RefreshWhite time.Duration `mapstructure:"refresh_white"` // of white lists and crawlers' ranges from URLs
	FilePoll     time.Duration `mapstructure:"file_poll"`     // how often files are checked for changes
	FetchTimeout time.Duration `mapstructure:"fetch_timeout"` // of one fetch as a whole
	MaxBytes     int64         `mapstructure:"max_bytes"`     // of one list, compressed and plain
	MaxEntries   int           `mapstructure:"max_entries"`   // of one list
	MaxBadShare  float64       `mapstructure:"max_bad_share"` // share of bad lines above which a list is rejected
	MaxRuntime   int           `mapstructure:"max_runtime"`   // entries made at run time
	AllowWide    bool          `mapstructure:"allow_wide"`    // own entries wider than /8, /16 that block or ban
}

// PatternConfig is a request pattern: all conditions that are set must hold.
type PatternConfig struct {
	Name           string         `mapstructure:"name"`
	Flag           string         `mapstructure:"flag"`
	Reason         string         `mapstructure:"reason"`
	Service        string         `mapstructure:"service"`
	Methods        []string       `mapstructure:"methods"` // any of them
	Path           string         `mapstructure:"path"`    // the whole path
	PathPrefix     string         `mapstructure:"path_prefix"`
	PathGlob       string         `mapstructure:"path_glob"`  // *: a run without slashes, **: any run, ?: one byte but a slash
	PathRegex      string         `mapstructure:"path_regex"` // RE2, unanchored
	UserAgent      string         `mapstructure:"user_agent"` // a part of it, ignoring case
	UserAgentRegex string         `mapstructure:"user_agent_regex"`
	Headers        []HeaderConfig `mapstructure:"headers"`
}

// HeaderConfig is a condition on a header field. With a name alone, the field must be present.
type HeaderConfig struct {
	Name     string `mapstructure:"name"`
	Value    string `mapstructure:"value"`    // the whole value, case-sensitive
	Contains string `mapstructure:"contains"` // a part of it, ignoring case
	Regex    string `mapstructure:"regex"`    // RE2, unanchored
	Absent   bool   `mapstructure:"absent"`
}

// CrawlersConfig says which robots are welcome, and how they are verified.
type CrawlersConfig struct {
	Enabled     bool            `mapstructure:"enabled"`
	Builtin     []string        `mapstructure:"builtin"`      // names of built-in definitions to use
	FetchRanges bool            `mapstructure:"fetch_ranges"` // ask the built-in publishers for their ranges
	Own         []CrawlerConfig `mapstructure:"own"`
	DNS         DNSConfig       `mapstructure:"dns"`
}

// CrawlerConfig is one crawler: how it identifies itself, and the accepted proofs, ranges or names.
type CrawlerConfig struct {
	Name           string   `mapstructure:"name"`
	UserAgent      []string `mapstructure:"user_agent"`       // any of these parts, ignoring case
	UserAgentRegex []string `mapstructure:"user_agent_regex"` // or any of these
	RangeURLs      []string `mapstructure:"range_urls"`
	RangeFiles     []string `mapstructure:"range_files"`
	Ranges         []string `mapstructure:"ranges"`
	ReverseDNS     []string `mapstructure:"reverse_dns"` // domains to which the names of its addresses belong
}

// DNSConfig bounds the look-ups of crawlers.
type DNSConfig struct {
	Workers              int           `mapstructure:"workers"`
	Queue                int           `mapstructure:"queue"`
	LookupsPerSecond     int           `mapstructure:"lookups_per_second"`
	LookupTimeout        time.Duration `mapstructure:"lookup_timeout"`
	PositiveTTL          time.Duration `mapstructure:"positive_ttl"`
	NegativeTTL          time.Duration `mapstructure:"negative_ttl"`
	FailureTTL           time.Duration `mapstructure:"failure_ttl"`            // after the DNS failed to answer
	Failures             int           `mapstructure:"failures"`               // in a row after which an address is unproven for NegativeTTL
	Grace                time.Duration `mapstructure:"grace"`                  // how long a request may pass while its address is looked up
	ProvisionalRequests  int           `mapstructure:"provisional_requests"`   // so passing, of one address (IPv6: /64) in a window
	ProvisionalWindow    time.Duration `mapstructure:"provisional_window"`     //
	ProvisionalPerSecond int           `mapstructure:"provisional_per_second"` // so passing, of all addresses
	CacheBytes           int64         `mapstructure:"cache_bytes"`
}

// DefaultConfig returns the defaults: no lists, the built-in crawlers.
func DefaultConfig() Config {
	c := Config{
		Refresh:      5 * time.Minute,
		RefreshWhite: 24 * time.Hour,
		FilePoll:     5 * time.Second,
		FetchTimeout: 2 * time.Minute,
		MaxBytes:     64 << 20,
		MaxEntries:   2_000_000,
		MaxBadShare:  0.1,
		MaxRuntime:   100_000,
		Crawlers: CrawlersConfig{
			Enabled:     true,
			FetchRanges: false,
			DNS: DNSConfig{
				Workers: 8, Queue: 1024, LookupsPerSecond: 50, LookupTimeout: 5 * time.Second,
				PositiveTTL: 6 * time.Hour, NegativeTTL: 10 * time.Minute, FailureTTL: 15 * time.Second, Failures: 3,
				Grace: 2 * time.Second, ProvisionalRequests: 5, ProvisionalWindow: 10 * time.Minute, ProvisionalPerSecond: 20,
				CacheBytes: 4 << 20,
			},
		},
	}
	for _, b := range builtinCrawlers() {
		c.Crawlers.Builtin = append(c.Crawlers.Builtin, b.Name)
	}
	return c
}

const (
	minRefresh  = 10 * time.Second
	maxLists    = 1024
	maxCrawlers = 200
)

// listName is the form of names that become part of file names and metrics.
var listName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// problems collects what is wrong with a configuration.
type problems []error

func (p *problems) add(path, format string, args ...any) {
	*p = append(*p, fmt.Errorf("%s: "+format, append([]any{path}, args...)...))
}

func (p *problems) positive(path string, ok bool) {
	if !ok {
		p.add(path, "must be greater than zero")
	}
}

// Validate returns all problems at once, each beginning with the path of its key. It uses neither disk nor network.
func (c *Config) Validate() error {
	var p problems
	p.positive("file_poll", c.FilePoll > 0)
	p.positive("fetch_timeout", c.FetchTimeout > 0)
	p.positive("max_bytes", c.MaxBytes > 0)
	p.positive("max_entries", c.MaxEntries > 0)
	p.positive("max_runtime", c.MaxRuntime > 0)
	if c.Refresh < minRefresh {
		p.add("refresh", "must be at least %v", minRefresh)
	}
	if c.RefreshWhite < minRefresh {
		p.add("refresh_white", "must be at least %v", minRefresh)
	}
	if c.MaxBadShare <= 0 || c.MaxBadShare > 1 {
		p.add("max_bad_share", "must be above 0 and at most 1")
	}
	if len(c.Lists) > maxLists {
		p.add("lists", "%d are too many, the limit is %d", len(c.Lists), maxLists)
	}
	seen := map[string]bool{}
	for i := range c.Lists {
		l := &c.Lists[i]
		path := fmt.Sprintf("lists[%d]", i)
		switch {
		case !listName.MatchString(l.Name):
			p.add(path+".name", "%q: letters, digits, dot, dash and underscore, at most 64", l.Name)
		case slices.Contains([]string{listAPI, listInline, listPatterns, ListCrawlers}, l.Name):
			p.add(path+".name", "%q is the name of a list of ours", l.Name)
		case seen[l.Name]:
			p.add(path+".name", "%q is used twice", l.Name)
		}
		seen[l.Name] = true
		l.validate(path, c, &p)
	}
	for _, in := range c.inline() {
		validateEntries(in.flag.String(), in.entries, c.AllowWide || in.flag == White, &p)
	}
	c.validateRules(&p)
	return errors.Join(p...)
}

// validateEntries checks entries from the configuration: there, a bad one is an error.
func validateEntries(path string, entries []string, wide bool, p *problems) {
	for i, e := range entries {
		text, _, _ := splitLine([]byte(strings.TrimSpace(e)))
		it, err := parseItem(text)
		switch {
		case err != nil:
			p.add(fmt.Sprintf("%s[%d]", path, i), "%q: %w", e, err)
		case len(e) > maxLine:
			p.add(fmt.Sprintf("%s[%d]", path, i), "longer than %d bytes", maxLine)
		case !wide && it.wide():
			p.add(fmt.Sprintf("%s[%d]", path, i), "%q: %w", e, ErrTooWide)
		}
	}
}

func validateURL(path, s string, p *problems) {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		p.add(path, "no URL") // the error would print it, and it may carry a token
	case u.Scheme != "http" && u.Scheme != "https":
		p.add(path, "scheme %q: http or https", u.Scheme)
	case u.Host == "":
		p.add(path, "no host")
	}
}

func (c *Config) validateRules(p *problems) {
	cc := &c.Crawlers
	for i, name := range cc.Builtin {
		if !slices.ContainsFunc(builtinCrawlers(), func(b CrawlerConfig) bool { return b.Name == name }) {
			p.add(fmt.Sprintf("crawlers.builtin[%d]", i), "there is no built-in crawler %q", name)
		}
	}
	if len(cc.Own) > maxCrawlers {
		p.add("crawlers.own", "%d are too many, the limit is %d", len(cc.Own), maxCrawlers)
		return
	}
	seen := map[string]bool{}
	for i := range cc.Own {
		o := &cc.Own[i]
		path := fmt.Sprintf("crawlers.own[%d]", i)
		if !listName.MatchString(o.Name) || seen[o.Name] || slices.Contains(cc.Builtin, o.Name) {
			p.add(path+".name", "%q: letters, digits, dot, dash and underscore, and no other crawler's", o.Name)
		}
		seen[o.Name] = true
		o.validate(path, p)
	}
	cc.DNS.validate(p)
	if _, err := compileRules(c.Patterns, nil); err != nil {
		*p = append(*p, err)
	}
	names := map[string]bool{}
	for i := range c.Patterns {
		if n := c.Patterns[i].Name; !listName.MatchString(n) || names[n] {
			p.add(fmt.Sprintf("patterns[%d].name", i), "%q: letters, digits, dot, dash and underscore, used once", n)
		}
		names[c.Patterns[i].Name] = true
	}
}

func (c *CrawlerConfig) validate(path string, p *problems) {
	if len(c.UserAgent)+len(c.UserAgentRegex) == 0 {
		p.add(path+".user_agent", "how does it call itself?")
	}
	for i, s := range c.UserAgent {
		if len(strings.TrimSpace(s)) < 3 || len(s) > maxExpr {
			p.add(fmt.Sprintf("%s.user_agent[%d]", path, i), "%q: at least three bytes", s)
		}
	}
	if len(c.RangeURLs)+len(c.RangeFiles)+len(c.Ranges)+len(c.ReverseDNS) == 0 {
		p.add(path, "a user agent alone proves nothing: ranges or reverse_dns are needed")
	}
	for i, u := range c.RangeURLs {
		validateURL(fmt.Sprintf("%s.range_urls[%d]", path, i), u, p)
	}
	for i, f := range c.RangeFiles {
		if f == "" {
			p.add(fmt.Sprintf("%s.range_files[%d]", path, i), "is empty")
		}
	}
	validateEntries(path+".ranges", c.Ranges, false, p)
	for i, s := range c.ReverseDNS {
		if t := strings.Trim(s, "."); !strings.Contains(t, ".") || strings.ContainsAny(t, " */:\\") {
			p.add(fmt.Sprintf("%s.reverse_dns[%d]", path, i), "%q: a domain below a top-level one", s)
		}
	}
	if _, errs := newCrawler(c); len(errs) > 0 {
		p.add(path+".user_agent_regex", "%w", errors.Join(errs...))
	}
}

func (d *DNSConfig) validate(p *problems) {
	const at = "crawlers.dns."
	p.positive(at+"workers", d.Workers > 0)
	p.positive(at+"queue", d.Queue > 0)
	p.positive(at+"lookups_per_second", d.LookupsPerSecond > 0)
	p.positive(at+"lookup_timeout", d.LookupTimeout > 0)
	p.positive(at+"positive_ttl", d.PositiveTTL > 0)
	p.positive(at+"negative_ttl", d.NegativeTTL > 0)
	p.positive(at+"failure_ttl", d.FailureTTL > 0)
	p.positive(at+"provisional_window", d.ProvisionalWindow > 0)
	if d.Failures < 1 || d.Failures > 100 {
		p.add(at+"failures", "must be between 1 and 100")
	}
	if d.Grace < 0 {
		p.add(at+"grace", "must not be negative")
	}
	if d.ProvisionalRequests < 0 || d.ProvisionalRequests > 100 {
		p.add(at+"provisional_requests", "must be between 0 and 100")
	}
	if d.ProvisionalPerSecond < 0 {
		p.add(at+"provisional_per_second", "must not be negative")
	}
	if d.CacheBytes < 512<<10 || d.CacheBytes > 1<<30 {
		p.add(at+"cache_bytes", "must be between 512 KiB and 1 GiB")
	}
}

// inlineList is the list of the configuration's entries with one flag.
type inlineList struct {
	flag    Flag
	entries []string
}

func (c *Config) inline() []inlineList {
	return []inlineList{{Block, c.Block}, {Ban, c.Ban}, {White, c.White}}
}
