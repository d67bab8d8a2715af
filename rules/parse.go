package rules

import (
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"antirobot/spelling"
)

// Parse checks the syntax of rules. Errors are *SyntaxError.
//
//	firewall  ::= rule+
//	rule      ::= [label ":"] ["if" ["not"] tags] statement
//	statement ::= "do" name "(" [param {"," param}] ")" ["mark" tags] ["score" number]
//	            | "skip" "to" label | "stop" "as" decision
//	param     ::= name "=" ( number | "\"" string "\"" )
//	tags      ::= tag {"," tag}
//
// "#" begins a comment. "mark" and "score" may change places.
func Parse(src string) (*Script, error) {
	p := parser{src: src}
	if len(src) > maxSource {
		return nil, &SyntaxError{Pos: Pos{1, 1}, Text: "the text has " + strconv.Itoa(len(src)) +
			" bytes, more than the limit of " + strconv.Itoa(maxSource)}
	}
	if !utf8.ValidString(src) {
		return nil, p.failAt(len(src)-len(validTail(src)), "the text is not UTF-8", "")
	}
	p.at = len(src) - len(strings.TrimPrefix(src, "\ufeff"))
	s := &Script{}
	for p.space(); p.at < len(src); p.space() {
		if len(s.Statements) == maxStatements {
			return nil, p.fail("more than " + strconv.Itoa(maxStatements) + " statements")
		}
		st, err := p.rule()
		if err != nil {
			return nil, err
		}
		s.Statements = append(s.Statements, st)
	}
	if len(s.Statements) == 0 {
		return nil, p.fail("there is no rule: do, skip or stop is expected")
	}
	return s, nil
}

func validTail(s string) string {
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n == 1 {
			break
		}
		s = s[n:]
	}
	return s
}

// parser is a recursive descent without tokens: whether a word is a keyword, a tag or a label depends on its place.
type parser struct {
	src string
	at  int

	known Pos
	seen  int
}

func (p *parser) pos(at int) Pos {
	if at < p.seen || p.known.Line == 0 {
		p.known, p.seen = Pos{1, 1}, 0
	}
	for ; p.seen < at; p.seen++ {
		switch c := p.src[p.seen]; {
		case c == '\n':
			p.known = Pos{p.known.Line + 1, 1}
		case utf8.RuneStart(c) && (p.seen > 0 || !strings.HasPrefix(p.src, "\ufeff")):
			p.known.Col++
		}
	}
	return p.known
}

func (p *parser) failAt(at int, text, hint string) error {
	return &SyntaxError{Pos: p.pos(at), Text: text, Hint: hint}
}

func (p *parser) fail(text string) error { return p.failAt(p.at, text, "") }

func (p *parser) expected(what string, candidates ...string) error {
	p.space()
	word := p.peek()
	found := "found "
	switch {
	case p.at == len(p.src):
		found += "the end"
	case word != "":
		found += strconv.Quote(short(word))
	default:
		r, _ := utf8.DecodeRuneInString(p.src[p.at:])
		found += strconv.Quote(string(r))
	}
	hint := ""
	if word != "" {
		hint = spelling.Nearest(word, candidates)
	}
	return p.failAt(p.at, "expected "+what+", "+found, hint)
}

func short(s string) string {
	if len(s) > 40 {
		return s[:40] + "…"
	}
	return s
}

func (p *parser) space() {
	for p.at < len(p.src) {
		r, n := utf8.DecodeRuneInString(p.src[p.at:])
		switch {
		case unicode.IsSpace(r):
			p.at += n
		case r == '#':
			if i := strings.IndexByte(p.src[p.at:], '\n'); i >= 0 {
				p.at += i
			} else {
				p.at = len(p.src)
			}
		default:
			return
		}
	}
}

func wordByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_'
}

func (p *parser) peek() string {
	end := p.at
	for end < len(p.src) && wordByte(p.src[end]) {
		end++
	}
	return p.src[p.at:end]
}

func (p *parser) word() (w string, at int) {
	p.space()
	w, at = p.peek(), p.at
	p.at += len(w)
	return w, at
}

func (p *parser) keyword(k string) bool {
	p.space()
	if p.peek() != k {
		return false
	}
	p.at += len(k)
	return true
}

func (p *parser) sign(c byte) bool {
	p.space()
	if p.at == len(p.src) || p.src[p.at] != c {
		return false
	}
	p.at++
	return true
}

func digits(w string) bool {
	return w != "" && strings.Trim(w, "0123456789") == ""
}

func plainName(w string) bool { return w != "" && strings.IndexByte(w, '_') < 0 }

// trimLabel makes 007 and 7 one label.
func trimLabel(w string) string {
	if t := strings.TrimLeft(w, "0"); t != "" {
		return t
	}
	return "0"
}

func (p *parser) rule() (st Statement, err error) {
	st.Pos = p.pos(p.at)
	if w := p.peek(); digits(w) {
		p.at += len(w)
		if !p.sign(':') {
			return st, p.expected(`":" after the label`)
		}
		st.Label = trimLabel(w)
	}
	if p.keyword("if") {
		st.Not = p.negation()
		if st.If, err = p.tags(); err != nil {
			return st, err
		}
	}
	switch {
	case p.keyword("do"):
		st.Action = Do
		err = p.do(&st)
	case p.keyword("skip"):
		st.Action = Skip
		if !p.keyword("to") {
			return st, p.expected(`"to"`, "to")
		}
		w, at := p.word()
		if !digits(w) {
			p.at = at
			return st, p.expected("a label, which is of digits")
		}
		st.Target = trimLabel(w)
	case p.keyword("stop"):
		st.Action = Stop
		if !p.keyword("as") {
			return st, p.expected(`"as"`, "as")
		}
		w, at := p.word()
		if !plainName(w) {
			p.at = at
			return st, p.expected("a decision, which is of letters and digits")
		}
		st.Decision = w
	case st.If == nil && st.Label == "":
		err = p.expected("a rule: a label, if, do, skip or stop", "if", "do", "skip", "stop", "mark", "score")
	case st.If == nil:
		err = p.expected("if, do, skip or stop", "if", "do", "skip", "stop")
	default:
		err = p.expected(`"," or do, skip or stop`, "do", "skip", "stop")
	}
	return st, err
}

// negation skips the keyword not and reports whether it was there. It is a tag if no rule could follow otherwise,
// as in `if not do f()` and `if not, a do f()`.
func (p *parser) negation() bool {
	start := p.at
	if !p.keyword("not") {
		return false
	}
	after := p.at
	next, _ := p.word()
	isTag := false
	switch {
	case next == "":
		isTag = p.sign(',')
	case p.sign(',') || p.statementAhead():
	default:
		p.at = after
		isTag = p.statementAhead()
	}
	if p.at = after; isTag {
		p.at = start
	}
	return !isTag
}

func (p *parser) statementAhead() bool {
	start := p.at
	defer func() { p.at = start }()
	switch w, _ := p.word(); w {
	case "do":
		name, _ := p.word()
		return name != "" && p.sign('(')
	case "skip":
		return p.keyword("to")
	case "stop":
		return p.keyword("as")
	default:
		return false
	}
}

func (p *parser) tags() ([]Name, error) {
	var tags []Name
	for {
		w, at := p.word()
		if w == "" {
			return nil, p.expected("a tag, which is of letters, digits and _")
		}
		tags = append(tags, Name{p.pos(at), w})
		if !p.sign(',') {
			return tags, nil
		}
	}
}

func (p *parser) do(st *Statement) (err error) {
	w, at := p.word()
	if !plainName(w) {
		p.at = at
		return p.expected("the name of a rule, which is of letters and digits")
	}
	st.Rule = Name{p.pos(at), w}
	if !p.sign('(') {
		return p.expected(`"("`)
	}
	for first := true; !p.sign(')'); first = false {
		if !first && !p.sign(',') {
			return p.expected(`"," or ")"`)
		}
		param, err := p.param(first)
		if err != nil {
			return err
		}
		st.Params = append(st.Params, param)
	}
	for {
		switch {
		case st.Mark == nil && p.keyword("mark"):
			if st.Mark, err = p.tags(); err != nil {
				return err
			}
		case !st.HasScore && p.keyword("score"):
			p.space()
			l, err := p.number()
			if err != nil {
				return err
			}
			st.Score, st.HasScore = l.Number, true
		default:
			return nil
		}
	}
}

func (p *parser) param(first bool) (prm Param, err error) {
	w, at := p.word()
	if !plainName(w) {
		p.at = at
		if first {
			return prm, p.expected(`a parameter or ")"`)
		}
		return prm, p.expected("a parameter")
	}
	prm.Name = Name{p.pos(at), w}
	if !p.sign('=') {
		return prm, p.expected(`"=" after the parameter`)
	}
	if p.space(); p.at < len(p.src) && p.src[p.at] == '"' {
		prm.Value, err = p.text()
		return prm, err
	}
	prm.Value, err = p.number()
	return prm, err
}

func (p *parser) number() (l Literal, err error) {
	start := p.at
	if p.at < len(p.src) && p.src[p.at] == '-' {
		p.at++
	}
	whole := p.peek()
	if !digits(whole) {
		p.at = start
		return l, p.expected("a number or a text in double quotes")
	}
	p.at += len(whole)
	fraction := ""
	if p.at < len(p.src) && p.src[p.at] == '.' {
		p.at++
		if fraction = p.peek(); !digits(fraction) {
			return l, p.expected("digits after the point")
		}
		p.at += len(fraction)
	}
	l.Pos, l.Text = p.pos(start), p.src[start:p.at]
	if l.Number, err = strconv.ParseFloat(l.Text, 64); err != nil || math.IsInf(l.Number, 0) {
		return l, p.failAt(start, "the number "+short(l.Text)+" is too big", "")
	}
	if fraction == "" {
		l.Int, err = strconv.ParseInt(l.Text, 10, 64)
		l.Whole = err == nil
	}
	return l, nil
}

// text reads a quoted text. \" is a quote; every other backslash stays, so that regexps need no doubling.
func (p *parser) text() (l Literal, err error) {
	start := p.at
	end := start + 1
	escaped := false
	for ; end < len(p.src) && p.src[end] != '"'; end++ {
		if p.src[end] == '\\' && end+1 < len(p.src) {
			end++
			escaped = escaped || p.src[end] == '"'
		}
	}
	if end >= len(p.src) {
		return l, p.failAt(start, "the text has no closing quote", "")
	}
	l.Pos, l.IsText, l.Text = p.pos(start), true, p.src[start+1:end]
	p.at = end + 1
	if escaped {
		l.unescape()
	}
	return l, nil
}

func (l *Literal) unescape() {
	raw := l.Text
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		if raw[i] == '\\' && i+1 < len(raw) {
			if raw[i+1] != '"' {
				out = append(out, raw[i])
			}
			i++
		}
		out = append(out, raw[i])
	}
	l.Text = string(out)
}

func (l *Literal) place(i int) Pos {
	pos := l.Pos
	pos.Col++
	i = min(max(i, 0), len(l.Text))
	for _, r := range l.Text[:i] {
		if r == '\n' {
			pos = Pos{pos.Line + 1, 1}
			continue
		}
		pos.Col++
		if r == '"' {
			pos.Col++
		}
	}
	return pos
}
