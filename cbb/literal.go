package cbb

import (
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// requiredLiterals returns strings, in lower case, that occur in the lower-cased form of whatever the expression
// matches. They allow a cheap test before the expensive one; returning none is always correct.
func requiredLiterals(expr string) ([][]byte, error) {
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return nil, err
	}
	var out [][]byte
	collect(re, func(s string) {
		if len(s) >= 2 {
			out = append(out, []byte(s))
		}
	})
	return out, nil
}

func collect(re *syntax.Regexp, f func(string)) {
	switch re.Op {
	case syntax.OpLiteral:
		literal(re, f)
	case syntax.OpConcat, syntax.OpCapture, syntax.OpPlus:
		for _, s := range re.Sub {
			collect(s, f)
		}
	case syntax.OpRepeat:
		if re.Min > 0 {
			collect(re.Sub[0], f)
		}
	}
}

// literal cuts a literal where its lower-cased form may differ from its text: at the runes that fold beyond ASCII (the
// Kelvin sign is a k, the long s is an s), and at the replacement rune, which also matches bytes that are not UTF-8.
func literal(re *syntax.Regexp, f func(string)) {
	fold := re.Flags&syntax.FoldCase != 0
	var b strings.Builder
	flush := func() {
		f(b.String())
		b.Reset()
	}
	for _, r := range re.Rune {
		switch {
		case 'A' <= r && r <= 'Z':
			r += 'a' - 'A'
		case r == utf8.RuneError:
			flush()
			continue
		}
		if fold && (r == 'k' || r == 's' || r >= utf8.RuneSelf) {
			flush()
			continue
		}
		b.WriteRune(r)
	}
	flush()
}
