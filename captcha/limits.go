package captcha

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"net/netip"
	"sync"
	"time"
)

// limiter limits addresses to a rate, in a table of fixed size (GCRA: one time stamp each). A full table forgets the
// address closest to rest: being forgotten can only allow more, never less. Safe for concurrent use.
type limiter struct {
	seed  maphash.Seed
	step  int64 // nanoseconds between two events at the steady rate
	slack int64 // how far ahead of time a burst may run
	sets  []limitSet
}

const limitWays = 4

// limitSet is a lock and the addresses whose hash maps to it; there is no global lock.
type limitSet struct {
	mu   sync.Mutex
	keys [limitWays]uint64
	tat  [limitWays]int64 // when the address will be at rest, unix nanoseconds
}

// newLimiter allows burst at once and one every interval in the long run.
func newLimiter(interval time.Duration, burst, entries int) *limiter {
	sets := 1 << bits.Len(uint(max(entries/limitWays-1, 0)))
	return &limiter{
		seed:  maphash.MakeSeed(),
		step:  int64(interval),
		slack: int64(interval) * int64(burst-1),
		sets:  make([]limitSet, sets),
	}
}

func newRateLimiter(r Rate, entries int) *limiter {
	return newLimiter(time.Minute/time.Duration(r.PerMinute), r.Burst, entries)
}

// addrKey is the limiter key of an address: IPv4 as it is, IPv6 by its /64; extra tells clients behind it apart.
func (l *limiter) addrKey(a netip.Addr, extra uint64) uint64 {
	var b [24]byte
	as := a.As16()
	n := 16
	if !a.Unmap().Is4() {
		n = 8
	}
	copy(b[:], as[:n])
	binary.BigEndian.PutUint64(b[16:], extra)
	return maphash.Bytes(l.seed, b[:])
}

// nonceKey is the limiter key of a challenge.
func (l *limiter) nonceKey(nonce [16]byte, extra byte) uint64 {
	var b [17]byte
	copy(b[:], nonce[:])
	b[16] = extra
	return maphash.Bytes(l.seed, b[:])
}

// take counts one event, or says how long to wait; a refused event does not count.
func (l *limiter) take(key uint64, at time.Time) (wait time.Duration) {
	return l.move(key, at, true)
}

// peek returns how long the next take would have to wait.
func (l *limiter) peek(key uint64, at time.Time) (wait time.Duration) {
	return l.move(key, at, false)
}

// ahead returns how far the key's events are ahead of its steady rate: the interval for each, less what has passed since.
func (l *limiter) ahead(key uint64, at time.Time) time.Duration {
	s := &l.sets[key&uint64(len(l.sets)-1)]
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.keys {
		if s.keys[i] == key {
			return time.Duration(max(0, s.tat[i]-at.UnixNano()))
		}
	}
	return 0
}

func (l *limiter) move(key uint64, at time.Time, take bool) time.Duration {
	now := at.UnixNano()
	s := &l.sets[key&uint64(len(l.sets)-1)]
	s.mu.Lock()
	defer s.mu.Unlock()
	slot, found := 0, false
	for i := range s.keys {
		if s.keys[i] == key {
			slot, found = i, true
			break
		}
		if s.tat[i] < s.tat[slot] {
			slot = i
		}
	}
	tat := now
	if found && s.tat[slot] > now {
		tat = s.tat[slot]
	}
	if ahead := tat - now - l.slack; ahead > 0 {
		return time.Duration(ahead)
	}
	if take {
		s.keys[slot], s.tat[slot] = key, tat+l.step
	}
	return 0
}

// spentSet remembers keys that were answered on this node, for at least a key's lifetime or until its capacity of later
// answers is reached. Safe for concurrent use.
type spentSet struct {
	shards [spentShards]spentShard
	ttl    time.Duration
	most   int // per generation and shard
}

const spentShards = 64

type spentShard struct {
	mu       sync.Mutex
	young    map[[16]byte]struct{}
	old      map[[16]byte]struct{}
	switched time.Time
}

func newSpentSet(ttl time.Duration, most int) *spentSet {
	return &spentSet{ttl: ttl, most: max(1, most/spentShards/2)}
}

// has reports whether the nonce was added.
func (s *spentSet) has(nonce [16]byte) bool {
	sh := &s.shards[nonce[0]%spentShards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	_, young := sh.young[nonce]
	_, old := sh.old[nonce]
	return young || old
}

// add adds the nonce and reports whether it was new. Nonces are random: their first byte selects the shard.
func (s *spentSet) add(nonce [16]byte, at time.Time) (first bool) {
	sh := &s.shards[nonce[0]%spentShards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if len(sh.young) >= s.most || at.Sub(sh.switched) > s.ttl {
		if at.Sub(sh.switched) > 2*s.ttl {
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
