package bounded

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"net/netip"
	"sync"
	"time"
)

// Rate limits keys, such as addresses, to a rate, in a table of fixed size (GCRA: one theoretical arrival time each). A full
// table forgets the key closest to rest, which may allow more and never less. Safe for concurrent use; made by NewRate.
type Rate struct {
	seed  maphash.Seed
	step  int64 // nanoseconds between two events at the steady rate
	slack int64 // how far ahead of time a burst may run
	sets  []rateSet
}

const ways = 4

// rateSet is a lock and the keys whose hash maps to it; there is no global lock.
type rateSet struct {
	mu   sync.Mutex
	keys [ways]uint64
	tat  [ways]int64 // when the key will be at rest, unix nanoseconds
}

// NewRate allows burst at once and one every interval in the long run. Its table has room for at least so many keys.
func NewRate(interval time.Duration, burst, entries int) *Rate {
	sets := 1 << bits.Len(uint(max(entries/ways-1, 0)))
	return &Rate{
		seed:  maphash.MakeSeed(),
		step:  int64(interval),
		slack: int64(interval) * int64(burst-1),
		sets:  make([]rateSet, sets),
	}
}

// AddrKey is the key of an address: IPv4 as it is, IPv6 by its /64; extra tells clients behind it apart.
func (p *Rate) AddrKey(a netip.Addr, extra uint64) uint64 {
	var b [24]byte
	as := a.As16()
	n := 16
	if !a.Unmap().Is4() {
		n = 8
	}
	copy(b[:], as[:n])
	binary.BigEndian.PutUint64(b[16:], extra)
	return maphash.Bytes(p.seed, b[:])
}

// NonceKey is the key of a challenge; extra tells what is done with it.
func (p *Rate) NonceKey(nonce [16]byte, extra byte) uint64 {
	var b [17]byte
	copy(b[:], nonce[:])
	b[16] = extra
	return maphash.Bytes(p.seed, b[:])
}

// Key is the key of anything else.
func (p *Rate) Key(b []byte) uint64 { return maphash.Bytes(p.seed, b) }

// Take counts one event, or says how long to wait; a refused event does not count.
func (p *Rate) Take(key uint64, at time.Time) (wait time.Duration) {
	return p.move(key, at, 1)
}

// TakeMany is Take for an event that counts as n.
func (p *Rate) TakeMany(key uint64, at time.Time, n int) (wait time.Duration) {
	return p.move(key, at, n)
}

// Peek returns how long the next Take would have to wait.
func (p *Rate) Peek(key uint64, at time.Time) (wait time.Duration) {
	return p.move(key, at, 0)
}

// Ahead returns how far the key's events are ahead of its steady rate: the interval for each, less what has passed since.
func (p *Rate) Ahead(key uint64, at time.Time) time.Duration {
	s := &p.sets[key&uint64(len(p.sets)-1)]
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.keys {
		if s.keys[i] == key {
			return time.Duration(max(0, s.tat[i]-at.UnixNano()))
		}
	}
	return 0
}

func (p *Rate) move(key uint64, at time.Time, n int) time.Duration {
	now := at.UnixNano()
	s := &p.sets[key&uint64(len(p.sets)-1)]
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
	if ahead := tat - now - p.slack; ahead > 0 {
		return time.Duration(ahead)
	}
	if n > 0 {
		s.keys[slot], s.tat[slot] = key, tat+p.step*int64(n)
	}
	return 0
}
