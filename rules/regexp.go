package rules

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"antirobot/rules/skeleton"
)

// matcher matches a regexp at the start of a text, in linear time and without allocating.
type matcher struct {
	std *regexp.Regexp // nil: own runs it, because of a word boundary, which the library knows for ASCII only
	own *threads
}

func (m *matcher) match(text string) bool {
	if m.own != nil {
		return m.own.match(text)
	}
	return m.std.MatchString(text)
}

type regexpError struct {
	at   int
	text string
}

func (e *regexpError) Error() string { return e.text }

// oneRegexp bounds the instructions of one regexp.
const oneRegexp = 5000

// compileRegexp compiles an expression as Python's re.match reads it, except for constructs that are not linear. It
// refuses more than limit instructions before compiling.
func compileRegexp(expr string, limit int) (m *matcher, size int, err error) {
	limit = min(limit, oneRegexp)
	t := translator{in: expr, complements: limit / complementSize}
	if err := t.translate(); err != nil {
		return nil, 0, err
	}
	pattern := `\A(?:` + t.out.String() + `)`
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, 0, t.explain(err)
	}
	if size = instructions(tree, limit); size > limit {
		return nil, 0, errTooBig
	}
	if !t.boundary {
		std, err := regexp.Compile(pattern)
		return &matcher{std: std}, size, err
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, 0, t.explain(err)
	}
	return &matcher{own: newThreads(prog)}, size, nil
}

var errTooBig = &regexpError{0, "the regexps are too big together"}

func instructions(re *syntax.Regexp, limit int) int {
	n := 1
	for _, sub := range re.Sub {
		if n += instructions(sub, limit); n > limit {
			return n
		}
	}
	switch re.Op {
	case syntax.OpRepeat:
		n *= max(re.Min, re.Max) + 1
	case syntax.OpLiteral:
		n += len(re.Rune)
	case syntax.OpCharClass:
		n += len(re.Rune) / 64
	}
	return n
}

// Classes of Python; the library's \w, \d and \s are ASCII.
const (
	wordClass  = `\p{L}\p{N}_`
	digitClass = `\p{Nd}`
	spaceClass = `\s\v\x{1c}-\x{1f}\x{85}\p{Z}`
)

// IsWord reports whether r is of a word as Python and Unicode have it.
func IsWord(r rune) bool {
	if r < utf8.RuneSelf {
		return wordByte(byte(r))
	}
	return skeleton.Cyrillic(r) || r == '_' || unicode.IsLetter(r) || unicode.Is(unicode.N, r)
}

func isSpaceRune(r rune) bool {
	if 0x100 <= r && r < 0x1680 {
		return false // most letters, and no white space
	}
	return unicode.IsSpace(r) || 0x1c <= r && r <= 0x1f || unicode.Is(unicode.Z, r)
}

type translator struct {
	in          string
	out         strings.Builder
	boundary    bool
	complements int // negated classes that may still be spelt out
}

const complementSize = 200

func (t *translator) translate() error {
	for i := 0; i < len(t.in); {
		n, err := t.piece(i)
		if err != nil {
			return err
		}
		i += n
	}
	return nil
}

func (t *translator) piece(i int) (int, error) {
	rest := t.in[i:]
	switch rest[0] {
	case '\\':
		return t.escape(i)
	case '[':
		return t.class(i)
	case '(':
		return t.group(i)
	case '{':
		if strings.HasPrefix(rest, "{,") && len(rest) > 2 && (rest[2] == '}' || '0' <= rest[2] && rest[2] <= '9') {
			t.out.WriteString("{0,")
			return 2, nil
		}
	}
	t.out.WriteByte(rest[0])
	return 1, nil
}

func (t *translator) group(i int) (int, error) {
	refused := []struct{ prefix, what string }{
		{"(?=", "look-ahead"},
		{"(?!", "look-ahead"},
		{"(?<=", "look-behind"},
		{"(?<!", "look-behind"},
		{"(?P=", "a back-reference"},
		{"(?(", "a conditional group"},
		{"(?>", "an atomic group"},
	}
	rest := t.in[i:]
	for _, r := range refused {
		if strings.HasPrefix(rest, r.prefix) {
			return 0, &regexpError{i, r.what + " is not supported: regexps take linear time"}
		}
	}
	if strings.HasPrefix(rest, "(?#") {
		end := strings.IndexByte(rest, ')')
		if end < 0 {
			return 0, &regexpError{i, "the comment is not closed"}
		}
		return end + 1, nil
	}
	// Unicode is always on.
	if end := strings.IndexAny(rest, "):"); strings.HasPrefix(rest, "(?") && end > 2 &&
		strings.Trim(rest[2:end], "imsu") == "" {
		if flags := strings.ReplaceAll(rest[2:end], "u", ""); flags != "" || rest[end] == ':' {
			t.out.WriteString("(?" + flags + rest[end:end+1])
		}
		return end + 1, nil
	}
	t.out.WriteByte('(')
	return 1, nil
}

func (t *translator) escape(i int) (int, error) {
	rest := t.in[i:]
	if len(rest) == 1 {
		return 0, &regexpError{i, "a backslash stands at the end"}
	}
	switch c := rest[1]; c {
	case 'b', 'B':
		t.boundary = true
	case 'w', 'd', 's':
		t.out.WriteString("[" + classOf(c) + "]")
		return 2, nil
	case 'W', 'D', 'S':
		t.out.WriteString("[^" + classOf(c+'a'-'A') + "]")
		return 2, nil
	case 'Z':
		t.out.WriteString(`\z`)
		return 2, nil
	case '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return 0, &regexpError{i, "a back-reference is not supported: regexps take linear time"}
	}
	return t.character(rest)
}

// character translates an escaped character: the library knows \x{…} but not \u, and escapes only ASCII.
func (t *translator) character(rest string) (int, error) {
	hex := 0
	switch c := rest[1]; {
	case c == 'u':
		hex = 4
	case c == 'U':
		hex = 8
	case c >= utf8.RuneSelf:
		_, n := utf8.DecodeRuneInString(rest[1:])
		t.out.WriteString(rest[1 : 1+n])
		return 1 + n, nil
	}
	if hex > 0 && len(rest) >= 2+hex && strings.Trim(rest[2:2+hex], "0123456789abcdefABCDEF") == "" {
		t.out.WriteString(`\x{` + rest[2:2+hex] + `}`)
		return 2 + hex, nil
	}
	t.out.WriteString(rest[:2])
	return 2, nil
}

func (t *translator) class(start int) (int, error) {
	t.out.WriteByte('[')
	i := start + 1
	if strings.HasPrefix(t.in[i:], "^") {
		t.out.WriteByte('^')
		i++
	}
	for first := true; i < len(t.in) && (first || t.in[i] != ']'); first = false {
		rest := t.in[i:]
		switch {
		case rest[0] == '\\' && len(rest) > 1:
			n, err := t.classEscape(rest)
			if err != nil {
				return 0, err
			}
			i += n
			continue
		case rest[0] == '[' || rest[0] == ']':
			t.out.WriteByte('\\') // literal, not a named class
		}
		t.out.WriteByte(rest[0])
		i++
	}
	if i >= len(t.in) {
		return 0, &regexpError{start, "the class in brackets is not closed"}
	}
	t.out.WriteByte(']')
	return i + 1 - start, nil
}

func (t *translator) classEscape(rest string) (int, error) {
	switch c := rest[1]; c {
	case 'w', 'd', 's':
		t.out.WriteString(classOf(c))
		return 2, nil
	case 'W', 'D', 'S':
		if t.complements--; t.complements < 0 {
			return 0, errTooBig
		}
		t.out.WriteString(complement(c + 'a' - 'A'))
		return 2, nil
	case 'b':
		t.out.WriteString(`\x08`)
		return 2, nil
	}
	return t.character(rest)
}

func classOf(c byte) string {
	switch c {
	case 'w':
		return wordClass
	case 'd':
		return digitClass
	default:
		return spaceClass
	}
}

func complement(c byte) string {
	switch c {
	case 'w':
		return notWord()
	case 'd':
		return notDigit()
	default:
		return notSpace()
	}
}

// \W, \D and \S in a class, computed once.
var (
	notWord  = sync.OnceValue(func() string { return spellOutside(IsWord) })
	notDigit = sync.OnceValue(func() string { return spellOutside(unicode.IsDigit) })
	notSpace = sync.OnceValue(func() string { return spellOutside(isSpaceRune) })
)

func spellOutside(in func(r rune) bool) string {
	var b strings.Builder
	const hex = "0123456789abcdef"
	write := func(r rune) {
		b.WriteString(`\x{`)
		for shift := 20; shift >= 0; shift -= 4 {
			b.WriteByte(hex[r>>shift&15])
		}
		b.WriteByte('}')
	}
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if in(r) {
			continue
		}
		from := r
		for r < unicode.MaxRune && !in(r+1) {
			r++
		}
		write(from)
		b.WriteByte('-')
		write(r)
	}
	return b.String()
}

func (t *translator) explain(err error) error {
	var e *syntax.Error
	if !errors.As(err, &e) {
		return &regexpError{0, err.Error()}
	}
	at := max(0, strings.Index(t.in, e.Expr))
	if e.Code == syntax.ErrMissingParen || e.Code == syntax.ErrUnexpectedParen {
		at = 0
	}
	text := e.Code.String()
	if strings.Contains(t.in, e.Expr) && e.Expr != "" {
		text += ": " + short(e.Expr)
	}
	return &regexpError{at, text}
}

// threads runs a program on all its paths at once, with Unicode word boundaries.
type threads struct {
	prog  *syntax.Prog
	free  chan *threadSets
	start uint32
}

type threadSets struct {
	now, next, stack []uint32
	in               []uint32
	step             uint32
}

func newThreads(prog *syntax.Prog) *threads {
	return &threads{prog: prog, free: make(chan *threadSets, 16), start: uint32(prog.Start)}
}

func (t *threads) match(text string) bool {
	var s *threadSets
	select {
	case s = <-t.free:
	default:
		s = &threadSets{in: make([]uint32, len(t.prog.Inst))}
	}
	found := t.run(s, text)
	select {
	case t.free <- s:
	default:
	}
	return found
}

func (t *threads) run(s *threadSets, text string) bool {
	if s.step > 1<<31 {
		clear(s.in)
		s.step = 0
	}
	before, here, width := rune(-1), rune(-1), 0
	if text != "" {
		here, width = utf8.DecodeRuneInString(text)
	}
	s.step++
	s.now = s.now[:0]
	if t.add(s, &s.now, t.start, boundaries(before, here)) {
		return true
	}
	for at := 0; at < len(text) && len(s.now) > 0; {
		at += width
		before, here, width = here, -1, 0
		if at < len(text) {
			here, width = utf8.DecodeRuneInString(text[at:])
		}
		s.step++
		s.next = s.next[:0]
		flags := boundaries(before, here)
		for _, pc := range s.now {
			if inst := &t.prog.Inst[pc]; inst.MatchRune(before) && t.add(s, &s.next, inst.Out, flags) {
				return true
			}
		}
		s.now, s.next = s.next, s.now
	}
	return false
}

func (t *threads) add(s *threadSets, set *[]uint32, pc uint32, flags syntax.EmptyOp) bool {
	s.stack = append(s.stack[:0], pc)
	for len(s.stack) > 0 {
		pc := s.stack[len(s.stack)-1]
		s.stack = s.stack[:len(s.stack)-1]
		if s.in[pc] == s.step {
			continue
		}
		s.in[pc] = s.step
		switch inst := &t.prog.Inst[pc]; inst.Op {
		case syntax.InstMatch:
			return true
		case syntax.InstAlt, syntax.InstAltMatch:
			s.stack = append(s.stack, inst.Arg, inst.Out)
		case syntax.InstCapture, syntax.InstNop:
			s.stack = append(s.stack, inst.Out)
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(inst.Arg)&^flags == 0 {
				s.stack = append(s.stack, inst.Out)
			}
		case syntax.InstFail:
		default:
			*set = append(*set, pc)
		}
	}
	return false
}

// boundaries takes -1 for the ends of the text.
func boundaries(before, here rune) syntax.EmptyOp {
	flags := syntax.EmptyOpContext(before, here) &^ (syntax.EmptyWordBoundary | syntax.EmptyNoWordBoundary)
	if IsWord(before) != IsWord(here) {
		return flags | syntax.EmptyWordBoundary
	}
	return flags | syntax.EmptyNoWordBoundary
}
