package processor

import (
	"math"
	"math/bits"
	"slices"
	"time"

	"antirobot/verdict"
	"antirobot/verdict/client"
	"antirobot/verdict/tally"
)

// spans are the lengths over which a session counts its pages, in seconds. A count fades: a page weighs e^(-age/span),
// so a steady pace of r pages a second counts as r × span.
var spans = [...]float64{1, 10, 60, 600, 3600, 86400}

// share is something that is counted per page, and expressed as a share of the pages.
type share uint8

// The shares.
const (
	shareRefererNone share = iota
	shareRefererSame
	shareRefererKnown // page loads, from a page that the subject was seen on
	shareRefererForeign
	share4xx
	shareNotFound
	shareNotModified
	shareAnswered // pages whose status is known
	shareData
	shareHead
	sharePost
	shareFeed
	shareProbe // probes that found nothing
	shareStep
	shareNumbered // pages with a number
	shareFields   // pages whose fields are known
	shareOffered  // browsers loading a page without our cookie
	shareCookie   // with our cookie
	shareNavigate // navigations
	shareLoad     // page loads: not asked for by scripts, not answered with data
	shareTyped    // loads that no page has led to, as the browser says …
	shareSited    // … of those of which it says anything
	shareFills    // what fills a frame of the page that the subject is on …
	shareFramed   // … and is not seen as a page load
	shareCount
)

const (
	recentPages = 7
	windowMost  = 128
)

// session is what is known of one subject, over all services. A count held in a byte fades by halving.
type session struct {
	page        int64 // unix milliseconds of the last page
	load        int64 // and of the last page load
	targets     uint64
	window      uint64 // the targets of the last pages, up to 128
	framed      uint64 // one bit for each frame that was filled of the page that it is on
	agents      uint64 // one bit for each User-Agent of this hour
	browsers    uint64 // one bit for each of our cookies of this hour
	first, last uint32 // unix seconds of the first and last event
	pages       uint32
	parts       uint32 // sub-resources
	faded       [len(spans)]float32
	gapMean     float32 // of the logarithm of the gaps between page loads, in seconds
	gapVar      float32
	number      uint32
	series      uint32
	hour        uint32 // to which agents, browsers and hours belong
	headers     client.Headers
	iAge        int32
	shownAt     uint32
	nextEval    uint32 // pages
	evalAt      uint32
	score       float32
	bannedScore float32 // of the last scored ban
	lastBan     lastBan
	burst       burst // page loads, and questions about pages
	calls       burst // of scripts and apps
	recent      [recentPages]uint16
	loadOf      uint16 // what the last page load was of, see loadOf
	on          uint16 // the page that it is on: the last one that it has loaded, or that a call has named, see moves
	fetches     uint8  // pages in fetched, modulo 256
	fetched     [fetchedPages]uint16
	misfits     client.Misfits
	claim       client.Claim
	documents   uint16 // pages and whatever else was read
	shares      [shareCount]uint8
	sharesOf    uint8 // pages in shares
	windowPages uint8
	windowShare uint8 // how many of the 128 targets before were different, plus one; 0: there were none before
	stable      uint8 // gaps in gapMean
	agentsPrev  uint8 // of the previous hour
	browsersPrv uint8
	bans        uint8
	shown       uint8
	solved      uint8
	failed      uint8
	ignored     uint8 // challenges that were shown and not tried
	flags       sessionFlags
	testimony   testimony
	software    client.Software // of that handshake
}

type sessionFlags uint8

const (
	flagRobots   sessionFlags = 1 << iota // asked for robots.txt
	flagPartial                           // the last request was a recorded line
	flagForged                            // brought a cookie whose seal does not open
	flagLed                               // a part of a page named a page of the site as its Referer
	flagRecalled                          // the store was asked for a ban
	flagDoubted                           // is in doubt
	flagHello                             // its last page's handshake is known
	flagDecoy                             // opened a path that people are not led to
)

// bit maps a hash to one bit of a small set.
func bit(h uint64, size uint64) uint64 { return 1 << (h * 0x9e3779b97f4a7c15 >> 40 % size) }

// distinct estimates how many values set the bits of a set of the given size (linear counting; Whang et al., 1990).
func distinct(set uint64, size int) float32 {
	n := bits.OnesCount64(set)
	if n <= 1 {
		return float32(n)
	}
	return filled(n, size)
}

// filled estimates how many different things have set n of size bits; where all are set, at least this many.
func filled(n, size int) float32 {
	return float32(-float64(size) * math.Log(1-float64(min(n, size-1))/float64(size)))
}

func inc[T uint8 | uint16 | uint32](n *T) {
	if *n+1 != 0 {
		*n++
	}
}

// seen adds an event of the subject that is not a page: a part of one, or what happened at the captcha.
func (s *session) seen(e *verdict.Event) {
	now := uint32(e.At.Unix())
	if s.first == 0 {
		s.first = now
		s.iAge = -1
	}
	s.last = max(s.last, now)
	s.roll(now / 3600)
	if e.Agent != 0 {
		s.agents |= bit(e.Agent, 64)
	}
}

// roll advances what is counted by the hour to the current hour.
func (s *session) roll(hour uint32) {
	if hour <= s.hour {
		return
	}
	if hour == s.hour+1 {
		s.agentsPrev, s.browsersPrv = uint8(bits.OnesCount64(s.agents)), uint8(bits.OnesCount64(s.browsers))
	} else {
		s.agentsPrev, s.browsersPrv = 0, 0
	}
	s.agents, s.browsers, s.hour = 0, 0, hour
	s.flags &^= flagRecalled
}

// agentCount is how many User-Agents were seen in this hour or the one before.
func (s *session) agentCount() int { return max(bits.OnesCount64(s.agents), int(s.agentsPrev)) }

// clients estimates how many people use the subject: one, or the number behind an address.
func (s *session) clients() float32 {
	n := max(distinct(s.agents, 64), float32(s.agentsPrev), distinct(s.browsers, 64), float32(s.browsersPrv))
	return max(1, n)
}

// part adds a sub-resource, and reports whether it shows that a page has been put in the place of the last one.
func (s *session) part(e *verdict.Event) (moved bool) {
	s.seen(e)
	inc(&s.parts)
	if e.Referer != client.RefererSame {
		return false
	}
	s.flags |= flagLed
	return s.swaps(e)
}

// turn adds a page, or a call that is not a page load, and returns what it shows of where the subject is.
func (s *session) turn(e *verdict.Event, load bool) (now whereabouts) {
	s.seen(e)
	if load && e.Browser != 0 { // a cookie is somebody once it comes back for a page: the calls of the page that it came with show nothing
		s.browsers |= bit(uint64(e.Browser), 64)
	}
	inc(&s.pages)
	if s.sharesOf == math.MaxUint8 {
		for i := range s.shares {
			s.shares[i] /= 2
		}
		s.sharesOf /= 2
	}
	s.sharesOf++
	now.here = s.here(e.At)
	s.pace(e.At)
	if load {
		s.loaded(e, now.here)
	}
	s.course(e, load)
	s.client(e)
	s.answer(e)
	s.methods(e)
	if load {
		s.opens(e)
	}
	return now
}

func (s *session) count(i share, is bool) {
	if is {
		s.shares[i]++
	}
}

// loads is how many pages the subject has loaded.
func (s *session) loads() float32 {
	return float32(s.pages) * float32(s.shares[shareLoad]) / float32(max(s.sharesOf, 1))
}

// pace counts the time of the page.
func (s *session) pace(at time.Time) {
	ms := at.UnixMilli()
	gap := float64(ms-s.page) / 1000
	if s.pages == 1 {
		gap = math.Inf(1)
	}
	gap = max(gap, 0)
	for i := range s.faded {
		s.faded[i] = s.faded[i]*tally.Fading(gap, spans[i]) + 1
	}
	s.page = max(s.page, ms)
}

// loaded counts a page load. The subject is still on the page of that before, where it may be here: a page may reload itself.
func (s *session) loaded(e *verdict.Event, here bool) {
	of := loadOf(e)
	again := s.loadOf == of && (e.Series == 0 || e.Number == s.number && e.Series == s.series)
	s.loadOf = of
	still := again && here && e.Method == 'G'
	s.shares[shareLoad]++
	s.count(shareSited, e.Site != client.SiteUnknown)
	s.count(shareTyped, e.Site == client.SiteNone)
	turned := turns(e, s.series, s.number) && s.comes(e)
	if e.Series != 0 {
		s.shares[shareNumbered]++
		if !turned && stepOf(e, s.series, s.number) != 0 {
			s.shares[shareStep]++
		}
		s.number, s.series = e.Number, e.Series
	}
	if still {
		return
	}
	ms := e.At.UnixMilli()
	gap := max(float64(ms-s.load)/1000, 0)
	first := s.load == 0
	s.load = max(s.load, ms)
	// The gap between two loads, by its logarithm, from a millisecond to an hour: a later load is another visit. Who loads a page again
	// has not left it, a page that reloads itself does so by the clock, whoever reads it, and who turns pages goes on with what it reads.
	if first || again || turned || gap > 3600 {
		return
	}
	inc(&s.stable)
	l := float32(math.Log(max(gap, 0.001)))
	d := l - s.gapMean
	n := float32(min(max(uint32(s.stable), 1), 32))
	s.gapMean += d / n
	s.gapVar += (d*(l-s.gapMean) - s.gapVar) / n
}

// loadOf is a part of the hash of what a page load is of: its path and its target, as a page of a list may be one that only the query names. Never 0.
func loadOf(e *verdict.Event) uint16 { return uint16(e.Path>>16^e.Target>>32) | 1 }

func shortPath(e *verdict.Event) uint16 { return uint16(e.Path>>16) | 1 }

// fade brings a copy of the page counts forward to a later time.
func (s *session) fade(at time.Time) {
	gap := float64(at.UnixMilli()-s.page) / 1000
	if gap <= 0 {
		return
	}
	for i := range s.faded {
		s.faded[i] *= tally.Fading(gap, spans[i])
	}
}

// comes reports whether the page that a request comes from is one of the last that the subject has had.
func (s *session) comes(e *verdict.Event) bool {
	return e.Referer == client.RefererSame && slices.Contains(s.recent[:], uint16(e.RefererPath>>16)|1)
}

// course counts what the subject requests.
func (s *session) course(e *verdict.Event, load bool) {
	short := shortPath(e)
	known := s.comes(e)
	s.recent[s.pages%recentPages] = short
	s.targets |= bit(e.Target, 64)
	if s.windowPages == windowMost {
		s.windowShare = uint8(min(distinct(s.window, 64), windowMost)) + 1
		s.window, s.windowPages = 0, 0
	}
	s.window |= bit(e.Target, 64)
	s.windowPages++
	s.count(shareRefererNone, e.Referer == client.RefererNone)
	s.count(shareRefererSame, e.Referer == client.RefererSame)
	s.count(shareRefererForeign, e.Referer == client.RefererForeign || e.Referer == client.RefererMalformed)
	s.count(shareRefererKnown, known && load)
	s.count(shareFeed, e.PathKind == client.PathFeed || e.Type == verdict.TypeFeed)
	if e.PathKind == client.PathRobots {
		s.flags |= flagRobots
	}
}

// targetShare is the share of different targets among the last pages.
func (s *session) targetShare() float32 {
	switch {
	case s.windowShare == 0 && s.windowPages < 4:
		return nan
	case s.windowShare == 0 || s.windowPages >= windowMost/2:
		return min(1, distinct(s.window, 64)/float32(s.windowPages))
	}
	return float32(s.windowShare-1) / windowMost
}
