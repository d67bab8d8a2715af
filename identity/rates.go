package identity

import (
	"hash/maphash"
	"sync/atomic"
)

// rates counts events per network and window of time in fixed memory: a count-min sketch with two rows. Networks that
// share a cell in both rows share a budget, so counts may be too high but never too low; which networks share is
// decided by a secret seed. It is safe for concurrent use and takes no locks.
type rates struct {
	seed  maphash.Seed
	cells [2][rateCells]atomic.Uint64 // window number in the upper half, count in the lower
}

const rateCells = 1 << 15

func newRates() *rates { return &rates{seed: maphash.MakeSeed()} }

// add counts one event of key in the given window, and returns how many there are including it.
func (r *rates) add(key uint64, window uint32) uint32 {
	h := maphash.Comparable(r.seed, key)
	return min(bump(&r.cells[0][h%rateCells], window), bump(&r.cells[1][h>>32%rateCells], window))
}

func bump(c *atomic.Uint64, window uint32) uint32 {
	for {
		old := c.Load()
		count := uint32(old)
		if uint32(old>>32) != window {
			count = 0
		}
		if count == 1<<32-1 {
			return count
		}
		if c.CompareAndSwap(old, uint64(window)<<32|uint64(count+1)) {
			return count + 1
		}
	}
}
