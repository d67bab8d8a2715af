package sim

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"
)

// cacheless sorts have no cache across visits or load twice on purpose.
var cacheless = map[string]bool{
	"developer": true, "private": true, "in-app": true, "bad-line": true, "commuter": true, "lean": true, "translated": true,
	"hunter-phone": true,
}

// tally counts what was found about one sort.
type tally struct {
	label, visitors, lines, pages int
	refs, badRefs, twice, oldTabs int
}

type checker struct {
	out      io.Writer
	site     *Site
	subjects map[string]Subject
	by       map[string]*tally
	faults   map[string]int
	samples  map[string]string
	known    map[string]map[string]bool
	got      map[string]map[string]time.Time
	open     map[string]time.Time // redirects that wait for their target
	first    time.Time
	last     time.Time
	n        int
}

// Check verifies every log in the directories, prints counts by sort, and returns how many kinds of faults there are, -1 if
// there are no logs.
func Check(out io.Writer, dirs ...string) int {
	bad, logs := 0, 0
	for _, dir := range dirs {
		for _, b := range builds() {
			if _, err := os.Stat(filepath.Join(dir, b.name+".csv")); err != nil {
				continue
			}
			logs++
			c := &checker{
				out: out, site: b.site(0), subjects: map[string]Subject{}, by: map[string]*tally{}, faults: map[string]int{}, samples: map[string]string{},
				known: map[string]map[string]bool{}, got: map[string]map[string]time.Time{}, open: map[string]time.Time{},
			}
			if err := c.run(dir); err != nil {
				fmt.Fprintln(out, b.name, err)
				bad++
				continue
			}
			bad += c.report(dir)
		}
	}
	if logs == 0 {
		return -1
	}
	return bad
}

func (c *checker) run(dir string) error {
	raw, err := os.ReadFile(filepath.Join(dir, c.site.Name+".csv"))
	if err != nil {
		return err
	}
	for _, l := range strings.Split(strings.TrimSpace(string(raw)), "\n")[1:] {
		f := strings.Split(l, ",")
		c.subjects[f[0]] = Subject{num(f[1]), f[2]}
		t := c.by[f[2]]
		if t == nil {
			t = &tally{label: num(f[1])}
			c.by[f[2]] = t
		}
		t.visitors++
	}
	f, err := os.Open(filepath.Join(dir, c.site.Name+".json.gz"))
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	sc := bufio.NewScanner(z)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		var l Line
		if err := json.Unmarshal(sc.Bytes(), &l); err != nil {
			return err
		}
		c.line(&l)
	}
	return sc.Err()
}

func (c *checker) fault(kind string, l *Line) {
	c.faults[kind]++
	if c.samples[kind] == "" {
		b, _ := json.Marshal(l)
		c.samples[kind] = string(b)
	}
}

func (c *checker) line(l *Line) {
	c.n++
	t, err := time.Parse(Stamp, l.Time)
	if err != nil || t.Before(c.last) {
		c.fault("order", l)
	}
	c.last = t
	if c.first.IsZero() {
		c.first = t
	}
	s, ok := c.subjects[l.Visitor]
	if !ok {
		c.fault("no label", l)
		return
	}
	b := c.by[s.Sort]
	b.lines++
	if l.Dest == "document" || l.Dest == "" && strings.HasPrefix(l.Type, "text/html") {
		b.pages++
	}
	c.answer(l)
	c.headers(l)
	c.referer(l, s, b, t)
	c.cached(l, s, b, t)
	if c.known[l.Visitor] == nil {
		c.known[l.Visitor] = map[string]bool{}
	}
	c.known[l.Visitor][l.URI] = true
}

// answer checks that status, type and size agree.
func (c *checker) answer(l *Line) {
	switch {
	case (l.Status == 304 || l.Status == 204) && (l.Bytes != 0 || l.Type != ""):
		c.fault("body with 304 or 204", l)
	case l.Status == 200 && l.Type == "":
		c.fault("200 without type", l)
	case l.Method == "HEAD" && l.Bytes != 0:
		c.fault("HEAD with body", l)
	case l.Status == 200 && l.Dest == "image" && !strings.HasPrefix(l.Type, "image/"):
		c.fault("image of other type", l)
	case l.Status == 200 && l.Dest == "style" && l.Type != css:
		c.fault("style of other type", l)
	case l.Status == 200 && l.Dest == "document" && strings.HasPrefix(l.Type, "image/"):
		c.fault("document of other type", l)
	case l.Method == "POST" && l.Status == 304:
		c.fault("304 to POST", l)
	}
}

func (c *checker) headers(l *Line) {
	if (l.Mode == "") != (l.Dest == "") || (l.Mode == "") != (l.Site == "") {
		c.fault("part of the sec-fetch headers", l)
	}
	if !c.site.TLS && l.Mode != "" {
		c.fault("sec-fetch on plain http", l)
	}
	if l.Site == "same-origin" && l.Ref != "" && !inside(l.Ref, c.site) {
		c.fault("same-origin from elsewhere", l)
	}
	if l.Site == "none" && inside(l.Ref, c.site) && c.subjects[l.Visitor].Label == 0 {
		c.fault("none with own referer", l)
	}
	if l.Mode == "navigate" && !strings.HasPrefix(l.Accept, "text/html") {
		c.fault("navigate without accept of html", l)
	}
	if !inside(l.Ref, c.site) && strings.Count(l.Ref, "/") > 3 && l.Site == "cross-site" {
		c.fault("long referer from elsewhere", l)
	}
}

// referer checks that the page was one which the visitor had asked for.
func (c *checker) referer(l *Line, s Subject, b *tally, t time.Time) {
	if !inside(l.Ref, c.site) {
		return
	}
	b.refs++
	u := strings.TrimPrefix(l.Ref, c.site.origin())
	if c.site.Soft || c.known[l.Visitor][u] {
		return
	}
	if t.Sub(c.first) < 4*time.Hour { // was open when the log began
		if c.known[l.Visitor] == nil {
			c.known[l.Visitor] = map[string]bool{}
		}
		c.known[l.Visitor][u] = true
		return
	}
	if p := c.site.Get(&Req{Method: "GET", URL: u, At: t.UnixMilli(), Kind: "warm"}); p.Common {
		return // a style sheet that was cached before the log began
	}
	b.badRefs++
	if s.Label == 0 && (strings.Contains(l.UA, "Mobile") || s.Sort == "tab-hoarder") {
		b.oldTabs++ // phones keep their tabs and hoarders restore theirs, from before the log
		return
	}
	if s.Label == 0 {
		c.fault("referer never opened ("+s.Sort+")", l)
	}
}

// cached checks that nothing fresh is asked for again.
func (c *checker) cached(l *Line, s Subject, b *tally, t time.Time) {
	if l.Method != "GET" || l.Status != 200 {
		return
	}
	p := c.site.Get(&Req{Method: "GET", URL: l.URI, At: t.UnixMilli(), S: map[string]int{"login": 1}})
	if p.MaxAge < 600 || p.Status != 200 {
		return
	}
	if c.got[l.Visitor] == nil {
		c.got[l.Visitor] = map[string]time.Time{}
	}
	if old, ok := c.got[l.Visitor][l.URI]; ok && t.Sub(old) < time.Duration(p.MaxAge)*time.Second-time.Minute {
		b.twice++
		if s.Label == 0 && !cacheless[s.Sort] {
			c.fault("fresh part again ("+s.Sort+")", l)
		}
	}
	c.got[l.Visitor][l.URI] = t
}

func (c *checker) report(dir string) int {
	counts := [2]int{}
	for _, s := range c.subjects {
		counts[s.Label]++
	}
	fmt.Fprintf(c.out, "%s/%s: %d lines, %d people, %d robots, %s to %s\n", dir, c.site.Name, c.n, counts[0], counts[1], c.first.Format(Stamp), c.last.Format(Stamp))
	names := make([]string, 0, len(c.by))
	for n := range c.by {
		names = append(names, n)
	}
	sort.Slice(names, func(i, j int) bool {
		a, b := c.by[names[i]], c.by[names[j]]
		return a.label < b.label || a.label == b.label && names[i] < names[j]
	})
	fmt.Fprintf(c.out, "  %-24s %5s %8s %8s %8s %7s %7s %6s\n", "sort", "label", "visitors", "lines", "pages", "refs", "badrefs", "twice")
	for _, n := range names {
		t := c.by[n]
		fmt.Fprintf(c.out, "  %-24s %5d %8d %8d %8d %7d %7d %6d\n", n, t.label, t.visitors, t.lines, t.pages, t.refs, t.badRefs, t.twice)
	}
	for _, n := range names {
		if t := c.by[n]; t.oldTabs*20 > t.refs+100 {
			c.faults["too many pages from before the log ("+n+")"] = t.oldTabs
		}
	}
	kinds := make([]string, 0, len(c.faults))
	for k := range c.faults {
		kinds = append(kinds, k)
	}
	sort.Strings(kinds)
	for _, k := range kinds {
		fmt.Fprintf(c.out, "  FAULT %s: %d, as %s\n", k, c.faults[k], c.samples[k])
	}
	return len(kinds)
}
