package browsers

import (
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"

	"antirobot/identity"
	"antirobot/verdict"
	"antirobot/verdict/client"
	"antirobot/verdict/tally"
)

// Hellos are the fingerprints, of TLS handshakes over TCP, of those in QUIC and of first HTTP/2 frames, that the site's own established visitors come
// with, by the browser that they claim: what a browser looks like is learnt, not shipped. The zero value is ready for use.
// Safe for concurrent use; readers take no lock.
type Hellos struct {
	mu sync.Mutex // of writers
	of [helloPlaces]atomic.Pointer[helloSet]
}

const (
	helloPlaces = 1024 // browsers, by family, version and kind of fingerprint; at most 600 KB together
	helloKinds  = 16   // fingerprints of one browser; the least recently seen is forgotten
	fewHellos   = 12   // networks of established visitors that make a browser known
)

// helloKind is which of a browser's fingerprints one is. Each kind is learnt by itself: over QUIC a browser offers other
// ciphers and extensions than over TCP, and its first hello there is no reason to doubt it.
type helloKind uint8

const (
	overTCP helloKind = iota
	overQUIC
	firstFrames
)

// carrier is the kind of an event's handshake.
func carrier(f *client.Facts) helloKind {
	if f.QUIC {
		return overQUIC
	}
	return overTCP
}

// helloKey is a browser, and which of its fingerprints.
type helloKey struct {
	family client.Family
	major  uint16 // 0: all versions
	kind   helloKind
}

func (k helloKey) place() int {
	h := uint64(k.family)<<18 | uint64(k.major)<<2 | uint64(k.kind)
	return int(h * 0x9e3779b97f4a7c15 >> 54 % helloPlaces)
}

// helloSet is what is known of a browser. It is immutable.
type helloSet struct {
	key      helloKey
	networks networkSet // of the visitors who showed it
	seen     [helloKinds]helloSeen
}

// helloSeen is one fingerprint. One network alone could be a stranger's that is established by now.
type helloSeen struct {
	hash    uint64
	network uint64
	shared  bool // seen in two networks
	at      int64
}

// See learns from an established visitor's page.
func (h *Hellos) See(e *verdict.Event) {
	if e.Partial || !e.Claim.Family.Browser() {
		return
	}
	network := max(1, tally.Hash(identity.NetworkOf(e.Subjects[e.N-1].ID))*0x9e3779b97f4a7c15>>40)
	for _, major := range [...]uint16{e.Claim.Major, 0} {
		h.add(helloKey{e.Claim.Family, major, carrier(&e.Facts)}, e.JA4, network, e.At.Unix())
		h.add(helloKey{e.Claim.Family, major, firstFrames}, e.Frames, network, e.At.Unix())
	}
}

// helloAgain is how many seconds later a fingerprint is noted again, although nothing else is new.
const helloAgain = 3600

// helloKept is for how many seconds a fingerprint of several networks gives way to no other of one.
const helloKept = 2 * 86400

func (h *Hellos) add(k helloKey, hash, network uint64, at int64) {
	if hash == 0 {
		return
	}
	place := &h.of[k.place()]
	if s := place.Load(); s != nil && s.key == k && s.has(hash, network, at) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	next := helloSet{key: k}
	if s := place.Load(); s != nil && s.key == k {
		next = *s
	}
	next.networks.add(network)
	next.note(hash, network, at)
	place.Store(&next)
}

// has reports whether the set would not change.
func (s *helloSet) has(hash, network uint64, at int64) bool {
	i := slices.IndexFunc(s.seen[:], func(v helloSeen) bool { return v.hash == hash })
	if i < 0 {
		return false
	}
	v := &s.seen[i]
	known := s.networks
	return at-v.at < helloAgain && (v.shared || v.network == network) && !known.add(network)
}

func (s *helloSet) note(hash, network uint64, at int64) {
	place := 0
	for i := range s.seen {
		v := &s.seen[i]
		if v.hash == hash {
			v.shared = v.shared || v.network != network
			v.at = max(v.at, at)
			return
		}
		if v.weaker(&s.seen[place], at) {
			place = i
		}
	}
	s.seen[place] = helloSeen{hash: hash, network: network, at: at}
}

// weaker reports whether a fingerprint gives way to a new one before another does: those of one network first, as who is established makes as
// many as it likes, and then those not seen for longest.
func (v *helloSeen) weaker(o *helloSeen, at int64) bool {
	if a, b := v.shared && at-v.at < helloKept, o.shared && at-o.at < helloKept; a != b {
		return b
	}
	return v.at < o.at
}

// Unseen says whether the browser that an event claims never comes with its handshake: this version of it if enough of those are known,
// or else all versions.
func (h *Hellos) Unseen(e *verdict.Event) (unseen, known bool) {
	return h.unseen(e.Claim, carrier(&e.Facts), e.JA4)
}

// UnseenFrames is Unseen for its first HTTP/2 frames.
func (h *Hellos) UnseenFrames(e *verdict.Event) (unseen, known bool) {
	return h.unseen(e.Claim, firstFrames, e.Frames)
}

func (h *Hellos) unseen(c client.Claim, kind helloKind, hash uint64) (unseen, known bool) {
	if hash == 0 || !c.Family.Browser() {
		return false, false
	}
	for _, major := range [...]uint16{c.Major, 0} {
		k := helloKey{c.Family, major, kind}
		s := h.of[k.place()].Load()
		if s == nil || s.key != k {
			continue
		}
		n := 0
		for _, w := range s.networks {
			n += bits.OnesCount64(w)
		}
		if n < fewHellos {
			continue
		}
		return !slices.ContainsFunc(s.seen[:], func(v helloSeen) bool { return v.hash == hash && v.shared }), true
	}
	return false, false
}
