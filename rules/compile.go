package rules

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"antirobot/spelling"
)

// Options say how a Program is compiled.
type Options struct {
	Time  time.Duration // of one run, checked between statements; 0: no limit
	Parts Part          // that Env will have
	Now   func() time.Time

	Lists      []List // nil: unknown, and any name compiles
	LooseLists bool   // an unknown list is a warning, not an error
	// Known names, for warnings; nil: unknown.
	Attributes             func(name string) bool
	Places                 bool // a file of places exists
	Storages, Models, Logs []string
	Elsewhere              []*Script // rules that share counters and events with these
	// Formulas are the models; nil: any name compiles, and the value is 0.
	Formulas Formulas
}

// DefaultOptions returns a limit of a second and all parts.
func DefaultOptions() Options { return Options{Time: time.Second, Parts: PartsAll} }

// Compile parses and builds rules. Errors are *SyntaxError.
func Compile(src string, o Options) (*Program, error) {
	s, err := Parse(src)
	if err != nil {
		return nil, err
	}
	return s.compile(o)
}

func (s *Script) compile(o Options) (*Program, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	c := compiler{
		options: o,
		numbers: make(map[string]uint16),
		table:   make(map[string]*rule),
		program: &Program{script: s, code: make([]instruction, len(s.Statements)), limit: o.Time, now: o.Now},
	}
	for _, r := range table() {
		c.table[r.name] = r
	}
	labels := make(map[string]int)
	for i := len(s.Statements) - 1; i >= 0; i-- {
		st := &s.Statements[i]
		in := &c.program.code[i]
		*in = instruction{line: st.Line, not: st.Not, action: st.Action, stop: st.Decision, score: st.Score, target: -1}
		if at, ok := labels[st.Target]; ok && st.Action == Skip {
			in.target = at
		}
		if st.Label != "" {
			labels[st.Label] = i
		}
	}
	for i := range s.Statements {
		if err := c.statement(&s.Statements[i], &c.program.code[i]); err != nil {
			return nil, err
		}
	}
	c.lint(s)
	return c.program, c.bindFormulas()
}

// Script returns what p was compiled from.
func (p *Program) Script() *Script { return p.script }

// Needs returns the parts of Env in use.
func (p *Program) Needs() Part { return p.parts }

// Programs of fewStatements are only timed where a check may wait.
const fewStatements = 64

type compiler struct {
	options Options
	numbers map[string]uint16
	table   map[string]*rule
	program *Program
	regexps int
	bind    []func(factors []string) error
}

func (c *compiler) statement(st *Statement, in *instruction) (err error) {
	if in.cond, err = c.tags(st.If); err != nil {
		return err
	}
	if in.marks, err = c.tags(st.Mark); err != nil {
		return err
	}
	if st.Action != Do {
		return nil
	}
	def, ok := c.table[st.Rule.Text]
	if !ok {
		return &SyntaxError{
			st.Rule.Pos, "there is no rule " + short(st.Rule.Text),
			spelling.Nearest(st.Rule.Text, ruleNames()),
		}
	}
	if lacks := def.needs &^ c.options.Parts; lacks != 0 {
		return &SyntaxError{Pos: st.Rule.Pos, Text: def.name + " can't be used here: there are no " + lacks.String()}
	}
	c.program.parts |= def.needs
	a, err := c.arguments(def, st)
	if err != nil {
		return err
	}
	in.counts = def.counts
	in.slow = def.needs != 0 || def.slow || len(a.matchers) > 0 || len(c.program.code) > fewStatements
	c.program.slow = c.program.slow || in.slow
	if def.lint != nil {
		if problem := def.lint(a); problem != "" {
			c.warn(st.Rule.Pos, def.name+": "+problem, "")
		}
	}
	in.check, err = def.build(a)
	return err
}

// String names the parts of p.
func (p Part) String() string {
	all := []string{"storages", "models", "logs", "counters", "lists", "formulas"}
	text := ""
	for i, name := range all {
		if p&(1<<i) == 0 {
			continue
		}
		if text != "" {
			text += ", "
		}
		text += name
	}
	return text
}

func (c *compiler) tags(list []Name) ([]uint16, error) {
	var out []uint16
	for _, t := range list {
		n, ok := c.numbers[t.Text]
		if !ok {
			if len(c.program.tags) >= maxTags {
				return nil, &SyntaxError{Pos: t.Pos, Text: "more than " + strconv.Itoa(maxTags) +
					" different tags"}
			}
			n = uint16(len(c.program.tags))
			c.numbers[t.Text] = n
			c.program.tags = append(c.program.tags, t.Text)
		}
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out, nil
}

type arguments struct {
	compiler *compiler
	rule     *rule
	at       Pos
	literals map[string]Literal
	matchers map[string]*matcher
}

func (c *compiler) arguments(def *rule, st *Statement) (*arguments, error) {
	a := &arguments{
		compiler: c, rule: def, at: st.Rule.Pos, literals: make(map[string]Literal),
		matchers: make(map[string]*matcher),
	}
	for _, p := range st.Params {
		i := slices.IndexFunc(def.params, func(d param) bool { return d.name == p.Name.Text })
		if i < 0 {
			known := make([]string, len(def.params))
			for j, d := range def.params {
				known[j] = d.name
			}
			return nil, &SyntaxError{
				p.Name.Pos, def.name + " has no parameter " + short(p.Name.Text),
				spelling.Nearest(p.Name.Text, known),
			}
		}
		if _, twice := a.literals[p.Name.Text]; twice {
			return nil, &SyntaxError{Pos: p.Name.Pos, Text: "the parameter " + p.Name.Text + " occurs twice"}
		}
		if err := c.check(a, &def.params[i], p.Value); err != nil {
			return nil, err
		}
		a.literals[p.Name.Text] = p.Value
	}
	for _, d := range def.params {
		if _, given := a.literals[d.name]; !given && d.value == "" {
			return nil, &SyntaxError{Pos: a.at, Text: def.name + " needs the parameter " + d.name}
		}
	}
	return a, nil
}

func (c *compiler) check(a *arguments, d *param, l Literal) error {
	wrong := func(what string) error {
		return &SyntaxError{Pos: l.Pos, Text: fmt.Sprintf("%s must be %s", d.name, what)}
	}
	switch d.kind {
	case kindText, kindRegexp, kindPeriod, kindNetworks, kindList, kindFormula, kindMarker, kindAttribute,
		kindAttributes, kindStorage, kindModel, kindLog:
		if !l.IsText {
			return wrong("a text in double quotes")
		}
	case kindType:
		if l.IsText || !l.Whole || l.Int < 0 || l.Int > math.MaxUint16 {
			return wrong("a whole number, 0 to 65535")
		}
	case kindWhole:
		if l.IsText || !l.Whole || l.Int < 0 {
			return wrong("a whole number, zero or more")
		}
	case kindSeconds:
		if l.IsText || l.Number < 0 || l.Number > math.MaxInt64/float64(time.Second)/2 {
			return wrong("a number of seconds")
		}
	case kindNumber:
		if l.IsText {
			return wrong("a number")
		}
	}
	switch d.kind {
	case kindRegexp:
		m, size, err := compileRegexp(l.Text, maxRegexps-c.regexps)
		var wrong *regexpError
		if errors.As(err, &wrong) {
			return &SyntaxError{Pos: l.place(wrong.at), Text: "regexp: " + wrong.text}
		} else if err != nil {
			return &SyntaxError{Pos: l.Pos, Text: err.Error()}
		}
		c.regexps += size
		a.matchers[d.name] = m
	case kindAttribute, kindAttributes, kindStorage, kindModel, kindLog:
		return c.look(d, l)
	case kindPeriod:
		if _, err := parsePeriod(l.Text); err != nil {
			return wrong(err.Error())
		}
	case kindList:
		return c.lookList(l)
	case kindFormula:
		if c.options.Formulas != nil {
			return c.known("formula", l, c.options.Formulas.Names())
		}
	case kindMarker:
		if _, ok := parseMarker(l.Text); !ok {
			return wrong(markers)
		}
	case kindNetworks:
		if bad, at := badNetwork(l.Text); bad != "" {
			return &SyntaxError{Pos: l.place(at), Text: short(bad) + " is not an address or a network"}
		}
	}
	return nil
}

func (c *compiler) known(what string, l Literal, names []string) error {
	if names == nil || slices.Contains(names, l.Text) {
		return nil
	}
	return &SyntaxError{l.Pos, "there is no " + what + " " + short(l.Text), spelling.Nearest(l.Text, names)}
}

func (a *arguments) text(name string) string {
	if l, ok := a.literals[name]; ok {
		return l.Text
	}
	return a.fallback(name).text
}

func (a *arguments) number(name string) float64 {
	if l, ok := a.literals[name]; ok {
		return l.Number
	}
	return a.fallback(name).number
}

func (a *arguments) whole(name string) int64 {
	if l, ok := a.literals[name]; ok {
		return l.Int
	}
	return int64(a.fallback(name).number)
}

func (a *arguments) given(name string) bool {
	_, ok := a.literals[name]
	return ok
}

func (a *arguments) seconds(name string) time.Duration {
	return time.Duration(a.number(name) * float64(time.Second))
}

func (a *arguments) period(name string) time.Duration {
	d, err := parsePeriod(a.text(name))
	if err != nil {
		panic("BUG: period was not checked: " + err.Error())
	}
	return d
}

func (a *arguments) matcher(name string) *matcher { return a.matchers[name] }

type defaultValue struct {
	text   string
	number float64
}

func (a *arguments) fallback(name string) (v defaultValue) {
	for _, d := range a.rule.params {
		if d.name != name {
			continue
		}
		if text, err := strconv.Unquote(d.value); err == nil {
			v.text = text
		} else if v.number, err = strconv.ParseFloat(d.value, 64); err != nil {
			v.number = 0
		}
		return v
	}
	panic("BUG: " + a.rule.name + " reads a parameter that it does not declare: " + name)
}
