package cbb

import (
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

// pattern is a compiled request pattern.
type pattern struct {
	entry   *Entry
	slot    uint8 // of the entry; slot, white and service are here so that a miss does not touch the entry
	white   bool
	anyPath bool
	service string
	methods []string // empty: any
	path    pathCond
	fields  []fieldCond
}

type fieldCond struct {
	field  int // index into ruleset.fields
	cond   int
	absent bool // the field must not be present
}

// ruleset holds the compiled patterns, and the user agents of the crawlers. It is immutable except for its memos.
type ruleset struct {
	patterns     []pattern
	fields       []*fieldMatcher
	agent        int // index of the user agent among the fields, -1
	firstCrawler int // the agent's conditions from here on are the crawlers', in order
}

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

// constantEqual compares in constant time: an exact header value may be a monitor's secret.
func constantEqual(a, b []byte) bool { return subtle.ConstantTimeCompare(a, b) == 1 }

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
		if request.EqualCGI(f.name, name) {
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
		entry: &Entry{
			List: listPatterns, Text: c.Name, Reason: cleanReason(c.Reason), Flag: flag, Service: c.Service,
			Own: true,
		},
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

func (rs *ruleset) addField(p *pattern, c *HeaderConfig) error {
	if c.Name == "" || strings.ContainsAny(c.Name, " \t:\r\n") {
		return fmt.Errorf("name: %q is not a header name", c.Name)
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

type probe struct {
	v      *request.View
	rs     *ruleset
	loaded uint32 // fields that were looked up
	multi  uint32 // fields that occur more than once
	bits   [maxFields]*bitset
	paths  request.Paths
	forms  [request.MaxReadings]pathForm
	shaped bool // the paths have been computed
	cut    bool // the path is longer than the part that is matched
}

// begin prepares a probe, which may be used again, for a request; end drops the request's bytes.
func (p *probe) begin(v *request.View, rs *ruleset) {
	p.v, p.rs = v, rs
	p.loaded, p.multi = 0, 0
	clear(p.bits[:len(rs.fields)])
	p.shaped, p.cut = false, false
}

func (p *probe) end() {
	p.v = nil
	for i := range p.paths.All() {
		p.forms[i].path = nil
	}
	p.paths.Forget()
}

func (p *probe) load(i int) *bitset {
	bit := uint32(1) << i
	p.loaded |= bit
	f := p.rs.fields[i]
	n := 0
	for j := range p.v.Fields {
		if h := &p.v.Fields[j]; request.EqualCGI(h.Name, f.name) {
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

// holds tests a condition on a field. If several fields have the name, one match is enough to block or ban, but for
// white all must match: adding a field neither evades a block nor gains admission.
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
		if h := &p.v.Fields[j]; request.EqualCGI(h.Name, f.name) {
			if f.match(h.Value).has(c.cond) != white {
				return !white
			}
		}
	}
	return white
}

func (p *probe) shape() {
	p.shaped = true
	path := p.v.Path
	if len(path) > maxValue {
		path, p.cut = path[:maxValue], true
	}
	p.paths.Read(path)
	for i, form := range p.paths.All() {
		p.forms[i] = pathForm{path: form}
	}
}

// pathHolds tests a condition on the path. To block or ban, one reading that satisfies it is enough; for white all
// must, and the end of the path must be certain.
func (p *probe) pathHolds(c *pathCond, white bool) bool {
	if !p.shaped {
		p.shape()
	}
	for i := range p.paths.All() {
		if c.match(&p.forms[i]) != white {
			return !white
		}
	}
	return white && !p.cut && !p.paths.HasNUL()
}
