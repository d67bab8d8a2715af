package bounded

import (
	"sync"
	"time"
)

// Once is a set of random names, such as nonces, that are added once. It remembers each for at least ttl, or until its room
// is full of later ones. Safe for concurrent use; made by NewOnce.
type Once struct {
	shards [onceShards]onceShard
	ttl    time.Duration
	most   int // per generation and shard
}

const onceShards = 64

type onceShard struct {
	mu       sync.Mutex
	young    map[[16]byte]struct{}
	old      map[[16]byte]struct{}
	switched time.Time
}

// NewOnce makes a set of at most so many names.
func NewOnce(ttl time.Duration, most int) *Once {
	return &Once{ttl: ttl, most: max(1, most/onceShards/2)}
}

// Has reports whether the nonce was added.
func (o *Once) Has(nonce [16]byte) bool {
	sh := &o.shards[nonce[0]%onceShards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	_, young := sh.young[nonce]
	_, old := sh.old[nonce]
	return young || old
}

// Add adds the nonce and reports whether it was new. Nonces are random: their first byte selects the shard.
func (o *Once) Add(nonce [16]byte, at time.Time) (first bool) {
	sh := &o.shards[nonce[0]%onceShards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if len(sh.young) >= o.most || at.Sub(sh.switched) > o.ttl {
		if at.Sub(sh.switched) > 2*o.ttl {
			sh.young = nil // none of its keys can still be answered
		}
		sh.old, sh.young, sh.switched = sh.young, nil, at
	}
	if _, ok := sh.young[nonce]; ok {
		return false
	}
	if _, ok := sh.old[nonce]; ok {
		return false
	}
	if sh.young == nil {
		sh.young = map[[16]byte]struct{}{}
	}
	sh.young[nonce] = struct{}{}
	return true
}
