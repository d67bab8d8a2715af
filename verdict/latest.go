package verdict

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"antirobot/identity"
	"antirobot/request"
	"antirobot/spravka"
)

// A browser whose right answer did not leave a cookie (they are blocked, or a tracking protection takes them away) would be
// asked again at the next click. For a moment its pass is found by its address and what it says about itself instead: the
// pass pays as if it had been sent, so nobody gets more for it than the pass is worth.

const (
	latestFor   = time.Minute
	latestPages = 20  // documents that a pass pays for in this way
	latestSets  = 512 // of latestWays passes each
	latestWays  = 4
)

// latest remembers the passes of the last minute. When a set is full, the oldest makes room. Safe for concurrent use.
type latest struct {
	seed maphash.Seed
	made atomic.Bool // there has ever been a pass: until then nothing is looked up
	sets [latestSets]latestSet
}

type latestSet struct {
	mu      sync.Mutex
	entries [latestWays]latestPass
}

type latestPass struct {
	key   uint64
	until int64 // unix nanoseconds; 0: free
	left  int
	pass  spravka.Pass
}

func newLatest() *latest { return &latest{seed: maphash.MakeSeed()} }

// keyOf is the values by which a browser without cookies can be told: its address, its handshake and the fields that it sends
// with every request; and the host, for which the pass is good. A program that copies User-Agent and language of a neighbour
// has another key.
func (l *latest) keyOf(v *request.View, id *identity.Identity) uint64 {
	var h maphash.Hash
	h.SetSeed(l.seed)
	addr := identity.AddrSubject(id.Addr)
	_, _ = h.Write(addr.ID[:])
	for _, b := range [...][]byte{v.Get("User-Agent"), v.Get("Accept-Language"), v.Get("Accept-Encoding"), v.Get("Sec-CH-UA"), v.JA4} {
		_, _ = h.Write(b)
		_ = h.WriteByte(0)
	}
	_, _ = h.Write(v.Host)
	return h.Sum64()
}

// put remembers the pass that a visitor has just earned.
func (l *latest) put(p *spravka.Pass, v *request.View, id *identity.Identity) {
	l.made.Store(true)
	key := l.keyOf(v, id)
	s := &l.sets[key%latestSets]
	s.mu.Lock()
	defer s.mu.Unlock()
	slot := 0
	for i := range s.entries {
		if s.entries[i].key == key {
			slot = i
			break
		}
		if s.entries[i].until < s.entries[slot].until {
			slot = i
		}
	}
	s.entries[slot] = latestPass{key: key, until: v.At.Add(latestFor).UnixNano(), left: latestPages, pass: *p}
}

// find returns the pass of a visitor who brings none, as far as it still pays in this way.
func (l *latest) find(v *request.View, id *identity.Identity) (p spravka.Pass, ok bool) {
	l.change(v, id, func(e *latestPass) {
		if e.left > 0 && e.until > v.At.UnixNano() {
			p, ok = e.pass, true
		}
	})
	return p, ok
}

// count counts a document that the pass found has paid for.
func (l *latest) count(v *request.View, id *identity.Identity) {
	l.change(v, id, func(e *latestPass) { e.left-- })
}

// drop forgets the pass of a visitor whose browser brings it itself: nobody like it needs it.
func (l *latest) drop(v *request.View, id *identity.Identity) {
	l.change(v, id, func(e *latestPass) { *e = latestPass{} })
}

// change calls f with a visitor's entry, if there is one.
func (l *latest) change(v *request.View, id *identity.Identity, f func(*latestPass)) {
	if !l.made.Load() {
		return
	}
	key := l.keyOf(v, id)
	s := &l.sets[key%latestSets]
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.entries {
		if s.entries[i].key == key {
			f(&s.entries[i])
			return
		}
	}
}
