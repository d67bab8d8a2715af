package quota

import (
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"antirobot/identity"
)

var day0 = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// world plays readers against a Quota, as gateways do: a client that is over its quota reads nothing while it is checked.
type world struct {
	t       *testing.T
	q       *Quota
	site    Site
	clients map[uint64]time.Time
	nets    map[identity.Prefix]time.Time
	records map[uint64]bool
	clock   atomic.Uint32
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, site: Site{Settled: true}, clients: map[uint64]time.Time{}, nets: map[identity.Prefix]time.Time{}, records: map[uint64]bool{}}
	w.q = New(DefaultConfig(), 1<<16, &w.clock)
	return w
}

func addr(s string) [16]byte { return identity.AddrSubject(netip.MustParseAddr(s)).ID }

// reader is a visitor at an address; with a cookie unless jar is 0.
func reader(ip string, agent, jar uint64) Reader {
	a := addr(ip)
	home := uint64(a[15]) | uint64(a[14])<<8 | uint64(a[13])<<16 | uint64(a[12])<<24 | uint64(a[5])<<32 | uint64(a[7])<<40
	n := (home<<8 | agent) * 0x9e3779b97f4a7c15
	return Reader{Client: n ^ jar*0x517cc1b727220a95, Nameless: n, Addr: a, Group: 1, Cookie: jar != 0}
}

// read asks for a page, and reports whether it is delivered.
func (w *world) read(r Reader, at time.Time) bool {
	w.clock.Store(uint32(at.Unix()))
	if w.clients[r.Client].After(at) {
		return false
	}
	if !w.records[r.Client] && !r.Returning && !r.Known {
		var of [4]identity.Prefix
		for _, p := range of[:identity.Prefixes(&of, r.Addr, r.Group)] {
			if w.nets[p].After(at) {
				return false
			}
		}
	}
	w.tell(&r, w.q.Page(&r, w.site, at, 1, false))
	return true
}

func (w *world) load(r Reader, at time.Time) {
	w.tell(&r, w.q.Subresource(&r, at))
}

func (w *world) tell(r *Reader, t Told) {
	if t.Record {
		w.records[r.Client] = true
		delete(w.clients, r.Client)
	}
	switch {
	case t.Over && t.Excess.New:
		w.nets[t.Excess.Prefix] = t.Excess.Until
	case t.Over:
		w.clients[r.Client] = t.Excess.Until
	}
}

// TestJarsBehindOneAddress: many cookies at one address read no more than one client does.
func TestJarsBehindOneAddress(t *testing.T) {
	w := newWorld(t)
	n := 0
	for at := day0; at.Before(day0.Add(24 * time.Hour)); at = at.Add(time.Second) {
		if w.read(reader("203.0.113.7", 1, 1+uint64(at.Unix()%20)), at) {
			n++
		}
	}
	if n > 240 {
		t.Errorf("twenty cookies read %d pages in a day", n)
	}
}
