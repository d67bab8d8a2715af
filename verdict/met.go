package verdict

import (
	"encoding/binary"
	"math/bits"
	"sync/atomic"
	"time"
)

// Who brings nothing of ours need not be new to us: in an office, at the exits of an anonymizing network, and at home with a browser that
// forgets its cookies, people come again and again from an address at which newcomers have turned out to be people before. They are
// not asked for arriving as a campaign does.

const (
	metPlaces = 1 << 14
	metUnit   = 15 * time.Minute
	metFirst  = uint16(time.Hour / metUnit)      // how long ago somebody must have been met there first …
	metLast   = uint16(72 * time.Hour / metUnit) // … and at most since the last time
	metAgain  = uint16(6 * time.Hour / metUnit)  // how often it is told that somebody comes again
)

// met is the bounded table of addresses at which newcomers have turned out to be people: in each place a part of the address's hash, since when
// and until when, in metUnits. Where two share a place, the later one has it. Safe for concurrent use, without locks.
// A secret makes the places different from process to process, so that nobody can choose addresses that push others out.
type met struct {
	places [metPlaces]atomic.Uint64
	secret uint64
}

func (m *met) place(addr [16]byte) (p *atomic.Uint64, tag uint64) {
	high, low := bits.Mul64(binary.BigEndian.Uint64(addr[:8])^m.secret^0x9e3779b97f4a7c15, binary.BigEndian.Uint64(addr[8:])^bits.RotateLeft64(m.secret, 32)^0xd1b54a32d192ed03)
	h := mix(high^low, m.secret)
	return &m.places[h%metPlaces], h &^ (1<<32 - 1)
}

func metTime(at time.Time) uint16 { return uint16(at.Unix() / int64(metUnit/time.Second)) } //nolint:gosec // wraps after 682 days

// put records that a newcomer at an address is a person, and reports whether that is news.
func (m *met) put(addr [16]byte, at time.Time) bool {
	p, tag := m.place(addr)
	now, old := metTime(at), p.Load()
	since, last := uint16(old>>16), uint16(old) //nolint:gosec // two halves
	if old&^(1<<32-1) != tag || now-last > metLast {
		since = now
	} else if now-last < metAgain && since != now {
		return false
	}
	p.Store(tag | uint64(since)<<16 | uint64(now))
	return true
}

// forget takes back what is known of an address, and reports whether that was anything.
func (m *met) forget(addr [16]byte) bool {
	p, tag := m.place(addr)
	old := p.Load()
	return old&^(1<<32-1) == tag && p.CompareAndSwap(old, 0)
}

// has reports whether people were met at an address, for the first time a while ago.
func (m *met) has(addr [16]byte, at time.Time) bool {
	p, tag := m.place(addr)
	x, now := p.Load(), metTime(at)
	since, last := uint16(x>>16), uint16(x) //nolint:gosec // two halves
	return x&^(1<<32-1) == tag && now-last <= metLast && now-since >= metFirst
}

// Meet records that a newcomer at an address (the ID of its Subject) has turned out to be a person.
func (c *Cacher) Meet(addr [16]byte, at time.Time) {
	if c.met.put(addr, at) && c.said.tells() {
		c.said.tell(saidMet, binary.BigEndian.AppendUint64(addr[:], uint64(at.Add(c.skewNow()).UnixMilli()))) //nolint:gosec // after 1970
	}
}

// Mistrust takes back that people were met at an address: a robot is there.
func (c *Cacher) Mistrust(addr [16]byte) {
	if c.met.forget(addr) && c.said.tells() {
		c.said.tell(saidMet, binary.BigEndian.AppendUint64(addr[:], 0))
	}
}

func (c *Cacher) heardMet(b []byte) bool {
	if len(b) != 16+8 {
		return false
	}
	addr := [16]byte(b)
	if binary.BigEndian.Uint64(b[16:]) == 0 {
		c.met.forget(addr)
	} else {
		c.met.put(addr, c.heardTime(b[16:]))
	}
	return true
}

// KnowsPlace reports whether people are known at an address: established ones, or newcomers of another visit.
func (c *Cacher) KnowsPlace(addr [16]byte, at time.Time) bool {
	return c.met.has(addr, at) || c.standing.EstablishedAt(addr) > 0
}
