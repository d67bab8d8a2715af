package learn

import (
	"sync/atomic"

	"github.com/kljensen/snowball/english"
	"github.com/kljensen/snowball/russian"
)

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
	out := uint64(fnvOffset)
	for _, r := range stem {
		out = (out ^ uint64(r)) * fnvPrime
	}
	out = mix64(out)
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
