package verdict

import (
	"hash/maphash"
	"time"

	"antirobot/bounded"
	"antirobot/identity"
	"antirobot/request"
)

// A challenged client still gets what a page needs to look and work like one, such as a page that is open while its script
// is challenged: styles, scripts and fonts that are known to be subresources, and the site's icon. Pictures, film and data
// are what robots come for, so they are not among these. The bounds are per address and minute, so that a flood does not
// reach the service either.
const (
	exemptPlaces   = 1 << 12
	wellKnownFiles = 120 // in a minute: more than any program reads
)

type exemptKind byte

const (
	exemptParts     exemptKind = iota
	exemptWellKnown            // files
	exemptACME                 // questions of issuers of certificates
)

type exemptOf struct {
	addr identity.Subject
	kind exemptKind
}

// A CORS preflight of a stopped client goes on to the service, because a browser whose preflight is refused makes no call,
// and so never shows its visitor the challenge. With a balancer the service's answer is not seen: a service that answers
// OPTIONS by its pages would give them all away. So preflights of one address go on to preflightTargets targets a day, as
// many again for each Known visitor there, and of a network to as many as the largest quotas have households. Repetitions
// cost nothing more.
const (
	preflightPlaces  = 1 << 16
	preflightTargets = 20
	day              = 24 * time.Hour
)

// preflightNets4 and preflightNets6 are as how many addresses the networks around one count, the smallest network first: an
// address, its /24; a /64, /56, /48, /32.
var (
	preflightNets4 = [...]int{1, 8}
	preflightNets6 = [...]int{1, 2, 4, 8}
)

// preflight is a network, or a target of its preflights.
type preflight struct {
	net    identity.Prefix
	target uint64
}

// exemptions counts what challenged addresses get nevertheless. Safe for concurrent use.
type exemptions struct {
	seed       maphash.Seed
	byMinute   *bounded.Counts[exemptOf]
	preflights *bounded.Counts[preflight]
	parts      int // subresources of an address in a minute
}

func newExemptions(parts int) *exemptions {
	return &exemptions{
		seed: maphash.MakeSeed(), byMinute: bounded.NewCounts[exemptOf](time.Minute, exemptPlaces),
		preflights: bounded.NewCounts[preflight](day, preflightPlaces), parts: parts,
	}
}

func (x *exemptions) take(kind exemptKind, v *request.View, id *identity.Identity, most int) bool {
	return id.N > 0 && x.byMinute.Take(exemptOf{id.Subjects[id.N-1], kind}, v.At, most)
}

// isLook reports whether the request, which would be challenged, is for a subresource that challenged clients get. is is
// what is known of its path.
func (x *exemptions) isLook(v *request.View, id *identity.Identity, is reading) bool {
	if id.Partner || string(v.Method) != "GET" && string(v.Method) != "HEAD" || !v.NamesLooks() {
		return false
	}
	return (is == readingPart || is == readingUnknown && v.NamesIcon()) && x.take(exemptParts, v, id, x.parts)
}

// isACME reports whether an address asks no more of the questions of issuers than issuers do, which ask some five times
// for each name. Beyond that it is judged as any visitor.
func (x *exemptions) isACME(v *request.View, id *identity.Identity) bool {
	return v.IsACMEChallenge() && (id.N == 0 || x.take(exemptACME, v, id, wellKnownFiles))
}

// isWellKnown reports whether the request, which would be stopped, is for a file that programs look for at a fixed place. A
// captcha in place of robots.txt would tell a polite robot that it may read everything (RFC 9309, 2.3.1).
func (x *exemptions) isWellKnown(v *request.View, id *identity.Identity) bool {
	return v.IsWellKnown() && x.take(exemptWellKnown, v, id, wellKnownFiles)
}

// isPreflight reports whether a preflight of an address with so many Known visitors goes on, and counts it if count is set.
func (x *exemptions) isPreflight(v *request.View, addr [16]byte, known int, count bool) bool {
	var around [4]identity.Prefix
	nets := around[:identity.Prefixes(&around, addr, 0)]
	factors := preflightNets6[:]
	if len(nets) == len(preflightNets4) {
		factors = preflightNets4[:]
	}
	target := preflight{nets[0], maphash.Bytes(x.seed, v.Host) ^ maphash.Bytes(x.seed, v.Target)*3 | 1}
	if x.preflights.Count(target, v.At) > 0 {
		return true
	}
	most := preflightTargets * (1 + known)
	for i, net := range nets {
		if x.preflights.Count(preflight{net: net}, v.At) >= most*factors[i] {
			return false
		}
	}
	if count {
		x.preflights.Take(target, v.At, 1)
		for _, net := range nets {
			x.preflights.Take(preflight{net: net}, v.At, 1<<16-2)
		}
	}
	return true
}
