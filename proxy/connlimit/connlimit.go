// Package connlimit limits client addresses' connections, or requests in flight.
package connlimit

import (
	"net/netip"
	"sync"
)

// Counts has a count per IPv4 address or IPv6 /64. The zero value is empty. Safe for concurrent use.
type Counts struct {
	shards [64]struct {
		sync.Mutex
		n map[netip.Addr]int
	}
}

// KeyOf returns an IPv4 address, or the /64 of an IPv6 address, which belongs to one customer.
func KeyOf(addr netip.Addr) netip.Addr {
	if addr.Is4() {
		return addr
	}
	p, err := addr.Prefix(64)
	if err != nil {
		return addr
	}
	return p.Addr()
}

func shardOf(key netip.Addr) int {
	b := key.As16()
	return int(b[15]^b[14]*7^b[7]*31^b[6]*13^b[5]) % len(Counts{}.shards)
}

// Add counts one more unless that exceeds limit, and reports whether it did; 0: no limit.
func (c *Counts) Add(addr netip.Addr, limit int) bool {
	key := KeyOf(addr)
	s := &c.shards[shardOf(key)]
	s.Lock()
	defer s.Unlock()
	if limit > 0 && s.n[key] >= limit {
		return false
	}
	if s.n == nil {
		s.n = make(map[netip.Addr]int)
	}
	s.n[key]++
	return true
}

// Of returns the count of an address.
func (c *Counts) Of(addr netip.Addr) int {
	key := KeyOf(addr)
	s := &c.shards[shardOf(key)]
	s.Lock()
	defer s.Unlock()
	return s.n[key]
}

// Remove reverts Add.
func (c *Counts) Remove(addr netip.Addr) {
	key := KeyOf(addr)
	s := &c.shards[shardOf(key)]
	s.Lock()
	defer s.Unlock()
	if s.n[key]--; s.n[key] <= 0 {
		delete(s.n, key)
	}
}
