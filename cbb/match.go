package cbb

import (
	"bytes"
	"hash/maphash"
	"math/bits"
	"regexp"
	"regexp/syntax"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"antirobot/request"
)

// A field's conditions are evaluated together: the same few values come again and again (a browser's user agent), so
// the result for a value is remembered by its hash, and a hundred patterns cost one hash and one load.

const (
	maxConds    = 512       // conditions on one header field
	maxValue    = 8 << 10   // bytes of a path or a value that are matched; only the beginning of a longer one is
	memoValue   = 1 << 10   // longer values are not remembered
	memoSlots   = 1 << 12   // remembered values of one field
	memoResults = 1<<12 - 1 // distinct results of one field, beyond which they are forgotten
)

type bitset [maxConds / 64]uint64

func (b *bitset) has(i int) bool { return b[i>>6]&(1<<(i&63)) != 0 }

func (b *bitset) set(i int) { b[i>>6] |= 1 << (i & 63) }

// each calls f for the set bits from first on, in order.
func (b *bitset) each(first int, f func(int) bool) {
	for w := first >> 6; w < len(b); w++ {
		x := b[w]
		if w == first>>6 {
			x &= ^uint64(0) << (first & 63)
		}
		for ; x != 0; x &= x - 1 {
			if !f(w<<6 + bits.TrailingZeros64(x)) {
				return
			}
		}
	}
}

type condition struct {
	exact    []byte   // nil: no such part
	contains [][]byte // lower case; any of them, or any of the regexps
	regexps  []filteredRegexp
	present  bool // any value will do
}

func (c *condition) match(value, lower []byte) bool {
	if c.present {
		return true
	}
	if c.exact != nil {
		return constantEqual(value, c.exact)
	}
	for _, s := range c.contains {
		if bytes.Contains(lower, s) {
			return true
		}
	}
	for i := range c.regexps {
		if c.regexps[i].match(value, lower) {
			return true
		}
	}
	return false
}

// filteredRegexp is a regexp behind a test for strings that each match must contain.
type filteredRegexp struct {
	re    *regexp.Regexp
	needs [][]byte // lower case
}

func (f *filteredRegexp) match(value, lower []byte) bool {
	for _, n := range f.needs {
		if !bytes.Contains(lower, n) {
			return false
		}
	}
	return f.re.Match(value)
}

// requiredLiterals returns strings, in lower case, that occur in the lower-cased form of every match. They allow a
// cheap test before the expensive one; returning none is always correct.
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

// literal cuts a literal where its lower-cased form may differ from its text: at the runes that fold beyond ASCII
// (the Kelvin sign is a k, the long s is an s), and at the replacement rune, which also matches bytes that are not
// UTF-8.
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

type fieldMatcher struct {
	name  string
	conds []condition
	memo  atomic.Pointer[memo]
}

// match returns the conditions that a value satisfies. The result is shared and must not be changed.
func (f *fieldMatcher) match(value []byte) *bitset {
	if len(value) > memoValue {
		b := new(bitset)
		f.compute(value[:min(len(value), maxValue)], b)
		return b
	}
	m := f.memo.Load()
	h := maphash.Bytes(m.seed, value)
	// The position in the table stands for ten bits of the hash and the slot holds 52: the seed is secret, so two
	// values that share them cannot be found.
	first := h % (memoSlots / memoWays) * memoWays
	for i := first; i < first+memoWays; i++ {
		if x := m.slots[i].Load(); x&^memoResults == h&^memoResults && x&memoResults != 0 {
			if b := m.results[x&memoResults].Load(); b != nil {
				return b
			}
		}
	}
	var b bitset
	f.compute(value, &b)
	n := m.number(&b)
	if n == 0 {
		f.memo.CompareAndSwap(m, newMemo())
		kept := b
		return &kept
	}
	m.put(first, h, n)
	return m.results[n].Load()
}

func (f *fieldMatcher) compute(value []byte, b *bitset) {
	var buf [memoValue]byte
	lower := buf[:0]
	for _, c := range value {
		lower = append(lower, request.Lower(c))
	}
	for i := range f.conds {
		if f.conds[i].match(value, lower) {
			b.set(i)
		}
	}
}

// memo remembers values by their hash, in sets of four slots: two common values that share a set do not evict each
// other.
type memo struct {
	seed    maphash.Seed
	slots   [memoSlots]atomic.Uint64 // hash of the value, its low bits replaced by a result's number; 0: free
	results [memoResults + 1]atomic.Pointer[bitset]
	mu      sync.Mutex
	numbers map[bitset]uint64
}

const memoWays = 4

func newMemo() *memo { return &memo{seed: maphash.MakeSeed(), numbers: map[bitset]uint64{}} }

func (m *memo) put(first, h, n uint64) {
	victim := first + h>>62
	for i := first; i < first+memoWays; i++ {
		if m.slots[i].Load() == 0 {
			victim = i
			break
		}
	}
	m.slots[victim].Store(h&^memoResults | n)
}

// number returns the number of a result, 0 when there are too many.
func (m *memo) number(b *bitset) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n, ok := m.numbers[*b]; ok {
		return n
	}
	n := uint64(len(m.numbers) + 1)
	if n > memoResults {
		return 0
	}
	kept := *b
	m.numbers[kept] = n
	m.results[n].Store(&kept)
	return n
}

// pathCond is a test of a path. At most one part is set.
type pathCond struct {
	exact  []byte
	prefix []byte
	re     *regexp.Regexp
	bloom  bloom // of what each match must contain
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

// bloom is the set of pairs of adjacent bytes in a string, ignoring case, folded into 256 bits. A string can contain
// another only if its bloom contains the other's.
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

// globRegexp translates a glob over the whole path: * is a run without slashes, ** any run, ? one byte but a slash.
// /**/ may also be a single slash.
func globRegexp(g string) string {
	var b strings.Builder
	b.WriteString(`(?s)^`)
	for i := 0; i < len(g); i++ {
		switch {
		case strings.HasPrefix(g[i:], "/**/"): // no segment, or several
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
