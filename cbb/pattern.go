package cbb

import (
	"bytes"
	"crypto/subtle"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"antirobot/request"
)

const (
	maxPatterns = 256
	maxFields   = 16   // distinct header names in patterns
	maxExpr     = 1024 // bytes of an expression, a prefix, a value
)

// pattern is a compiled request pattern. All its conditions must hold.
type pattern struct {
	entry   *Entry
	slot    uint8 // of the entry; it, white and service stand here so that a miss does not touch the entry
	white   bool
	anyPath bool
	service string
	methods []string // empty: any
	path    pathCond
	fields  []fieldCond
}

// fieldCond refers to a condition of a fieldMatcher.
type fieldCond struct {
	field  int // index into ruleset.fields
	cond   int
	absent bool // the field must not be there
}

// pathCond is a test of a path. At most one part is set.
type pathCond struct {
	exact  []byte
	prefix []byte
	re     *regexp.Regexp
	bloom  bloom // of what each match contains
}

func (c *pathCond) any() bool { return c.exact == nil && c.prefix == nil && c.re == nil }

func (c *pathCond) match(p *pathForm) bool {
	switch {
	case c.exact != nil:
		return bytes.Equal(p.path, c.exact)
	case c.prefix != nil:
		return bytes.HasPrefix(p.path, c.prefix)
	default:
		return p.may(&c.bloom) && c.re.Match(p.path)
	}
}

// bloom is the set of the pairs of neighbouring bytes in a string, without case, folded into 256 bits. A string can
// contain another only if its bloom does.
type bloom [4]uint64

func (b *bloom) add(s []byte) {
	for i := 1; i < len(s); i++ {
		h := request.Lower(s[i-1])*31 + request.Lower(s[i])
		b[h>>6] |= 1 << (h & 63)
	}
}

func (b *bloom) covers(o *bloom) bool {
	return o[0]&^b[0] == 0 && o[1]&^b[1] == 0 && o[2]&^b[2] == 0 && o[3]&^b[3] == 0
}

// pathForm is a path in one form, with its bloom once that is asked for.
type pathForm struct {
	path    []byte
	bloom   bloom
	bloomed bool
}

func (p *pathForm) may(need *bloom) bool {
	if !p.bloomed {
		p.bloom = bloom{}
		p.bloom.add(p.path)
		p.bloomed = true
	}
	return p.bloom.covers(need)
}

// ruleset is the compiled patterns, and the user agents of the crawlers. It is immutable but for its memory of values.
type ruleset struct {
	patterns     []pattern
	fields       []*fieldMatcher
	agent        int // index of the user agent among the fields, -1
	firstCrawler int // the agent's conditions from here on are the crawlers', in order
}

// probe is what is known of one request while patterns are tried.
type probe struct {
	v      *request.View
	rs     *ruleset
	loaded uint32 // fields that were looked up
	multi  uint32 // fields that occur more than once
	bits   [maxFields]*bitset
	raw    pathForm
	normal pathForm
	same   bool // the two forms are equal
	shaped bool // the paths are there
	cut    bool // the path is longer than what is matched
	buf    [512]byte
}

// begin readies a probe, which may have served before, for a request; end forgets the request's bytes.
func (p *probe) begin(v *request.View, rs *ruleset) {
	p.v, p.rs = v, rs
	p.loaded, p.multi = 0, 0
	clear(p.bits[:len(rs.fields)])
	p.raw.bloomed, p.normal.bloomed = false, false
	p.same, p.shaped, p.cut = false, false, false
}

func (p *probe) end() {
	p.v = nil
	p.raw.path, p.normal.path = nil, nil
}

// load finds what the first field of a name satisfies; nil when there is none.
func (p *probe) load(i int) *bitset {
	bit := uint32(1) << i
	p.loaded |= bit
	f := p.rs.fields[i]
	n := 0
	for j := range p.v.Fields {
		if h := &p.v.Fields[j]; request.EqualFold(h.Name, f.name) {
			if n++; n == 1 {
				p.bits[i] = f.match(h.Value)
			} else {
				p.multi |= bit
				break
			}
		}
	}
	return p.bits[i]
}

// holds tests a condition on a field. Of several fields of one name one is enough to block or ban, but for white all
// must satisfy it: whoever adds one neither escapes nor gets in.
func (p *probe) holds(c *fieldCond, white bool) bool {
	b := p.bits[c.field]
	if p.loaded&(1<<c.field) == 0 {
		b = p.load(c.field)
	}
	if c.absent {
		return b == nil
	}
	if b == nil {
		return false
	}
	if p.multi&(1<<c.field) == 0 {
		return b.has(c.cond)
	}
	f := p.rs.fields[c.field]
	for j := range p.v.Fields {
		if h := &p.v.Fields[j]; request.EqualFold(h.Name, f.name) {
			if f.match(h.Value).has(c.cond) != white {
				return !white
			}
		}
	}
	return white
}

// shape makes the two forms of the path.
func (p *probe) shape() {
	p.shaped = true
	path := p.v.Path
	if len(path) > maxValue {
		path, p.cut = path[:maxValue], true
	}
	p.raw.path = path
	if request.IsNormal(path) {
		p.same = true
		return
	}
	p.normal.path = request.NormalPath(p.buf[:0], path)
	p.same = bytes.Equal(p.normal.path, path)
}

func (p *probe) pathHolds(c *pathCond, white bool) bool {
	if !p.shaped {
		p.shape()
	}
	raw := c.match(&p.raw)
	if !white {
		return raw || !p.same && c.match(&p.normal)
	}
	return raw && !p.cut && (p.same || c.match(&p.normal))
}

// lookup fills m with the patterns that match.
func (rs *ruleset) lookup(m *Match, p *probe, service string) {
	var filled [slots]bool
	for i := range filled {
		filled[i] = *m.at(i) != nil
	}
next:
	for i := range rs.patterns {
		t := &rs.patterns[i]
		if filled[t.slot] || t.service != "" && t.service != service {
			continue
		}
		if len(t.methods) > 0 && !oneOf(p.v.Method, t.methods) {
			continue
		}
		for j := range t.fields {
			if !p.holds(&t.fields[j], t.white) {
				continue next
			}
		}
		if !t.anyPath && !p.pathHolds(&t.path, t.white) {
			continue
		}
		m.fill(t.entry)
		filled[t.slot] = true
	}
}

func oneOf(b []byte, list []string) bool {
	for _, s := range list {
		if string(b) == s {
			return true
		}
	}
	return false
}

// constantEqual compares in a time that does not tell how much is right: an exact header value may be a secret that a
// monitor is known by.
func constantEqual(a, b []byte) bool { return subtle.ConstantTimeCompare(a, b) == 1 }

// compileRules compiles patterns and the crawlers' user agents. The error names every problem.
func compileRules(patterns []PatternConfig, crawlers []*crawler) (*ruleset, error) {
	rs := &ruleset{agent: -1}
	var errs []error
	if len(patterns) > maxPatterns {
		return nil, fmt.Errorf("patterns: %d are too many, the limit is %d", len(patterns), maxPatterns)
	}
	for i := range patterns {
		p, err := rs.compile(&patterns[i])
		for _, e := range err {
			errs = append(errs, fmt.Errorf("patterns[%d].%w", i, e))
		}
		rs.patterns = append(rs.patterns, p)
	}
	if len(crawlers) > 0 {
		rs.agent = rs.fieldNamed("User-Agent")
		f := rs.fields[rs.agent]
		rs.firstCrawler = len(f.conds)
		for _, c := range crawlers {
			f.conds = append(f.conds, c.agent)
		}
	}
	if len(rs.fields) > maxFields {
		errs = append(errs, fmt.Errorf("patterns: more than %d different header names", maxFields))
	}
	for _, f := range rs.fields {
		if len(f.conds) > maxConds {
			errs = append(errs, fmt.Errorf("patterns: more than %d conditions on %s", maxConds, f.name))
		}
		f.memo.Store(newMemo())
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return rs, nil
}

func (rs *ruleset) fieldNamed(name string) int {
	for i, f := range rs.fields {
		if strings.EqualFold(f.name, name) {
			return i
		}
	}
	rs.fields = append(rs.fields, &fieldMatcher{name: name})
	return len(rs.fields) - 1
}

func (rs *ruleset) compile(c *PatternConfig) (pattern, []error) {
	var errs []error
	bad := func(key string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", key, err))
		}
	}
	flag, err := ParseFlag(c.Flag)
	bad("flag", err)
	p := pattern{
		entry:   &Entry{List: listPatterns, Text: c.Name, Reason: cleanReason(c.Reason), Flag: flag, Service: c.Service, Own: true},
		methods: c.Methods,
	}
	for i, m := range c.Methods {
		if m == "" || strings.ToUpper(m) != m || strings.ContainsAny(m, " \t/") {
			bad(fmt.Sprintf("methods[%d]", i), fmt.Errorf("%q is no method", m))
		}
	}
	p.slot, p.white, p.service = uint8(p.entry.slot()), flag == White, c.Service
	errs = append(errs, p.path.compile(c)...)
	p.anyPath = p.path.any()
	if c.UserAgent != "" || c.UserAgentRegex != "" {
		h := HeaderConfig{Name: "User-Agent", Contains: c.UserAgent, Regex: c.UserAgentRegex}
		bad("user_agent", rs.addField(&p, &h))
	}
	for i := range c.Headers {
		bad(fmt.Sprintf("headers[%d]", i), rs.addField(&p, &c.Headers[i]))
	}
	if len(errs) == 0 && len(p.methods) == 0 && p.anyPath && len(p.fields) == 0 {
		bad("name", errors.New("the pattern has no condition and would match every request"))
	}
	return p, errs
}

func (c *pathCond) compile(p *PatternConfig) (errs []error) {
	n := 0
	for _, part := range []struct{ key, val string }{
		{"path", p.Path}, {"path_prefix", p.PathPrefix}, {"path_glob", p.PathGlob}, {"path_regex", p.PathRegex},
	} {
		if part.val == "" {
			continue
		}
		n++
		expr := part.val
		switch {
		case len(part.val) > maxExpr:
			errs = append(errs, fmt.Errorf("%s: longer than %d bytes", part.key, maxExpr))
			continue
		case part.key != "path_regex" && part.val[0] != '/' && part.val[0] != '*':
			errs = append(errs, fmt.Errorf("%s: %q does not begin with a slash", part.key, part.val))
			continue
		case part.key == "path":
			c.exact = []byte(part.val)
			continue
		case part.key == "path_prefix":
			c.prefix = []byte(part.val)
			continue
		case part.key == "path_glob":
			expr = globRegexp(part.val)
		}
		re, err := compileRegexp(expr)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", part.key, err))
			continue
		}
		c.re = re.re
		for _, s := range re.needs {
			c.bloom.add(s)
		}
	}
	if n > 1 {
		errs = append(errs, errors.New("path: only one of path, path_prefix, path_glob and path_regex"))
	}
	return errs
}

// globRegexp translates a glob over the whole path: * is a run without slashes, ** any run, ? one byte but a slash. /**/
// may also be one slash: no folder is as good as some.
func globRegexp(g string) string {
	var b strings.Builder
	b.WriteString(`(?s)^`)
	for i := 0; i < len(g); i++ {
		switch {
		case strings.HasPrefix(g[i:], "/**/"): // no segment, or some
			b.WriteString(`(?:/.*)?`)
			i += len("/**") - 1
		case strings.HasPrefix(g[i:], "**"):
			b.WriteString(`.*`)
			i++
		case g[i] == '*':
			b.WriteString(`[^/]*`)
		case g[i] == '?':
			b.WriteString(`[^/]`)
		default:
			j := i
			for j++; j < len(g) && g[j] != '*' && g[j] != '?' && !strings.HasPrefix(g[j:], "/**/"); {
				j++
			}
			b.WriteString(regexp.QuoteMeta(g[i:j]))
			i = j - 1
		}
	}
	b.WriteString(`$`)
	return b.String()
}

func compileRegexp(expr string) (filteredRegexp, error) {
	if len(expr) > 4*maxExpr {
		return filteredRegexp{}, fmt.Errorf("longer than %d bytes", 4*maxExpr)
	}
	re, err := regexp.Compile(expr)
	if err != nil {
		return filteredRegexp{}, err
	}
	needs, err := requiredLiterals(expr)
	if err != nil {
		return filteredRegexp{}, err
	}
	return filteredRegexp{re: re, needs: needs}, nil
}

// addField compiles a condition on a header field.
func (rs *ruleset) addField(p *pattern, c *HeaderConfig) error {
	if c.Name == "" || strings.ContainsAny(c.Name, " \t:\r\n") {
		return fmt.Errorf("name: %q is no header name", c.Name)
	}
	n := 0
	for _, s := range []string{c.Value, c.Contains, c.Regex} {
		if len(s) > maxExpr {
			return fmt.Errorf("longer than %d bytes", maxExpr)
		}
		if s != "" {
			n++
		}
	}
	if c.Absent {
		if n++; n == 1 {
			p.fields = append(p.fields, fieldCond{field: rs.fieldNamed(c.Name), absent: true})
			return nil
		}
	}
	if n > 1 {
		return errors.New("only one of value, contains, regex and absent")
	}
	cond := condition{present: n == 0}
	switch {
	case c.Value != "":
		cond.exact = []byte(c.Value)
	case c.Contains != "":
		cond.contains = [][]byte{request.AppendLower(nil, c.Contains)}
	case c.Regex != "":
		re, err := compileRegexp(c.Regex)
		if err != nil {
			return fmt.Errorf("regex: %w", err)
		}
		cond.regexps = []filteredRegexp{re}
	}
	i := rs.fieldNamed(c.Name)
	f := rs.fields[i]
	f.conds = append(f.conds, cond)
	p.fields = append(p.fields, fieldCond{field: i, cond: len(f.conds) - 1})
	return nil
}
