package rules

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"unicode"
	"unicode/utf8"
)

func appendSqueezed(dst []byte, s string) []byte {
	for _, r := range s {
		if !isSpaceRune(r) {
			dst = utf8.AppendRune(dst, unicode.ToLower(r))
		}
	}
	return dst
}

// Clip returns at most n bytes of s, whole characters.
func Clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

type floodLimits struct {
	minLength         int64
	minMean, variance float64
}

func (r *Run) flood(text string, l floodLimits) bool {
	text, _ = r.reader.Read(text)
	r.buf = appendSqueezed(r.buf[:0], text)
	n := int64(utf8.RuneCount(r.buf))
	if n < l.minLength || n < 3 {
		return false
	}
	grams := r.grams[:0]
	const three = 1<<63 - 1
	var window uint64
	seen := 0
	for b := r.buf; len(b) > 0; {
		c, size := utf8.DecodeRune(b)
		b = b[size:]
		window = (window<<21 | uint64(c)) & three
		if seen++; seen >= 3 {
			grams = append(grams, window)
		}
	}
	r.grams = grams
	slices.Sort(grams)
	distinct, squares := 0.0, 0.0
	for i := 0; i < len(grams); {
		from := i
		for i < len(grams) && grams[i] == grams[from] {
			i++
		}
		distinct++
		squares += float64(i-from) * float64(i-from)
	}
	total := float64(len(grams))
	mean, variance := total/distinct, 0.0
	if distinct > 1 {
		variance = (squares - total*mean) / (distinct - 1)
	}
	return mean > l.minMean && variance < l.variance
}

// The near-duplicate check pairs the least hashes of a text's shingles under several permutations: similar texts
// share pairs.
const (
	sketchPairs = 16
	nearPairs   = 3 // shared pairs of a near duplicate
)

// sketch fills out with the pairs of a text's shingles. Words are runs of letters and digits of the skeleton,
// without case.
func (r *Run) sketch(text string, words, minWords int64) (out [sketchPairs]uint64, ok bool) {
	text, _ = r.reader.Read(text)
	hashes := r.grams[:0]
	hash, in := uint64(FNVOffset), false
	for _, c := range text {
		if !IsWord(c) {
			if in {
				hashes = append(hashes, Mix(hash))
			}
			hash, in = FNVOffset, false
			continue
		}
		in = true
		hash = (hash ^ uint64(unicode.ToLower(c))) * FNVPrime
	}
	if in {
		hashes = append(hashes, Mix(hash))
	}
	r.grams = hashes
	if n := int64(len(hashes)); n < minWords || n < words {
		return out, false
	}
	var least [2 * sketchPairs]uint64
	for i := range least {
		least[i] = 1<<64 - 1
	}
	for i := 0; i+int(words) <= len(hashes); i++ {
		shingle := uint64(0)
		for _, h := range hashes[i : i+int(words)] {
			shingle = Mix(bits.RotateLeft64(shingle, 7) ^ h)
		}
		for j := range least {
			least[j] = min(least[j], Mix(shingle+uint64(j)*0x9e3779b97f4a7c15))
		}
	}
	for i := range out {
		out[i] = Mix(least[2*i] ^ bits.RotateLeft64(least[2*i+1], 29))
	}
	return out, true
}

// The parameters of 64-bit FNV-1a.
const (
	FNVOffset = 14695981039346656037
	FNVPrime  = 1099511628211
)

// Mix is the finaliser of MurmurHash3.
func Mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// appendValue appends a form of v that no other value has.
func appendValue(dst []byte, v Value) []byte {
	dst = append(dst, byte(v.Kind))
	switch v.Kind {
	case Text:
		return append(dst, v.Text...)
	case Int, UniqueInt:
		return binary.BigEndian.AppendUint64(dst, uint64(v.Int))
	case IP:
		b := v.IP.As16()
		return append(dst, b[:]...)
	}
	return dst
}
