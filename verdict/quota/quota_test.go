package quota

import (
	"fmt"
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

// browse reads pages as a browser does, with subresources of the first and our cookie from then on; it returns how many it got.
func (w *world) browse(ip string, agent, jar uint64, at time.Time, pages int, every time.Duration) (n int) {
	for i := range pages {
		r := reader(ip, agent, jar)
		if i == 0 {
			r = reader(ip, agent, 0)
		}
		if !w.read(r, at) {
			return n
		}
		n++
		if i == 0 {
			w.load(reader(ip, agent, jar), at.Add(time.Second))
		}
		at = at.Add(every)
	}
	return n
}

// TestBurstLeavesNeighboursAlone: six addresses with 45 pages each, without subresources, in a tenth of a second; neither the
// new visitors of their /24 nor its residents are checked.
func TestBurstLeavesNeighboursAlone(t *testing.T) {
	w := newWorld(t)
	for n := range 30 {
		w.browse(fmt.Sprintf("203.0.113.%d", 100+n), 1, uint64(n+1), day0, 6, 20*time.Second)
	}
	at := day0.Add(10 * time.Minute)
	got := 0
	for i := range 45 {
		for n := range 6 {
			if w.read(reader(fmt.Sprintf("203.0.113.%d", n+1), 1, 0), at.Add(time.Duration(i)*2*time.Millisecond)) {
				got++
			}
		}
	}
	if got > 6*40 {
		t.Errorf("the burst read %d pages", got)
	}
	for _, after := range []time.Duration{time.Second, time.Minute} {
		for n := range 30 {
			if !w.read(reader(fmt.Sprintf("203.0.113.%d", 150+n+int(after/time.Minute)*50), 2, 0), at.Add(after)) {
				t.Fatalf("a new visitor of the /24 is checked %v after the burst", after)
			}
			if !w.read(reader(fmt.Sprintf("203.0.113.%d", 100+n), 1, uint64(n+1)), at.Add(after)) {
				t.Fatalf("a resident of the /24 is checked %v after the burst", after)
			}
		}
	}
}

// TestOneRobotAtAnAddress: after one robot has read at an unused address, the next twenty people there read in peace.
func TestOneRobotAtAnAddress(t *testing.T) {
	w := newWorld(t)
	for i := range 200 {
		w.read(reader("203.0.113.7", 9, 0), day0.Add(time.Duration(i)*100*time.Millisecond))
	}
	for n := range uint64(20) {
		if got := w.browse("203.0.113.7", 1, n+1, day0.Add(time.Minute+time.Duration(n)*10*time.Second), 4, time.Second); got != 4 {
			t.Errorf("person %d gets %d of 4 pages", n+1, got)
		}
	}
}

// TestBurstOfNewcomers: a thousand addresses with twenty pages each take little of a shop, whether at once or over an hour; a
// flash crowd with a browser's subresources gets all its pages.
func TestBurstOfNewcomers(t *testing.T) {
	for name, every := range map[string]time.Duration{"at once": 100 * time.Millisecond, "over an hour": 3 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			got := 0
			for i := range 20 {
				for n := range 1000 {
					if w.read(reader(fmt.Sprintf("10.%d.%d.7", n/250+1, n%250), 1, 0), day0.Add(time.Duration(i)*every)) {
						got++
					}
				}
			}
			if got > 1600 {
				t.Errorf("%d pages of 20,000", got)
			}
			for n := range 360 {
				if got := w.browse(fmt.Sprintf("192.%d.%d.9", n/250, n%250), 1, uint64(n+5000), day0.Add(time.Second), 3, 20*time.Second); got != 3 {
					t.Fatalf("person %d of a flash crowd gets %d of 3 pages", n, got)
				}
			}
		})
	}
}

// TestRotatingAddresses: an IPv6 network that takes another address for each page reads as much as a few addresses do.
func TestRotatingAddresses(t *testing.T) {
	for bits, most := range map[string]int{"48": 1600, "32": 1600} {
		w := newWorld(t)
		n, got := 0, 0
		for at := day0; at.Before(day0.Add(24 * time.Hour)); at = at.Add(2 * time.Second) {
			ip := fmt.Sprintf("2001:db8:5:%x::1", n%65536)
			if bits == "32" {
				ip = fmt.Sprintf("2001:db8:%x:%x::1", n%60000, n%7)
			}
			if n++; w.read(reader(ip, 1, 0), at) {
				got++
			}
		}
		if got > most {
			t.Errorf("a /%s reads %d pages in a day, more than %d", bits, got, most)
		}
	}
}

// TestWarmCache: a client that has loaded subresources once today has loaded them: 80 text pages within an hour weigh 80.
func TestWarmCache(t *testing.T) {
	w := newWorld(t)
	if n := w.browse("203.0.113.7", 1, 1, day0, 75, 30*time.Second); n != 75 {
		t.Errorf("checked after %d pages", n)
	}
}

// TestGradesScaleTheQuota: a known visitor reads four times as much as a usual one before it is checked, an unusual one a quarter.
func TestGradesScaleTheQuota(t *testing.T) {
	pages := func(g Grade) (n int) {
		w := newWorld(t)
		r := reader("203.0.113.7", 1, 1)
		r.Grade, r.Known = g, g == GradeKnown
		w.load(r, day0)
		for w.read(r, day0.Add(time.Duration(n)*time.Second)) {
			n++
		}
		return n
	}
	usual, known, unusual := pages(GradeUsual), pages(GradeKnown), pages(GradeUnusual)
	if known < 38*usual/10 || known > 45*usual/10 || unusual < usual/5 || unusual > usual/3 {
		t.Errorf("%d, %d, %d pages", known, usual, unusual)
	}
}

// TestUsualUseExplains: an office that reads much each day goes on doing so.
func TestUsualUseExplains(t *testing.T) {
	w := newWorld(t)
	w.site.Settled = false // as on the first day
	for d := range 3 {
		for n := range uint64(60) {
			r := reader("203.0.113.7", 1, n+1)
			r.Returning = d > 0
			at := day0.Add(time.Duration(d)*24*time.Hour + time.Duration(n)*7*time.Minute)
			w.load(r, at)
			for i := range 10 {
				if !w.read(r, at.Add(time.Duration(i)*time.Minute)) {
					t.Fatalf("day %d: person %d is checked", d, n)
				}
			}
		}
		w.site.Settled = true
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
