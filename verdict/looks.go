package verdict

import (
	"hash/maphash"
	"sync/atomic"
	"time"

	"antirobot/identity"
	"antirobot/request"
)

// Whoever is asked still gets what a page needs to look and work like one, such as one that is open while its script asks: styles,
// scripts and fonts that are known to be parts of pages, and the site's icon. Pictures, film and data are what robots come for, so
// they are not among these; and as many go to an address in a minute as go with a document that a pass pays for (PassConfig.Parts),
// so a flood of them does not reach the service either.

// spared counts the parts that went to addresses which are asked, in the present minute. It is a table of fixed size without
// locks: addresses that share a slot evict each other, which can only allow more. Safe for concurrent use.
type spared struct {
	seed maphash.Seed
	n    [sparedPlaces]atomic.Uint64 // tag 24, minute 24, count 16
}

const (
	sparedPlaces = 1 << 12
	sparedCount  = 1<<16 - 1
	sparedMinute = 1<<24 - 1
)

// sparedOf is an address, an identity.KindIP, and what of it is counted.
type sparedOf struct {
	addr identity.Subject
	what byte
}

// What is counted of an address.
const (
	sparedParts byte = iota
	sparedFiles      // well-known files
	sparedACME       // questions of issuers of certificates
)

// take reports whether an address may have one more of at most so many.
func (s *spared) take(of sparedOf, at time.Time, most int) bool {
	key := maphash.Comparable(s.seed, of)
	now := key>>40<<40 | uint64(at.Unix()/60)&sparedMinute<<16 //nolint:gosec // a number of minutes
	place := &s.n[key%sparedPlaces]
	for {
		was := place.Load()
		next := now + 1
		if was&^sparedCount == now {
			next = was + 1
		}
		if next&sparedCount > uint64(min(most, sparedCount-1)) { //nolint:gosec // not negative
			return false
		}
		if place.CompareAndSwap(was, next) {
			return true
		}
	}
}

// looksRight reports whether the request, which would be asked for, is for a part that goes to whoever is asked.
func (c *Cacher) looksRight(v *request.View, id *identity.Identity, s *Settings) bool {
	if id.N == 0 || id.Partner || string(v.Method) != "GET" && string(v.Method) != "HEAD" || !v.NamesLooks() {
		return false
	}
	is := c.paths.read(c.pathKey(s, v))
	if is != readingPart && !(is == readingUnknown && v.NamesIcon()) {
		return false
	}
	return c.spared.take(sparedOf{addr: id.Subjects[id.N-1]}, v.At, c.cfg.Pass.Parts)
}

// wellKnownFiles is how many well-known files go in a minute to an address that is stopped: more than any program reads, and too few
// for a flood.
const wellKnownFiles = 120

// mayAskACME reports whether an address asks no more of the questions of issuers than issuers do: they ask for each name some five
// times. Beyond that it is judged as any visitor.
func (c *Cacher) mayAskACME(v *request.View, id *identity.Identity) bool {
	return id.N == 0 || c.spared.take(sparedOf{id.Subjects[id.N-1], sparedACME}, v.At, wellKnownFiles)
}

// wellKnown reports whether the request, which would be stopped, is for a file that programs look for at a fixed place. A captcha in
// place of robots.txt would tell a polite robot that it may read everything (RFC 9309, 2.3.1).
func (c *Cacher) wellKnown(v *request.View, id *identity.Identity) bool {
	return v.IsWellKnown() && id.N > 0 && c.spared.take(sparedOf{id.Subjects[id.N-1], sparedFiles}, v.At, wellKnownFiles)
}
