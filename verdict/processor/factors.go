package processor

import (
	"math"

	"antirobot/identity"
	"antirobot/verdict"
	"antirobot/verdict/browsers"
	"antirobot/verdict/client"
)

// Group says what a factor is about.
type Group string

// The groups of factors.
const (
	Pace    Group = "pace"    // when the subject asks
	Course  Group = "course"  // what it asks for, and what it gets
	Client  Group = "client"  // what it claims to be
	Company Group = "company" // who else is at its address
	History Group = "history" // what is remembered of it
)

// factorInfo describes one factor.
type factorInfo struct {
	Name  string // snake case; models name it, so it never changes its meaning
	Group Group
	Unit  string
	Doc   string // one sentence or two, for operators
	Cheap bool   // known before the first answer: the inline judge uses it too
}

type factor struct {
	factorInfo
	of func(*evidence) float32
}

// evidence is all that a factor may look at: the event, and copies of what memory holds. The counts have faded to the
// time of the event.
type evidence struct {
	e       *verdict.Event
	s       session // of the subject; empty for a new one
	lost    browsers.Lost
	usual   float32 // parts of a page of the service's people
	settled int     // subjects that the address has established
	t       trail   // of the subject; empty if it has none
	using   float32 // see clients; 0: not estimated yet
}

var nan = float32(math.NaN())

// over divides; the result is unknown if nothing is known.
func over(a, b float32) float32 {
	if !(b > 0) {
		return nan
	}
	return a / b
}

func truth(is bool) float32 {
	if is {
		return 1
	}
	return 0
}

// pages returns a faded count of the pages of the subject.
func pages(span int) func(*evidence) float32 {
	return func(c *evidence) float32 { return c.s.faded[span] }
}

// keepCookies is for how many people who are known at an address by their cookies somebody is expected who keeps none, and who cannot be
// told from others with the same browser.
const keepCookies = 8

// unnamed estimates how many people without cookies read behind an address at which people are known; of any other subject it is none.
func (c *evidence) unnamed() float32 {
	if c.e.Subjects[0].Kind != identity.KindIP {
		return 0
	}
	return float32(c.settled) / keepCookies
}

// clients estimates how many people use the subject. Names cost nothing: those behind an address count as people only
// as far as they load the parts of pages as the site's people do.
func (c *evidence) clients() float32 {
	if c.using == 0 { // several factors ask for it
		c.using = c.estimateClients()
	}
	return c.using
}

func (c *evidence) estimateClients() float32 {
	n := max(c.s.clients(), c.unnamed())
	loads := c.s.loads()
	if n <= 1 || loads < 2 || !(c.usual > 0) {
		return n
	}
	return 1 + (n-1)*min(1, float32(c.s.parts)/(loads*c.usual))
}

// perClient is a faded count per person that may be behind an address.
func perClient(span int) func(*evidence) float32 {
	return func(c *evidence) float32 { return c.s.faded[span] / c.clients() }
}

// loads is a faded count of page loads per client.
func loads(span int) func(*evidence) float32 {
	return func(c *evidence) float32 {
		if c.s.sharesOf == 0 {
			return 0
		}
		return c.s.faded[span] / c.clients() * float32(c.s.shares[shareLoad]) / float32(c.s.sharesOf)
	}
}

// part is a share of the pages in the session's memory, once there are enough of them.
func part(i share, of share, least uint8) func(*evidence) float32 {
	return func(c *evidence) float32 {
		n := c.s.sharesOf
		if of != shareCount {
			n = c.s.shares[of]
		}
		if n < least {
			return nan
		}
		return float32(c.s.shares[i]) / float32(n)
	}
}

// misfit reports one of the contradictions between the request and its claim. If no client of the service has sent a
// field for a while, a proxy on the way may remove it, and its absence is held against nobody.
func misfit(bit client.Misfits) func(*evidence) float32 {
	return func(c *evidence) float32 {
		if c.e.Partial || !c.e.Claim.Family.Browser() || c.losses()&bit != 0 || bit&ofLoads != 0 && c.silentCall() {
			return nan
		}
		return truth(c.e.Misfits&bit != 0)
	}
}

// ofLoads are the misfits of page loads.
const ofLoads = client.AcceptsAny | client.FalseOrder

// silentCall reports whether a request that doesn't say what it is for was answered with data: a page's script asks for
// that as no page load would.
func (c *evidence) silentCall() bool {
	return c.e.Type.Data() && c.e.Headers&client.HasFetchMode == 0
}

// losses are the misfits that say nothing about the client: what a proxy on the way removes. That there is a proxy is
// only the client's claim; what trusted proxies do is seen by what comes through them.
func (c *evidence) losses() client.Misfits { return c.lost.Misfits }

// withReferers is a value that is unknown where nobody sends a Referer.
func withReferers(f func(*evidence) float32) func(*evidence) float32 {
	return func(c *evidence) float32 {
		if c.lost.Referer {
			return nan
		}
		return f(c)
	}
}

// withOwnReferers is a value that is unknown where nobody names a page of the site as its Referer, as at a site whose Referrer-Policy forbids it: who
// comes from elsewhere may still say so.
func withOwnReferers(f func(*evidence) float32) func(*evidence) float32 {
	return func(c *evidence) float32 {
		if c.lost.OwnReferer {
			return nan
		}
		return f(c)
	}
}

// withCookies is a value that is unknown where nobody brings our cookie: none is given, or a balancer keeps it.
func withCookies(f func(*evidence) float32) func(*evidence) float32 {
	return func(c *evidence) float32 {
		if c.lost.Cookie {
			return nan
		}
		return f(c)
	}
}

// claims reports what a User-Agent says, which recorded lines contain, too.
func claims(is func(client.Family) bool) func(*evidence) float32 {
	return func(c *evidence) float32 { return truth(is(c.e.Claim.Family)) }
}

// fields returns a value that recorded lines do not contain.
func fields(f func(*evidence) float32) func(*evidence) float32 {
	return func(c *evidence) float32 {
		if c.e.Partial {
			return nan
		}
		return f(c)
	}
}

// versionAge is how many versions a browser is behind the newest one of its time. Chrome 94 and Firefox 92 came out in
// September 2021; since then there has been one every four weeks or slightly more, before that one every six.
func versionAge(c *evidence) float32 {
	claim := c.e.Claim
	var newest float64
	const turn = 1632182400 // 2021-09-21
	weeks := float64(c.e.At.Unix()-turn) / (7 * 86400)
	switch {
	case claim.Major == 0 || c.e.At.Unix() < 1230768000: // no such browser before 2009
		return nan
	case claim.Family.Chromium():
		newest = 94 + weeks/6
		if weeks > 0 {
			newest = 94 + weeks/4.3
		}
	case claim.Family == client.FamilyFirefox:
		newest = 92 + weeks/6.5
		if weeks > 0 {
			newest = 92 + weeks/4.05
		}
	default:
		return nan
	}
	return float32(newest) - float32(claim.Major)
}

// usualParts is how many sub-resources a page load of the service's people has. It is unknown where nobody has voted
// yet, and where the service keeps its parts elsewhere.
func usualParts(c *evidence) float32 { return c.usual }

// cookieDropped is the share of the navigations after the first that come without the cookie that was given. Each client behind an
// address is given one.
func cookieDropped(c *evidence) float32 {
	offered, loads := c.s.shares[shareOffered], c.s.shares[shareNavigate]
	if loads < 3 || c.e.Partial || c.lost.Cookie {
		return nan
	}
	return max(0, float32(offered)-c.clients()) / max(1, float32(loads)-c.clients())
}

// refererNone is the share of the pages that come without Referer; unknown where nobody names a page of the site.
var refererNone = withOwnReferers(part(shareRefererNone, shareCount, 2))

// missingParts says how far the subject is behind others of the service in requesting what pages consist of: 0 requests
// as much, 1 requests nothing. It is unknown for the first pages, which come before their parts, and for a subject that
// loads no pages.
func missingParts(c *evidence) float32 {
	if c.s.pages < 3 || c.s.last-c.s.first < 5 {
		return nan
	}
	loads := c.s.loads()
	if loads < 2 {
		return nan
	}
	return max(0, 1-float32(c.s.parts)/loads/usualParts(c))
}

// strength orders the kinds of subjects by how much they prove.
func strength(c *evidence) float32 {
	switch c.e.Subjects[0].Kind {
	case identity.KindL, identity.KindAuth, identity.KindService:
		return 3
	case identity.KindSpravka:
		return 2
	case identity.KindFuid, identity.KindI:
		return 1
	}
	return 0
}
