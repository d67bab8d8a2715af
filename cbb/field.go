package cbb

import (
	"bytes"
	"hash/maphash"
	"math/bits"
	"regexp"
	"sync"
	"sync/atomic"

	"antirobot/request"
)

// A field's conditions are evaluated together: the same few values come again and again (a browser's user agent), so
// which conditions a value satisfies is remembered by its hash, and a hundred patterns cost one hash and one load.

const (
	maxConds    = 512       // conditions on one header field
	maxValue    = 8 << 10   // bytes of a path or a value that are matched; only the beginning of a longer one is
	memoValue   = 1 << 10   // longer values are not remembered
	memoSlots   = 1 << 12   // remembered values of one field
	memoResults = 1<<12 - 1 // distinct results of one field, beyond which they are forgotten
)

// bitset says which of a field's conditions hold.
type bitset [maxConds / 64]uint64

func (b *bitset) has(i int) bool { return b[i>>6]&(1<<(i&63)) != 0 }
func (b *bitset) set(i int)      { b[i>>6] |= 1 << (i & 63) }

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

// condition is a test of one value. The parts that are set must all hold.
type condition struct {
	exact    []byte   // nil: no such part
	contains [][]byte // lower case; any of them, or any of the regexps
	regexps  []filteredRegexp
	present  bool // any value will do
}

// filteredRegexp is a regexp preceded by a test for strings that each match must contain.
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

// fieldMatcher answers all conditions on one header field.
type fieldMatcher struct {
	name  string
	conds []condition
	memo  atomic.Pointer[memo]
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

// match returns which conditions a value satisfies. The result is shared and must not be changed.
func (f *fieldMatcher) match(value []byte) *bitset {
	if len(value) > memoValue {
		b := new(bitset)
		f.compute(value[:min(len(value), maxValue)], b)
		return b
	}
	m := f.memo.Load()
	h := maphash.Bytes(m.seed, value)
	// The position in the table stands for ten bits of the hash and the slot holds 52: the seed is secret, and nobody
	// will find two values that share them.
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

// put remembers a result in a free slot of the set, or in place of another one.
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

// number returns the number of a result, from 1; 0 when there are too many.
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

// compute tests a value against every condition.
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
