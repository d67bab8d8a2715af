package verdict

import (
	"hash/maphash"
	"math"
	"sync/atomic"
	"time"

	"antirobot/identity"
	"antirobot/request"
)

// A CORS preflight of somebody who is stopped goes on to the service, because a browser whose preflight is refused makes no call, and
// so never shows its visitor the challenge. Beside a balancer the service's answer is not seen: a service that answers OPTIONS by its
// pages would give them all away. So preflights of one address go on to so many targets a day (Config.Preflights), as many again for
// each visitor that is established there, and of a network to as many as the largest budgets have households. What a page asks again
// and again costs nothing more.

// preflights counts to how many targets the preflights of an address and its networks have gone on to on the present day. It is two
// tables of fixed size without locks. Addresses that share a place count together: none can have another forgotten. Safe for concurrent
// use, once seed is set.
type preflights struct {
	seed  maphash.Seed
	n     [preflightPlaces]atomic.Uint32 // day 16, count 16
	known [preflightTargets]atomic.Uint64
}

const (
	preflightPlaces  = 1 << 16
	preflightTargets = 1 << 14
)

// preflightNets are as how many addresses the networks around one count, the smallest network first: an address, its /24; a /64, /56,
// /48, /32.
var (
	preflightNets4 = [...]int{1, 8}
	preflightNets6 = [...]int{1, 2, 4, 8}
)

// place is a network on a day, in which a target may be named.
type preflightPlace struct {
	net  identity.Prefix
	day  uint16
	host uint64
	path uint64
}

// allows reports whether a preflight of an address for a target goes on, and counts it if it is to be counted. most is to how many
// targets those of this address may go on to in a day.
func (p *preflights) allows(addr [16]byte, v *request.View, most int, count bool) bool {
	day := uint16(v.At.Unix() / int64(24*time.Hour/time.Second)) //nolint:gosec // wraps after 179 years
	var nets [4]identity.Prefix
	list := nets[:identity.Prefixes(&nets, addr, 0)]
	factors := preflightNets6[:]
	if len(list) == len(preflightNets4) {
		factors = preflightNets4[:]
	}
	key := maphash.Comparable(p.seed, preflightPlace{list[0], day, maphash.Bytes(p.seed, v.Host), maphash.Bytes(p.seed, v.Target)})
	known := &p.known[key%preflightTargets]
	if known.Load() == key {
		return true
	}
	for i, net := range list {
		place := &p.n[maphash.Comparable(p.seed, preflightPlace{net: net})%preflightPlaces]
		if !takeOfDay(place, day, most*factors[i], count) {
			return false
		}
	}
	if count {
		known.Store(key)
	}
	return true
}

// takeOfDay reports whether fewer than most have been counted on a day, and counts one if it is to be counted.
func takeOfDay(place *atomic.Uint32, day uint16, most int, count bool) bool {
	most = min(most, math.MaxUint16)
	for {
		was := place.Load()
		n := was & math.MaxUint16
		if uint16(was>>16) != day {
			n = 0
		}
		if int(n) >= most {
			return false
		}
		if !count || place.CompareAndSwap(was, uint32(day)<<16|n+1) {
			return true
		}
	}
}

// Preflight reports whether the preflight of a request that is stopped goes on to its service, whose answer nobody here sees. It is
// called twice for a preflight that a balancer asks about and then sends here: only once it is to be counted.
func (c *Cacher) Preflight(v *request.View, id *identity.Identity, count bool) bool {
	addr := id.Subjects[id.N-1]
	if addr.Kind != identity.KindIP {
		return false
	}
	most := c.cfg.Preflights * (1 + c.standing.EstablishedAt(addr.ID))
	return c.preflights.allows(addr.ID, v, most, count)
}
