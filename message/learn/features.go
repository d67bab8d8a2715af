package learn

import (
	"math/bits"
	"strings"
	"sync/atomic"
	"unicode"
	"unicode/utf8"

	"github.com/kljensen/snowball/english"
	"github.com/kljensen/snowball/russian"

	"antirobot/request"
	"antirobot/rules"
	"antirobot/rules/skeleton"
)

// Features are stems of words and their pairs, hosts, shapes of numbers, signs, and characters and their pairs, all
// of the text's skeleton. Chinese and Japanese are read by letters and their pairs. A feature is a 64-bit hash and
// counts once per text.

type featureKind uint64

func recognisable(feature uint64) bool {
	k := featureKind(feature >> 61)
	return k == featureWord || k == featureHost || k == featureNumber
}

const (
	featureWord featureKind = iota + 1
	featurePair
	featureHost
	featureNumber
	featureSign
	featureGram
	featureShape
)

const characters = "letters and signs"

func (k featureKind) String() string {
	return [...]string{"", "word", "pair", "host", "number", "sign", "letters", "shape"}[k]
}

const (
	maxFeatures  = 1 << 16     // more than 64 KB of short words have
	maxStrong    = 3 * 1 << 14 // the others are kept for characters
	maxWordRunes = 40          // a longer word is cut
)

type extractor struct {
	stems  *stemCache
	reader skeleton.Reader

	features []uint64
	at       []uint32   // the word at which each feature comes first
	again    []repeated // features that come again more than a window later
	words    uint32
	seen     []noted
	round    uint32

	sums stepSums

	raw    []rune
	last   uint64
	before rune
	ends   []uint32
	noHost int

	explain bool
	names   []string
}

type noted struct {
	feature   uint64
	round, at uint32
}

type repeated struct {
	feature uint64
	at      uint32
}

func toLower(r rune) rune {
	if r < utf8.RuneSelf {
		return rune(request.Lower(byte(r)))
	}
	switch {
	case 0x430 <= r && r <= 0x45f:
		return r
	case 0x410 <= r && r <= 0x42f:
		return r + 0x20
	case 0x400 <= r && r <= 0x40f:
		return r + 0x50
	}
	return unicode.ToLower(r)
}

func newExtractor(stems *stemCache) *extractor {
	return &extractor{stems: stems}
}

func (x *extractor) begin(length int) {
	x.features, x.names, x.at, x.again, x.ends = x.features[:0], x.names[:0], x.at[:0], x.again[:0], x.ends[:0]
	x.words, x.last, x.before, x.noHost = 0, 0, 0, length
	room := 2 << bits.Len(uint(min(3*length+leastRoom, maxFeatures)))
	if room > cap(x.seen) {
		x.seen, x.round = make([]noted, room), 0
	}
	x.seen = x.seen[:room]
	if x.round++; x.round == 0 {
		clear(x.seen[:cap(x.seen)])
		x.round = 1
	}
}

const leastRoom = 64

func (x *extractor) add(kind featureKind, hash uint64, name func() string) {
	hash = rules.Mix(hash)>>3 | uint64(kind)<<61
	mask := uint64(len(x.seen) - 1)
	i := hash & mask
	for ; x.seen[i].round == x.round; i = (i + 1) & mask {
		if e := &x.seen[i]; e.feature == hash {
			if x.words >= e.at+windowSteps*windowStep {
				e.at = x.words
				x.again = append(x.again, repeated{hash, x.words})
			}
			return
		}
	}
	if len(x.features) == maxFeatures || kind != featureGram && len(x.features) >= maxStrong {
		return
	}
	x.seen[i] = noted{hash, x.round, x.words}
	x.features, x.at = append(x.features, hash), append(x.at, x.words)
	if x.explain {
		x.names = append(x.names, kind.String()+" "+name())
	}
}

// of returns the features of text, valid until the next call. The first strong ones are words, signs and the text
// as a whole; characters follow.
func (x *extractor) of(text string) (features []uint64, strong int) {
	text, marks := x.reader.Read(text)
	x.begin(len(text))
	shape := textShape{hidden: marks.Hidden, mixed: marks.Mixed, forms: marks.Shapes, spaced: marks.Spaced}
	for i := 0; i < len(text); {
		c := text[i]
		if c == ' ' {
			x.before = 0
			i++
			continue
		}
		if c < utf8.RuneSelf {
			if n := x.link(text[i:], i == 0 || !wordBefore(text, i)); n > 0 {
				shape.links++
				i += n
				x.wordEnds(i)
				continue
			}
		}
		r, n := utf8.DecodeRuneInString(text[i:])
		switch {
		case !rules.IsWord(r):
			x.sign(r, &shape)
			i += n
			continue
		case skeleton.Ideographic(r):
			x.ideograph(r)
			shape.words++
			i += n
		default:
			i += x.readWord(text[i:], &shape)
		}
		x.wordEnds(i)
	}
	all := x.words
	x.shapes(&shape)
	strong = len(x.features)
	x.characters(text)
	x.words = all
	return x.features, strong
}

func (x *extractor) wordEnds(at int) {
	x.ends = append(x.ends, uint32(at))
	x.words++
}

func wordBefore(text string, i int) bool {
	r, _ := utf8.DecodeLastRuneInString(text[:i])
	return rules.IsWord(r)
}

func (x *extractor) ideograph(r rune) {
	x.raw = append(x.raw[:0], r)
	hash := rules.Mix(uint64(r) | 1<<42)
	x.add(featureWord, hash, func() string { return string(r) })
	if before := x.before; before != 0 {
		x.add(featureWord, rules.Mix(uint64(before)<<21|uint64(r)|1<<43),
			func() string { return string([]rune{before, r}) })
	}
	x.before = r
	x.last = 0
}

type textShape struct {
	words, capitals, mixed, links, bangs, money, emoji, hidden, digits, mentions, forms, spaced int
}

func (x *extractor) readWord(text string, shape *textShape) int {
	x.raw, x.before = x.raw[:0], 0
	var latin, cyrillic, digits, upper, odd int
	end := 0
	for end < len(text) {
		r, n := utf8.DecodeRuneInString(text[end:])
		switch {
		case skeleton.Ideographic(r):
			n = 0
		case rules.IsWord(r):
		case r == '\'' || r == '’':
			if next, _ := utf8.DecodeRuneInString(text[end+n:]); end == 0 || !unicode.IsLetter(next) {
				n = 0
			}
		default:
			n = 0
		}
		if n == 0 {
			break
		}
		end += n
		if r == '\'' || r == '’' {
			continue
		}
		if low := toLower(r); low != r {
			upper++
			r = low
		}
		switch {
		case r < utf8.RuneSelf && 'a' <= r && r <= 'z':
			latin++
		case '0' <= r && r <= '9':
			digits++
		case skeleton.Cyrillic(r) || unicode.Is(unicode.Cyrillic, r):
			cyrillic++
		default:
			odd++
		}
		if len(x.raw) < maxWordRunes {
			x.raw = append(x.raw, r)
		}
	}
	shape.words++
	if upper > 1 && upper == latin+cyrillic {
		shape.capitals++
	}
	x.oneWord(latin, cyrillic, digits, odd, shape)
	return max(end, 1)
}

func (x *extractor) oneWord(latin, cyrillic, digits, odd int, shape *textShape) {
	if latin+cyrillic+odd == 0 {
		x.number(digits, shape)
		return
	}
	for i, r := range x.raw {
		if r == 'ё' {
			x.raw[i] = 'е'
		}
	}
	hash := x.stem(latin, cyrillic)
	x.add(featureWord, hash, func() string { return string(x.raw) })
	x.pair(hash)
}

func (x *extractor) pair(hash uint64) {
	if x.last != 0 {
		x.add(featurePair, bits.RotateLeft64(x.last, 21)^hash, func() string { return "… " + string(x.raw) })
	}
	x.last = hash
}

func (x *extractor) number(digits int, shape *textShape) {
	shape.digits++
	x.add(featureNumber, hashRunes(x.raw), func() string { return string(x.raw) })
	x.add(featureShape, uint64(0xfe00|min(digits, 16)), func() string { return "a number of digits" })
	x.pair(uint64(min(digits, 16)) | 1<<40)
}

func (x *extractor) sign(r rune, shape *textShape) {
	switch {
	case r < utf8.RuneSelf && r != '!' && r != '@' && r != '$':
	case r == '!':
		shape.bangs++
	case r == '@':
		shape.mentions++
	case unicode.Is(unicode.Sc, r):
		shape.money++
		x.add(featureSign, uint64(r), func() string { return string(r) })
	case r > 0x2000 && unicode.Is(unicode.So, r):
		shape.emoji++
		x.add(featureSign, uint64(r), func() string { return string(r) })
	}
	x.before = 0
}

func (x *extractor) shapes(s *textShape) {
	for i, n := range [...]int{
		s.capitals, s.mixed, s.links, s.bangs, s.money, s.emoji, s.hidden, s.digits, s.mentions,
		s.forms, s.spaced,
	} {
		if n == 0 {
			continue
		}
		name := [...]string{
			"capitals", "mixed alphabets", "links", "bangs", "money", "emoji", "hidden characters",
			"numbers", "mentions", "letters in other forms", "letters apart",
		}[i]
		level := min(bits.Len(uint(n)), 4)
		x.add(featureShape, uint64(i<<8|level), func() string { return name })
	}
	x.add(featureShape, uint64(0xff00|bits.Len(uint(s.words))), func() string { return "length" })
}

func (x *extractor) characters(text string) {
	x.words = 0
	before := ' '
	for i, r := range text {
		for int(x.words) < len(x.ends) && i >= int(x.ends[x.words]) {
			x.words++
		}
		if r <= ' ' || r >= utf8.RuneSelf && unicode.IsSpace(r) {
			if before != ' ' {
				x.character(before, ' ')
			}
			before = ' '
			continue
		}
		r = toLower(r)
		x.character(before, r)
		before = r
	}
	if before != ' ' {
		x.character(before, ' ')
	}
}

func (x *extractor) character(before, r rune) {
	x.add(featureGram, uint64(r), func() string { return "" })
	x.add(featureGram, uint64(before+1)<<21|uint64(r), func() string { return "" })
}

func (x *extractor) link(text string, atStart bool) int {
	if !atStart || len(text) < 4 {
		return 0
	}
	rest := text
	switch {
	case text[0] >= utf8.RuneSelf:
		return 0
	case request.HasPrefixFold(rest, "http://"):
		rest = rest[7:]
	case request.HasPrefixFold(rest, "https://"):
		rest = rest[8:]
	case request.HasPrefixFold(rest, "www."):
	case len(rest) > x.noHost:
		return 0 // within a run that was already tried
	default:
		ok, end := bareHost(rest)
		if !ok {
			x.noHost = len(rest) - end
			return 0
		}
	}
	skipped := len(text) - len(rest)
	if request.HasPrefixFold(rest, "www.") {
		rest, skipped = rest[4:], skipped+4
	}
	end := 0
	hash := uint64(rules.FNVOffset)
	for end < len(rest) && hostByte(rest[end]) {
		hash = (hash ^ uint64(request.Lower(rest[end]))) * rules.FNVPrime
		end++
	}
	if end == 0 {
		return 0
	}
	host := rest[:end]
	x.add(featureHost, hash, func() string { return strings.ToLower(host) })
	if dot := strings.LastIndexByte(host, '.'); dot >= 0 {
		x.add(featureHost, hashString(host[dot:]), func() string { return strings.ToLower(host[dot:]) })
	}
	for end < len(rest) && rest[end] > ' ' && rest[end] != '"' && rest[end] != '<' && rest[end] != '>' {
		end++
	}
	x.before = 0
	x.pair(1 << 41)
	return skipped + end
}

// bareHost finds a host without a scheme: ASCII labels, and a path or a known end. end is behind it, or behind a
// run without any.
func bareHost(s string) (ok bool, end int) {
	dot := -1
	for end < len(s) && hostByte(s[end]) {
		if s[end] == '.' {
			dot = end
		}
		end++
	}
	if dot <= 0 || dot == end-1 || end-dot > 8 || end < len(s) && s[end] >= utf8.RuneSelf {
		return false, end
	}
	top := s[dot+1 : end]
	for i := range len(top) {
		if c := request.Lower(top[i]); c < 'a' || c > 'z' {
			return false, end
		}
	}
	if end < len(s) && s[end] == '/' {
		return true, end
	}
	switch strings.ToLower(top) {
	case "com", "net", "org", "ru", "me", "io", "info", "biz", "xyz", "top", "shop", "site", "online", "club", "uk",
		"su", "ua", "by", "kz", "cc", "ly", "tk", "link", "live", "pro":
		return true, end
	}
	return false, end
}

func hostByte(c byte) bool {
	c = request.Lower(c)
	return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '.' || c == '-'
}

func hashRunes(runes []rune) uint64 {
	h := uint64(rules.FNVOffset)
	for _, r := range runes {
		h = (h ^ uint64(r)) * rules.FNVPrime
	}
	return rules.Mix(h)
}

func hashString(s string) uint64 {
	h := uint64(rules.FNVOffset)
	for i := range len(s) {
		h = (h ^ uint64(request.Lower(s[i]))) * rules.FNVPrime
	}
	return rules.Mix(h)
}

func (x *extractor) stem(latin, cyrillic int) uint64 {
	hash := hashRunes(x.raw)
	if len(x.raw) < 4 || latin > 0 == (cyrillic > 0) {
		return hash
	}
	if stem, ok := x.stems.get(hash); ok {
		return stem
	}
	var stem string
	if cyrillic > 0 {
		stem = russian.Stem(string(x.raw), true)
	} else {
		stem = english.Stem(string(x.raw), true)
	}
	out := uint64(rules.FNVOffset)
	for _, r := range stem {
		out = (out ^ uint64(r)) * rules.FNVPrime
	}
	out = rules.Mix(out)
	x.stems.put(hash, out)
	return out
}

// stemCache caches stems by hash in a fixed table without locks; a torn entry does not match its key. Safe for
// concurrent use.
type stemCache struct {
	entries []stemEntry
}

type stemEntry struct{ key, stem atomic.Uint64 }

func newStemCache(size int) *stemCache {
	return &stemCache{entries: make([]stemEntry, size)}
}

func (c *stemCache) places(hash uint64) (a, b *stemEntry) {
	n := uint64(len(c.entries))
	return &c.entries[hash%n], &c.entries[(hash>>32)%n]
}

func (c *stemCache) get(hash uint64) (uint64, bool) {
	a, b := c.places(hash)
	if stem := a.stem.Load(); a.key.Load()^stem == hash {
		return stem, true
	}
	stem := b.stem.Load()
	return stem, b.key.Load()^stem == hash
}

func (c *stemCache) put(hash, stem uint64) {
	e, other := c.places(hash)
	if e.key.Load() != 0 && other.key.Load() == 0 {
		e = other
	}
	e.key.Store(hash ^ stem)
	e.stem.Store(stem)
}
