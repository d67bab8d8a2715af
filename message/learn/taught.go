package learn

import (
	"math/bits"
	"slices"
	"sync"
	"time"

	"antirobot/rules"
	"antirobot/rules/skeleton"
)

// Print is a fuzzy hash of a text: the least hashes of its words and pairs under 32 permutations. The share of
// equal hashes estimates the overlap (Broder, «On the resemblance and containment of documents», 1997).
type Print [printHashes]uint32

const (
	printHashes = 32
	// printWords is the least number of words: shorter texts are too common.
	printWords = 4
	// alike is the share of equal hashes of similar texts: 0.7 with a tenth of the words replaced, 0.1 for
	// unrelated texts.
	alike = 0.5
)

// Printer makes prints. The zero value is ready for use, by one goroutine at a time.
type Printer struct{ reader skeleton.Reader }

// Print returns the print of a text's skeleton; ok is false for too few words.
func (r *Printer) Print(text string) (p Print, ok bool) {
	text, _ = r.reader.Read(text)
	for i := range p {
		p[i] = 1<<32 - 1
	}
	words, last := 0, uint64(0)
	word := func(hash uint64) {
		words++
		p.add(rules.Mix(hash))
		if last != 0 {
			p.add(rules.Mix(bits.RotateLeft64(last, 21) ^ hash))
		}
		last = hash
	}
	hash, in := uint64(rules.FNVOffset), false
	for _, c := range text {
		if in && (!rules.IsWord(c) || skeleton.Ideographic(c)) {
			word(hash)
			in = false
		}
		switch {
		case skeleton.Ideographic(c):
			word(rules.Mix(uint64(c) | 1<<42))
		case rules.IsWord(c):
			if !in {
				hash, in = rules.FNVOffset, true
			}
			hash = (hash ^ uint64(toLower(c))) * rules.FNVPrime
		}
	}
	if in {
		word(hash)
	}
	return p, words >= printWords
}

func (p *Print) add(hash uint64) {
	a, b := uint32(hash), uint32(hash>>32)|1
	for i := range p {
		p[i] = min(p[i], scramble(a))
		a += b
	}
}

func scramble(h uint32) uint32 {
	h ^= h >> 16
	h *= 0x7feb352d
	h ^= h >> 15
	return h
}

func (p *Print) like(other *Print) float64 {
	same := 0
	for i := range p {
		if p[i] == other[i] {
			same++
		}
	}
	return float64(same) / printHashes
}

// Prints finds similar prints. It is bounded; the oldest go first. Safe for concurrent use.
type Prints struct {
	limit int

	mu    sync.RWMutex
	bands map[uint64][]*kept
	all   []*kept
}

type kept struct {
	print Print
	until time.Time
}

// NewPrints returns an empty set of at most limit prints, half a kilobyte each.
func NewPrints(limit int) *Prints {
	return &Prints{limit: limit, bands: make(map[uint64][]*kept)}
}

const bandHashes = 2 // prints that share a band are compared

func (p *Print) band(i int) uint64 {
	return rules.Mix(uint64(p[i])<<32|uint64(p[i+1])) + uint64(i)
}

// Add keeps a print until a time.
func (s *Prints) Add(p Print, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.equal(&p); k != nil {
		if until.After(k.until) {
			k.until = until
		}
		return
	}
	k := &kept{print: p, until: until}
	for i := 0; i < printHashes; i += bandHashes {
		b := p.band(i)
		s.bands[b] = append(s.bands[b], k)
	}
	s.all = append(s.all, k)
	for len(s.all) > s.limit {
		s.drop(s.all[0])
		s.all = s.all[1:]
	}
}

func (s *Prints) equal(p *Print) *kept {
	for _, k := range s.bands[p.band(0)] {
		if k.print == *p {
			return k
		}
	}
	return nil
}

func (s *Prints) drop(k *kept) {
	for i := 0; i < printHashes; i += bandHashes {
		b := k.print.band(i)
		rest := slices.DeleteFunc(s.bands[b], func(other *kept) bool { return other == k })
		if len(rest) == 0 {
			delete(s.bands, b)
		} else {
			s.bands[b] = rest
		}
	}
}

// Find returns the similarity of the most similar print, 0 if none is alike.
func (s *Prints) Find(p *Print, now time.Time) (likest float64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for i := 0; i < printHashes; i += bandHashes {
		for _, k := range s.bands[p.band(i)] {
			if now.Before(k.until) {
				likest = max(likest, k.print.like(p))
			}
		}
		if likest == 1 {
			break
		}
	}
	if likest < alike {
		return 0
	}
	return likest
}

// Remove removes expired prints and those similar to p.
func (s *Prints) Remove(p *Print, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = slices.DeleteFunc(s.all, func(k *kept) bool {
		gone := k.print.like(p) >= alike || !now.Before(k.until)
		if gone {
			s.drop(k)
		}
		return gone
	})
}

// Len returns how many prints there are.
func (s *Prints) Len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.all)
}
