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
	// ProvisionalRequests is how many requests of one address (IPv6: /64) pass within a window while it is looked up.
	ProvisionalRequests int `mapstructure:"provisional_requests"`
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

// bounds limit what lists and look-ups cost. Tests lower them.
type bounds struct {
	poll       time.Duration // of files
	fetch      time.Duration // one fetch as a whole
	bytes      int64         // of one list, compressed and plain
	maxEntries int           // of one list
	badShare   float64       // of the lines of a list, above which it is rejected
	runtime    int           // entries made over the API

	workers, queue   int
	lookupsPerSecond int
	lookupTimeout    time.Duration
	positiveTTL      time.Duration
	negativeTTL      time.Duration
	failureTTL       time.Duration // after the DNS failed to answer
	failures         int           // in a row after which an address is unproven for negativeTTL
	grace            time.Duration // for which requests of an address that is looked up pass,
	graceWindow      time.Duration // up to provisional_requests in this window,
	gracePerSecond   int           // and up to so many of all addresses
	dnsCache         int           // bytes
}

func defaultBounds() bounds {
	return bounds{
		poll: 5 * time.Second, fetch: 2 * time.Minute, bytes: 64 << 20, maxEntries: 2_000_000, badShare: 0.1, runtime: 100_000,
		workers: 8, queue: 1024, lookupsPerSecond: 50, lookupTimeout: 5 * time.Second,
		positiveTTL: 6 * time.Hour, negativeTTL: 10 * time.Minute, failureTTL: 15 * time.Second, failures: 3,
		grace: 2 * time.Second, graceWindow: 10 * time.Minute, gracePerSecond: 20, dnsCache: 4 << 20,
	}
}

// DefaultConfig returns the defaults: no lists, the built-in crawlers.
func DefaultConfig() Config {
	c := Config{
		Refresh:      5 * time.Minute,
		RefreshWhite: 24 * time.Hour,
		Crawlers:     CrawlersConfig{Enabled: true, ProvisionalRequests: 5},
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

// Validate returns all problems at once, each beginning with the path of its key. It uses neither disk nor network.
func (c *Config) Validate() error {
	var p problems
	if c.Refresh < minRefresh {
		p.add("refresh", "must be at least %v", minRefresh)
	}
	if c.RefreshWhite < minRefresh {
		p.add("refresh_white", "must be at least %v", minRefresh)
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
	if cc.ProvisionalRequests < 0 || cc.ProvisionalRequests > 100 {
		p.add("crawlers.provisional_requests", "must be between 0 and 100")
	}
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

// inlineList is the list of the configuration's entries with one flag.
type inlineList struct {
	flag    Flag
	entries []string
}

func (c *Config) inline() []inlineList {
	return []inlineList{{Block, c.Block}, {Ban, c.Ban}, {White, c.White}}
}
