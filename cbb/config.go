package cbb

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"antirobot/rules/texts"
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

	Refresh      time.Duration `mapstructure:"refresh"` // of block and ban lists from URLs
	RefreshWhite time.Duration `mapstructure:"-"`       // of white lists and crawlers' ranges from URLs
	AllowWide    bool          `mapstructure:"-"`       // own entries wider than /8, /16 that block or ban
}

// ListConfig is one list. Exactly one of File, URL and Entries is set.
type ListConfig struct {
	Name    string   `mapstructure:"name"`
	Enabled *bool    `mapstructure:"enabled"` // unset: true
	Flag    string   `mapstructure:"flag"`    // block, ban, white, or rules: looked up by name alone
	Of      string   `mapstructure:"of"`      // networks, if empty; or texts for rules: words, domains or keys
	File    string   `mapstructure:"file"`
	URL     string   `mapstructure:"url"`
	Entries []string `mapstructure:"entries"`
	Format  string   `mapstructure:"format"`   // auto, lines, json or crowdsec
	KeyFile string   `mapstructure:"key_file"` // of a bouncer's key, sent as X-Api-Key to a URL
	Service string   `mapstructure:"service"`  // empty: all
	Reason  string   `mapstructure:"reason"`   // of entries without a reason of their own
	// Own makes a file the operator's own: its blocks take precedence over white lists. Entries in the configuration
	// always do.
	Own         bool          `mapstructure:"own"`
	Refresh     time.Duration `mapstructure:"refresh"`       // 0: as for all
	MaxEntries  int           `mapstructure:"max_entries"`   // 0: as for all
	MaxBadShare float64       `mapstructure:"max_bad_share"` // 0: as for all
	MinCount    int           `mapstructure:"min_count"`     // for lists "address TAB count": lower counts are left out
	AllowWide   bool          `mapstructure:"allow_wide"`    // networks wider than /8 (IPv6: /16)
	AllowEmpty  bool          `mapstructure:"allow_empty"`   // may become empty after it had ten or more entries
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
	PathGlob       string         `mapstructure:"path_glob"`  // * without slashes, **, ?
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
	gracePerSecond   int           // and up to this number of all
	dnsCache         int           // bytes
}

func defaultBounds() bounds {
	return bounds{
		poll: 5 * time.Second, fetch: 2 * time.Minute, bytes: 64 << 20, maxEntries: 2_000_000, badShare: 0.1,
		runtime: 100_000,
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

// listName is the form of names in file names and metrics.
var listName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

type problems []error

func (p *problems) add(path, format string, args ...any) {
	*p = append(*p, fmt.Errorf("%s: "+format, append([]any{path}, args...)...))
}

// Validate returns all problems, each with the path of its key. It uses neither disk nor network.
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

// ofNetworks is the default of ListConfig.Of.
const ofNetworks = "networks"

// textKind returns the kind of texts of the list; false for networks.
func (l *ListConfig) textKind() (texts.Kind, bool) { return texts.ParseKind(l.Of) }

// flag returns what the list says about its entries.
func (l *ListConfig) flag() (Flag, error) {
	_, isTexts := l.textKind()
	switch {
	case l.Flag == ForRules.String(), l.Flag == "" && isTexts:
		return ForRules, nil
	case isTexts:
		return ForRules, fmt.Errorf("%q: a list of texts is for rules alone", l.Flag)
	}
	flag, err := ParseFlag(l.Flag)
	if err != nil {
		err = fmt.Errorf("%w, or rules for a list that is looked up by its name alone", err)
	}
	return flag, err
}

func (l *ListConfig) validate(path string, c *Config, p *problems) {
	flag, err := l.flag()
	if err != nil {
		p.add(path+".flag", "%w", err)
	}
	if _, isTexts := l.textKind(); !isTexts && l.Of != "" && l.Of != ofNetworks {
		p.add(path+".of", "%q: networks, words, domains or keys", l.Of)
	}
	n := 0
	for _, set := range []bool{l.File != "", l.URL != "", l.Entries != nil} {
		if set {
			n++
		}
	}
	if n != 1 {
		p.add(path, "exactly one of file, url and entries must be set")
	}
	if l.URL != "" {
		validateURL(path+".url", l.URL, p)
		if l.Own {
			p.add(path+".own", "a fetched list can't be the operator's own")
		}
	}
	if !slices.Contains([]string{"", formatAuto, formatLines, formatJSON, formatCrowdSec}, l.Format) {
		p.add(path+".format", "%q: auto, lines, json or crowdsec", l.Format)
	}
	if l.KeyFile != "" && l.URL == "" {
		p.add(path+".key_file", "is for a list from a url")
	}
	if l.Refresh != 0 && l.Refresh < minRefresh {
		p.add(path+".refresh", "must be at least %v", minRefresh)
	}
	if l.MaxEntries < 0 {
		p.add(path+".max_entries", "must not be negative")
	}
	if l.MinCount < 0 {
		p.add(path+".min_count", "must not be negative")
	}
	if l.MaxBadShare < 0 || l.MaxBadShare > 1 {
		p.add(path+".max_bad_share", "must be between 0 and 1")
	}
	if kind, ok := l.textKind(); ok {
		set := texts.New(kind)
		for i, e := range l.Entries {
			if err := set.Add(e); err != nil {
				p.add(fmt.Sprintf("%s.entries[%d]", path, i), "%q: %w", e, err)
			}
		}
		return
	}
	validateEntries(path+".entries", l.Entries, l.AllowWide || c.AllowWide || flag >= White, p)
}

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

type inlineList struct {
	flag    Flag
	entries []string
}

func (c *Config) inline() []inlineList {
	return []inlineList{{Block, c.Block}, {Ban, c.Ban}, {White, c.White}}
}

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

// Calls returns the URLs of lists and of crawlers' ranges.
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

// Names returns the names that Listed and Texts accept, and the kind of each list: words, domains, keys, or networks.
func (c *Config) Names() (names, of []string) {
	for _, own := range [...]string{listAPI, listInline, Block.String(), Ban.String(), White.String()} {
		names, of = append(names, own), append(of, ofNetworks)
	}
	for i := range c.Lists {
		names, of = append(names, c.Lists[i].Name), append(of, cmp.Or(c.Lists[i].Of, ofNetworks))
	}
	return names, of
}

// Networks returns the names of the enabled lists of networks.
func (c *Config) Networks() (names []string) {
	all, of := c.Names()
	for i, name := range all {
		off := slices.ContainsFunc(
			c.Lists, func(l ListConfig) bool { return l.Name == name && l.Enabled != nil && !*l.Enabled },
		)
		if of[i] == ofNetworks && !off {
			names = append(names, name)
		}
	}
	return names
}

// Warnings returns suspicious settings, each with its key: white entries for whole parts of the Internet, and
// patterns whose path can't be meant as written.
func (c *Config) Warnings() (w []string) {
	wide := func(key string, entries []string) {
		for i, e := range entries {
			text, _, _ := splitLine([]byte(strings.TrimSpace(e)))
			if it, err := parseItem(text); err == nil && it.wide() {
				w = append(
					w,
					fmt.Sprintf(
						"%s[%d]: %s is wider than /8 (IPv6: /16): no client in it is ever challenged", key, i, text,
					),
				)
			}
		}
	}
	wide("white", c.White)
	for i := range c.Lists {
		if l := &c.Lists[i]; l.Flag == White.String() {
			wide(fmt.Sprintf("lists[%d].entries", i), l.Entries)
		}
	}
	for i := range c.Patterns {
		for key, path := range map[string]string{"path": c.Patterns[i].Path, "path_prefix": c.Patterns[i].PathPrefix} {
			if strings.Contains(path, "*") {
				w = append(
					w,
					fmt.Sprintf(
						"patterns[%d].%s: the * in %s stands for itself; path_glob has wildcards", i, key, path,
					),
				)
			}
		}
	}
	return w
}

// builtinCrawlers returns the search engines that publish how to verify them, and link-preview fetchers that can be
// verified, by the publishers' own pages (testdata/SOURCE.md). Other robots are the operator's choice.
func builtinCrawlers() []CrawlerConfig {
	const google = "https://developers.google.com/static/search/apis/ipranges/"
	return []CrawlerConfig{
		{
			Name: "googlebot",
			UserAgent: []string{
				"Googlebot", "GoogleOther", "Google-InspectionTool", "Storebot-Google", "Google-CloudVertexBot",
			},
			RangeURLs:  []string{google + "googlebot.json"},
			ReverseDNS: []string{"googlebot.com"},
		},
		{
			Name:       "google-special",
			UserAgent:  []string{"AdsBot-Google", "Mediapartners-Google", "APIs-Google", "Google-Safety"},
			RangeURLs:  []string{google + "special-crawlers.json"},
			ReverseDNS: []string{"google.com"},
		},
		{
			Name:       "bingbot",
			UserAgent:  []string{"bingbot", "adidxbot", "BingPreview", "MicrosoftPreview"},
			RangeURLs:  []string{"https://www.bing.com/toolbox/bingbot.json"},
			ReverseDNS: []string{"search.msn.com"},
		},
		{
			Name:       "yandex",
			UserAgent:  []string{"yandex.com/bots"},
			ReverseDNS: []string{"yandex.ru", "yandex.net", "yandex.com"},
		},
		{
			Name:      "duckduckbot",
			UserAgent: []string{"DuckDuckBot", "DuckAssistBot"},
			RangeURLs: []string{"https://duckduckgo.com/duckduckbot.json", "https://duckduckgo.com/duckassistbot.json"},
		},
		{
			Name:       "applebot",
			UserAgent:  []string{"Applebot"},
			RangeURLs:  []string{"https://search.developer.apple.com/applebot.json"},
			ReverseDNS: []string{"applebot.apple.com"},
		},
		{Name: "baiduspider", UserAgent: []string{"Baiduspider"}, ReverseDNS: []string{"baidu.com", "baidu.jp"}},
		{Name: "yahoo-slurp", UserAgent: []string{"Yahoo! Slurp"}, ReverseDNS: []string{"crawl.yahoo.net"}},
		{Name: "seznambot", UserAgent: []string{"SeznamBot"}, ReverseDNS: []string{"seznam.cz"}},
		{Name: "petalbot", UserAgent: []string{"PetalBot"}, ReverseDNS: []string{"petalsearch.com"}},

		// Link-preview fetchers. Phones that preview links by themselves (iMessage) and other messengers (KakaoTalk)
		// send parts of these names, so the names are matched as a whole.
		{
			Name: "facebook-preview", UserAgentRegex: []string{`^facebookexternalhit/1\.[01](?: \(\+http|$)`},
			ReverseDNS: []string{"fbsv.net", "facebook.com"},
		},
		{Name: "linkedin-preview", UserAgentRegex: []string{`^LinkedInBot/`}, ReverseDNS: []string{"fwd.linkedin.com"}},
		{
			Name: "twitter-preview", UserAgentRegex: []string{`^Twitterbot/`},
			ReverseDNS: []string{"twttr.com", "twitter.com"},
		},
		{
			Name: "telegram-preview", UserAgentRegex: []string{`^TelegramBot \(`},
			RangeURLs: []string{"https://core.telegram.org/resources/cidr.txt"},
			Ranges: []string{
				"91.105.192.0/23", "91.108.4.0/22", "91.108.8.0/22", "91.108.12.0/22", "91.108.16.0/22",
				"91.108.20.0/22", "91.108.56.0/22",
				"149.154.160.0/20", "185.76.151.0/24", "2001:67c:4e8::/48", "2001:b28:f23c::/48", "2001:b28:f23d::/48",
				"2001:b28:f23f::/48", "2a0a:f280::/32",
			},
		},
	}
}

// Amend changes one crawler, built-in or own, before New, and puts it into use. The error names the available
// crawlers.
func (c *CrawlersConfig) Amend(name string, change func(*CrawlerConfig)) error {
	c.Own = slices.Clone(c.Own)
	var names []string
	for i := range c.Own {
		if c.Own[i].Name == name {
			change(&c.Own[i])
			return nil
		}
		names = append(names, c.Own[i].Name)
	}
	for _, b := range builtinCrawlers() {
		names = append(names, b.Name)
		if b.Name != name {
			continue
		}
		if !c.FetchRanges {
			b.RangeURLs = nil
		}
		change(&b)
		c.Builtin = slices.DeleteFunc(slices.Clone(c.Builtin), func(n string) bool { return n == name })
		c.Own = append(c.Own, b)
		return nil
	}
	return fmt.Errorf("there is no crawler %q; there are %s", name, strings.Join(names, ", "))
}
