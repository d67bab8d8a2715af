package bans

import (
	"time"
)

// Settle makes bans begin at the given time if they were made later than that by more than jump, and returns their keys:
// the clock went back.
func (t *Table) Settle(at int64, jump time.Duration) (moved []Key) {
	for i := range t.shards {
		sh := &t.shards[i]
		sh.mu.Lock()
		var late []uint32
		for _, j := range sh.heap {
			if sh.at(j).made > at+int64(jump) {
				late = append(late, j)
			}
		}
		for _, j := range late {
			r := sh.at(j)
			r.until, r.made = r.until-(r.made-at), at
			moved = append(moved, Key{r.subject, r.source, t.names.text(r.service)})
			sh.fix(r.heapAt)
		}
		sh.mu.Unlock()
	}
	return moved
}

// Move converts the times of all bans to a clock that is d ahead of the previous one.
func (t *Table) Move(d time.Duration) {
	for i := range t.shards {
		sh := &t.shards[i]
		sh.mu.Lock()
		for _, j := range sh.heap { // the order stays the same
			r := sh.at(j)
			r.until, r.made = r.until+int64(d), r.made+int64(d)
		}
		sh.mu.Unlock()
	}
}
