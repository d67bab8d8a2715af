package learn

import (
	"math"
	"sync"
	"sync/atomic"
)

// table counts good and bad texts per feature. Reads take no lock. A full table forgets the rarest features.
type table struct {
	slots atomic.Pointer[[]slot]
	texts atomic.Uint64
	words atomic.Uint64 // good<<32 | bad: features of them

	mu    sync.Mutex
	used  int
	limit int
}

// slot is a feature and its counts, good<<32 | bad. Key zero is an empty slot; keys are written after counts.
type slot struct {
	key, counts atomic.Uint64
}

const leastSlots = 1 << 10

func (t *table) init(limit int) {
	t.limit = max(limit, leastSlots/2)
	slots := make([]slot, leastSlots)
	t.slots.Store(&slots)
}

func (t *table) get(key uint64) (good, bad uint32) {
	return find(*t.slots.Load(), key)
}

func find(slots []slot, key uint64) (good, bad uint32) {
	mask := uint64(len(slots) - 1)
	for i := key & mask; ; i = (i + 1) & mask {
		switch slots[i].key.Load() {
		case key:
			c := slots[i].counts.Load()
			return uint32(c >> 32), uint32(c)
		case 0:
			return 0, 0
		}
	}
}

func (t *table) train(features []uint64, good bool, words uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := uint64(1)
	if good {
		one = 1 << 32
	}
	for _, f := range features {
		t.add(f, one)
	}
	t.texts.Store(addCounts(t.texts.Load(), one))
	t.words.Store(addCounts(t.words.Load(), one*words))
}

func addCounts(a, b uint64) uint64 {
	high := min(a>>32+b>>32, math.MaxUint32)
	low := min(a&math.MaxUint32+b&math.MaxUint32, math.MaxUint32)
	return high<<32 | low
}

func (t *table) add(key, counts uint64) {
	slots := *t.slots.Load()
	mask := uint64(len(slots) - 1)
	i := key & mask
	for {
		switch slots[i].key.Load() {
		case key:
			slots[i].counts.Store(addCounts(slots[i].counts.Load(), counts))
			return
		case 0:
			slots[i].counts.Store(counts)
			slots[i].key.Store(key)
			if t.used++; t.used >= t.limit || t.used*2 > len(slots) { // a search for what is not there takes 2.5 steps
				t.rebuild()
			}
			return
		}
		i = (i + 1) & mask
	}
}

func (t *table) rebuild() {
	old := *t.slots.Load()
	size, least := len(old), uint64(0)
	if t.used >= t.limit {
		least = t.rarest(old)
	} else {
		size *= 2
	}
	slots := make([]slot, size)
	mask := uint64(size - 1)
	t.used = 0
	for i := range old {
		key, counts := old[i].key.Load(), old[i].counts.Load()
		if key == 0 || counts>>32+counts&math.MaxUint32 <= least {
			continue
		}
		j := key & mask
		for slots[j].key.Load() != 0 {
			j = (j + 1) & mask
		}
		slots[j].counts.Store(counts)
		slots[j].key.Store(key)
		t.used++
	}
	t.slots.Store(&slots)
}

func (t *table) rarest(slots []slot) uint64 {
	var histogram [64]int
	for i := range slots {
		if slots[i].key.Load() != 0 {
			c := slots[i].counts.Load()
			histogram[min(c>>32+c&math.MaxUint32, 63)]++
		}
	}
	gone := 0
	for n, count := range histogram {
		if gone += count; gone*4 >= t.used {
			if n == 63 {
				return math.MaxUint64 // all are frequent: begin anew
			}
			return uint64(n)
		}
	}
	return 0
}

func (t *table) measure() Size {
	t.mu.Lock()
	defer t.mu.Unlock()
	texts := t.texts.Load()
	return Size{uint32(texts >> 32), uint32(texts), t.used}
}
