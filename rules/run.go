package rules

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"antirobot/rules/skeleton"
	"antirobot/rules/texts"
)

// Unknown is the decision of rules that do not stop.
const Unknown = "UNKNOWN"

// Program is compiled rules, immutable and safe for concurrent use.
type Program struct {
	script *Script
	code   []instruction
	tags   []string
	limit  time.Duration
	now    func() time.Time
	parts  Part
	warned []SyntaxError
	slow   bool // an instruction is
	// factors are the inputs of formulas: the score, the tags, the observed numbers. Nil without formulas.
	factors []string
}

type tagSet []uint64

func (s tagSet) has(n uint16) bool { return s[n/64]&(1<<(n%64)) != 0 }

type instruction struct {
	line   int
	slow   bool  // the clock is checked after it
	counts bool  // the check observes a number
	count  []int // factors that get this number
	cond   []uint16
	not    bool
	action Action
	check  check
	marks  []uint16
	score  float64
	target int // of a skip; -1: no such label
	stop   string
}

// check is a rule with its parameters. False means that it found something.
type check func(ctx context.Context, e *Env, r *Run) (bool, error)

// Run is the reusable state of one run, for one goroutine at a time. The zero value is ready; results are valid
// until the next run.
type Run struct {
	// Trace keeps a log, line by line.
	Trace bool

	program  *Program
	tags     tagSet
	order    []uint16
	fired    tagSet
	score    float64
	decision string
	stop     int // -1: the end was reached
	log      strings.Builder

	factors  []float32
	number   float64
	observed bool

	wait time.Duration

	reader skeleton.Reader
	texts  texts.Reader
	buf    []byte
	key    []byte
	grams  []uint64
}

// Decision returns what the rules decided.
func (r *Run) Decision() string { return r.decision }

// Stop returns the number of the statement that decided; -1: none.
func (r *Run) Stop() int { return r.stop }

// Wait returns the longest wait for a token of an empty bucket; 0: none was empty.
func (r *Run) Wait() time.Duration { return r.wait }

// Score returns the sum of the scores of FALSE rules.
func (r *Run) Score() float64 { return r.score }

// AppendTags appends the tags in the order of their marking.
func (r *Run) AppendTags(dst []string) []string {
	for _, n := range r.order {
		dst = append(dst, r.program.tags[n])
	}
	return dst
}

// AppendFired appends the set of FALSE statements, a bit each.
func (r *Run) AppendFired(dst []uint64) []uint64 { return append(dst, r.fired...) }

// Log returns the log if Trace was set.
func (r *Run) Log() string { return r.log.String() }

// Note adds a line to the log.
func (r *Run) Note(line string) { r.tracef("%s", line) }

func (r *Run) begin(p *Program) {
	r.program, r.score, r.decision, r.stop, r.wait = p, 0, Unknown, -1, 0
	r.order = r.order[:0]
	r.tags = emptied(r.tags, len(p.tags))
	r.fired = emptied(r.fired, len(p.code))
	r.log.Reset()
	if p.factors != nil {
		r.beginFactors(p)
	}
}

func emptied(s tagSet, n int) tagSet {
	n = (n + 63) / 64
	if cap(s) < n {
		return make(tagSet, n)
	}
	s = s[:n]
	clear(s)
	return s
}

func (r *Run) mark(n uint16) {
	if !r.tags.has(n) {
		r.tags[n/64] |= 1 << (n % 64)
		r.order = append(r.order, n)
		if r.program.factors != nil {
			r.factors[1+n] = 1
		}
	}
}

func (r *Run) tracef(format string, args ...any) {
	if r.Trace {
		fmt.Fprintf(&r.log, format+"\n", args...)
	}
}

// Len returns the number of statements.
func (p *Program) Len() int { return len(p.code) }

// Line returns the line and the text of statement n.
func (p *Program) Line(n int) (line int, text string) {
	return p.code[n].line, p.script.Statements[n].String()
}

// AppendMarked appends the tags marked by a set of FALSE statements.
func (p *Program) AppendMarked(dst []string, fired []uint64) []string {
	from := len(dst)
	for i := range p.code {
		if i/64 >= len(fired) || fired[i/64]&(1<<(i%64)) == 0 {
			continue
		}
		for _, n := range p.code[i].marks {
			if !slices.Contains(dst[from:], p.tags[n]) {
				dst = append(dst, p.tags[n])
			}
		}
	}
	return dst
}

// Run judges the attributes of env; the result is in r. An error is a *Fault.
func (p *Program) Run(ctx context.Context, env *Env, r *Run) error {
	r.begin(p)
	env.links.Forget() // borrowed memory may hold another text now
	clock := clock{p: p}
	clock.start()
	for i := 0; i < len(p.code); {
		in := &p.code[i]
		if !r.holds(in) {
			if r.Trace {
				r.tracef("line %d: %s: passed over", in.line, &p.script.Statements[i])
			}
			i++
			continue
		}
		switch in.action {
		case Stop:
			r.decision, r.stop = in.stop, i
			if r.Trace {
				r.tracef("line %d: %s", in.line, &p.script.Statements[i])
			}
			return nil
		case Skip:
			if r.Trace {
				r.tracef("line %d: %s", in.line, &p.script.Statements[i])
			}
			if in.target < 0 {
				return Faultf(CodeLabel, "line %d: there is no label %s later in the rules", in.line,
					p.script.Statements[i].Target)
			}
			i = in.target
			continue
		}
		if err := p.do(ctx, env, r, i); err != nil {
			return err
		}
		if in.slow && clock.over() {
			f := Faultf(codeUnexpected, "line %d: the rules took longer than %s, at last %s", in.line, p.limit,
				p.ruleName(i))
			f.Line, f.Rule, f.Slow = in.line, p.ruleName(i), true
			return f
		}
		i++
	}
	if r.Trace {
		r.tracef("end: %s", Unknown)
	}
	return nil
}

// clock is the time limit of a run. A busy machine may suspend a run for longer than that, so the first overrun
// grants the rest of the run as much time again.
type clock struct {
	p    *Program
	end  time.Time
	late bool
}

func (c *clock) start() {
	if c.p.limit > 0 && c.p.slow {
		c.end = c.p.now().Add(c.p.limit)
	}
}

func (c *clock) over() bool {
	if c.end.IsZero() {
		return false
	}
	now := c.p.now()
	if !now.After(c.end) {
		return false
	}
	if c.late {
		return true
	}
	c.late, c.end = true, now.Add(c.p.limit)
	return false
}

func (r *Run) holds(in *instruction) bool {
	for _, n := range in.cond {
		if r.tags.has(n) == in.not {
			return false
		}
	}
	return true
}

func (p *Program) do(ctx context.Context, env *Env, r *Run, i int) error {
	in := &p.code[i]
	r.observed = false
	pass, err := in.check(ctx, env, r)
	if err != nil {
		if r.Trace {
			r.tracef("line %d: %s: error: %v", in.line, &p.script.Statements[i], err)
		}
		return p.faultAt(i, err)
	}
	if r.observed {
		for _, f := range in.count {
			r.factors[f] = float32(r.number)
		}
	}
	if !pass {
		r.fired[i/64] |= 1 << (i % 64)
		r.score += in.score
		for _, n := range in.marks {
			r.mark(n)
		}
	}
	if r.Trace {
		r.traceDo(in, p.script.Statements[i].String(), pass)
	}
	return nil
}

func (r *Run) traceDo(in *instruction, text string, pass bool) {
	verdict := "TRUE"
	if !pass {
		verdict = "FALSE"
		if len(in.marks) > 0 {
			verdict += ", marked"
		}
		if in.score != 0 {
			verdict += ", score " + strconv.FormatFloat(r.score, 'g', 6, 64)
		}
	}
	if r.observed {
		verdict += ", found " + strconv.FormatFloat(r.number, 'g', 4, 64)
	}
	r.tracef("line %d: %s: %s", in.line, text, verdict)
}

func (p *Program) ruleName(i int) string { return p.script.Statements[i].Rule.Text }

func (p *Program) faultAt(i int, err error) error {
	code := codeUnexpected
	var f *Fault
	if errors.As(err, &f) {
		code = f.Code
	}
	at := Faultf(code, "line %d: %v", p.code[i].line, err)
	at.Line, at.Rule, at.Slow = p.code[i].line, p.ruleName(i), errors.Is(err, context.DeadlineExceeded)
	return at
}

const (
	factorScore = "score"
	factorTag   = "tag_"
	factorCount = "count_"
)

// bindFormulas binds models once all tags are known.
func (c *compiler) bindFormulas() error {
	if len(c.bind) == 0 {
		return nil
	}
	p := c.program
	p.factors = append(p.factors, factorScore)
	for _, tag := range p.tags {
		p.factors = append(p.factors, factorTag+tag)
	}
	for i := range p.code {
		if !p.code[i].counts {
			continue
		}
		for _, n := range p.code[i].marks {
			name := factorCount + p.tags[n]
			at := slices.Index(p.factors, name)
			if at < 0 {
				at = len(p.factors)
				p.factors = append(p.factors, name)
			}
			p.code[i].count = append(p.code[i].count, at)
		}
	}
	for _, bind := range c.bind {
		if err := bind(p.factors); err != nil {
			return err
		}
	}
	return nil
}

func (r *Run) beginFactors(p *Program) {
	r.factors = slices.Grow(r.factors[:0], len(p.factors))[:len(p.factors)]
	clear(r.factors[:1+len(p.tags)])
	for i := 1 + len(p.tags); i < len(r.factors); i++ {
		r.factors[i] = float32(math.NaN())
	}
}

func (r *Run) observe(n float64) { r.number, r.observed = n, true }

func buildFormulaCheck(a *arguments) (check, error) {
	limit, name := a.number("limit"), a.literals["formula"]
	var model Scorer
	formulas := a.compiler.options.Formulas
	a.compiler.bind = append(a.compiler.bind, func(factors []string) (err error) {
		if formulas == nil {
			return nil
		}
		if model, err = formulas.Bind(name.Text, factors); err != nil {
			return &SyntaxError{Pos: name.Pos, Text: "formula " + short(name.Text) + ": " + err.Error()}
		}
		return nil
	})
	return func(_ context.Context, _ *Env, r *Run) (bool, error) {
		if model == nil {
			return true, nil
		}
		r.factors[0] = float32(r.score)
		return float64(model.Score(r.factors)) <= limit, nil
	}, nil
}
