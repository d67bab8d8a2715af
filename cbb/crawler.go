package cbb

import (
	"hash/fnv"
	"net/netip"
	"strings"
	"sync/atomic"

	"github.com/gaissmai/bart"

	"antirobot/request"
)

type crawler struct {
	name     string
	agent    condition
	suffixes []string                  // of names by reverse DNS, in lower case, without leading or trailing dots
	ranges   atomic.Pointer[bart.Lite] // nil until the first ranges are available
	sources  []*source                 // of the ranges
	static   *parsed                   // ranges from the configuration
	key      uint64                    // identifies the crawler and its suffixes in the cache of answers
	byRange  *Entry
	byDNS    *Entry
	maybe    *Entry
}

func newCrawler(c *CrawlerConfig) (*crawler, []error) {
	cr := &crawler{name: c.Name}
	for _, s := range c.UserAgent {
		cr.agent.contains = append(cr.agent.contains, request.AppendLower(nil, s))
	}
	var errs []error
	for _, expr := range c.UserAgentRegex {
		re, err := compileRegexp(expr)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		cr.agent.regexps = append(cr.agent.regexps, re)
	}
	h := fnv.New64a()
	for _, s := range c.ReverseDNS {
		s = strings.ToLower(strings.Trim(s, "."))
		cr.suffixes = append(cr.suffixes, s)
		_, _ = h.Write([]byte(s + "\x00"))
	}
	_, _ = h.Write([]byte(c.Name))
	cr.key = h.Sum64()
	entry := func(reason string) *Entry {
		return &Entry{List: ListCrawlers, Text: c.Name, Reason: reason, Flag: White}
	}
	cr.byRange = entry("crawler known by its published ranges")
	cr.byDNS = entry("crawler verified by reverse and forward DNS")
	cr.maybe = entry("crawler whose address is being looked up")
	cr.maybe.Provisional = true
	return cr, errs
}

func (c *crawler) rebuild() {
	var ds []*parsed
	if c.static != nil {
		ds = append(ds, c.static)
	}
	for _, s := range c.sources {
		if d := s.data.Load(); d != nil {
			ds = append(ds, d)
		}
	}
	if len(ds) > 0 {
		c.ranges.Store(buildRanges(ds))
	}
}

func (c *crawler) owns(name string) bool {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	for _, s := range c.suffixes {
		if rest, ok := strings.CutSuffix(name, s); ok && (rest == "" || strings.HasSuffix(rest, ".")) {
			return true
		}
	}
	return false
}

// crawlerEntry returns the white entry of a request that declares a crawler and comes from its address; nil
// otherwise. One verified crawler among those declared is enough; a refuted one rules out a provisional pass. honest
// is false if DNS has refuted the crawler, or its address is outside the known ranges and DNS does not confirm it.
func (s *snapshot) crawlerEntry(v *request.View, addr netip.Addr, ver *verifier) (white *Entry, honest bool) {
	if s.rules.agent < 0 {
		return nil, true
	}
	agent := v.Get("User-Agent")
	if len(agent) == 0 {
		return nil, true
	}
	bits := s.rules.fields[s.rules.agent].match(agent)
	first := s.rules.firstCrawler
	ask, outside := false, false
	bits.each(first, func(i int) bool {
		c := s.crawlers[i-first]
		if t := c.ranges.Load(); t != nil {
			if t.Contains(addr) {
				white = c.byRange
				return false
			}
			outside = true
		}
		ask = ask || len(c.suffixes) > 0
		return true
	})
	if white != nil || !ask {
		return white, white != nil || !outside
	}
	refuted := false
	bits.each(first, func(i int) bool {
		c := s.crawlers[i-first]
		if len(c.suffixes) == 0 {
			return true
		}
		switch ver.ask(c, addr, v.At) {
		case dnsConfirmed:
			white = c.byDNS
			return false
		case dnsRefuted:
			refuted = true
		case dnsMaybe:
			white = c.maybe
		}
		return true
	})
	if white != nil && white.Provisional && refuted {
		white = nil
	}
	return white, white != nil || !refuted && !outside
}

// CrawlerClaim is the lists' knowledge of a client that declares a crawler, without DNS.
type CrawlerClaim uint8

// The claims.
const (
	ClaimNone     CrawlerClaim = iota // it declares none
	ClaimUnknown                      // no published ranges are available: only DNS could tell
	ClaimVerified                     // its address is in the crawler's ranges
	ClaimOutside                      // ranges are available, and its address is in none of them
)

// Crawler returns the crawler that a User-Agent declares, a verified one if there are several. Not for the hot path.
func (l *Lists) Crawler(agent []byte, addr netip.Addr) (name string, is CrawlerClaim) {
	s := l.snap.Load()
	if s.rules.agent < 0 || len(agent) == 0 {
		return "", ClaimNone
	}
	bits := s.rules.fields[s.rules.agent].match(agent)
	bits.each(s.rules.firstCrawler, func(i int) bool {
		c := s.crawlers[i-s.rules.firstCrawler]
		claim := ClaimUnknown
		if t := c.ranges.Load(); t != nil {
			if claim = ClaimOutside; t.Contains(addr) {
				claim = ClaimVerified
			}
		}
		if name == "" || claim == ClaimVerified {
			name, is = c.name, claim
		}
		return claim != ClaimVerified
	})
	return name, is
}
