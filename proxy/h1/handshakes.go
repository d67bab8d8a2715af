package h1

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"
)

const (
	handshakeBurst  = 10 * time.Second // over which max_handshake_rate is an average
	handshakeOfMany = 10               // times as many for the /48 of an IPv6 address: whoever has one has 65,536 /64
	handshakeSets   = 32               // of each shard
	handshakeWays   = 8                // clients of each set
)

// handshakes counts the TLS handshakes of each client address, in constant memory (256 KiB) whoever comes. Where there is no room for a
// newcomer, the one that has made the fewest of late is forgotten: those who make many stay.
type handshakes struct {
	seed   maphash.Seed
	epoch  time.Time
	shards [64]struct {
		sync.Mutex
		sets [handshakeSets][handshakeWays]shaker
	}
}

// shaker is one whose handshakes are counted. Each takes its share of time, and due is when all of his are paid for.
type shaker struct {
	who uint64        // a keyed hash: nobody can choose to share another's place
	due time.Duration // since the epoch
}

// shakerKey is what who is the hash of.
type shakerKey struct {
	net    netip.Prefix
	proven bool
}

func newHandshakes() *handshakes { return &handshakes{seed: maphash.MakeSeed(), epoch: time.Now()} }

// take counts a handshake, and reports whether it is within so many a second. An address that is not proven to be the client's is counted
// apart, so that whoever forges it uses up nothing that is its owner's; what its owner has used up is used up for both.
func (h *handshakes) take(addr netip.Addr, proven bool, perSecond int, at time.Time) bool {
	if perSecond == 0 || !addr.IsValid() {
		return true
	}
	one := func(bits, perSecond int) bool {
		net, _ := addr.Prefix(bits)
		return (proven || h.one(shakerKey{net, true}, perSecond, at, false)) && h.one(shakerKey{net, proven}, perSecond, at, true)
	}
	if addr.Is4() {
		return one(32, perSecond)
	}
	return one(64, perSecond) && one(48, handshakeOfMany*perSecond)
}

// one reports whether one more is within the rate of a client, and counts it if so.
func (h *handshakes) one(key shakerKey, perSecond int, at time.Time, count bool) bool {
	who, now := maphash.Comparable(h.seed, key), at.Sub(h.epoch)
	shard := &h.shards[who%uint64(len(h.shards))]
	shard.Lock()
	defer shard.Unlock()
	set := &shard.sets[who/uint64(len(h.shards))%handshakeSets]
	c := &set[0]
	for i := range set {
		if set[i].who == who {
			c = &set[i]
			break
		}
		if set[i].due < c.due {
			c = &set[i]
		}
	}
	due := now
	if c.who == who {
		due = max(due, c.due)
	}
	due += time.Second / time.Duration(perSecond)
	if due > now+handshakeBurst {
		return false
	}
	if count {
		*c = shaker{who, due}
	}
	return true
}

// MayShakeHands counts a TLS handshake of a client that is not a balancer's, and reports whether it is within http.max_handshake_rate.
// proven says that the address is known to be the client's.
func (s *Server) MayShakeHands(addr netip.Addr, proven bool) bool {
	if s.handshakes.take(addr, proven, s.cfg.Load().MaxHandshakeRate, time.Now()) {
		return true
	}
	if proven {
		s.m.limitHandshakeRate.Inc()
	}
	return false
}
