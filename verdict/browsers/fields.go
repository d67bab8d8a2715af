// Package browsers learns in what shape the requests of browsers reach a service, which is not the same everywhere: what lies on the way
// removes fields.
package browsers

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"antirobot/request"
	"antirobot/verdict"
	"antirobot/verdict/client"
	"antirobot/verdict/tally"
)

// Fields records which of the fields that browsers send reach a service: a proxy or a balancer on the way may remove
// or reorder some, and then no client can be blamed for it. Networks count, not requests, and once enough of them have
// established visitors only these count: so neither sending in bulk nor forging what nobody sends changes the result.
// What comes by another way needs another one of these. Safe for concurrent use; the zero value is ready for use.
type Fields struct {
	mu    sync.Mutex
	turn  int64 // number of the current stretch
	now   arrived
	last  arrived // the previous stretch
	gone  atomic.Uint32
	known atomic.Int64 // unix seconds of the last event
}

// sign is evidence that a field gets through.
type sign uint8

const (
	signAgent sign = iota
	signReferer
	signOwnReferer // a page of the site
	signCookie
	signLanguage
	signEncoding
	signFetch
	signHints
	signOrder
	signHello // a handshake that a browser may make
	signProtocol
	signPressed // of what pages tell: no mouse that presses without pressure …
	signPlaced  // … no pointer that is not where its window is …
	signAlone   // … and no inspector
	signs
)

// arrived holds the networks that could have sent something in a stretch of time, and those that did.
type arrived struct {
	could, sent [signs]networkSet
	ofOurs      [signs]networkSet // of the networks with established visitors, those that could …
	ours        [signs]networkSet // … and did
}

// networkSet is a small set of networks, with one bit for each.
type networkSet [4]uint64

// add adds a network, and reports whether it was not there.
func (s *networkSet) add(h uint64) bool {
	w := &s[h>>6&3]
	old := *w
	*w |= 1 << (h & 63)
	return *w != old
}

// or returns how many networks two sets contain together.
func (s *networkSet) or(o *networkSet) (n int) {
	for i := range s {
		n += bits.OnesCount64(s[i] | o[i])
	}
	return n
}

const (
	stretch     = 3 * 3600 // seconds
	lasts       = 2 * stretch
	fewNetworks = 8 // from this many on, networks of established visitors alone decide
	goneBelow   = 4 // a field is lost when fewer than one in this many of them send it …
	fewSenders  = 3 // … or, among strangers, fewer than this; if there are very few of them, none
	oddBelow    = 2 // a probe of pages means nothing when fewer than one in this many browsers pass it
)

// See records what an event shows, of a visitor who is established or not.
func (f *Fields) See(e *verdict.Event, established bool) {
	browser := !e.Partial && e.Claim.Family.Browser()
	chromium := browser && e.Secure && e.Claim.Family.Chromium()
	fetches := e.Headers&client.HasFetchMode != 0
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.open(e, established)
	n.add(signAgent, true, e.Agent != 0)
	n.add(signReferer, true, e.Referer != client.RefererNone)
	n.add(signOwnReferer, true, e.Referer == client.RefererSame)
	n.add(signCookie, true, e.Cookies&client.CookieOurs != 0)
	n.add(signLanguage, browser, browser && e.Headers&client.HasAcceptLanguage != 0)
	n.add(signEncoding, browser, browser && e.Headers&client.HasAcceptEncoding != 0)
	n.add(signFetch, browser && e.Secure, browser && fetches)
	n.add(signHints, chromium, browser && e.Headers&client.HasHints != 0)
	n.add(signOrder, browser && e.Page && fetches, browser && e.Page && fetches && e.Misfits&client.FalseOrder == 0)
	n.add(signHello, browser && e.JA4 != 0, browser && e.JA4 != 0 && e.Misfits&client.FalseHello == 0)
	n.add(signProtocol, browser, browser && !e.HTTP10)
	f.known.Store(e.At.Unix())
	if n.changed { // always true of the first event of a stretch
		f.judge()
	}
}

// Hear records what a page has told of its browser, as See does. A probe that most browsers fail tells of the service's own scripts, or of a
// browser that nobody has tried it with.
func (f *Fields) Hear(e *verdict.Event, established bool) {
	could := e.Evidence.Known && e.Claim.Family.Browser()
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.open(e, established)
	n.add(signPressed, could, could && e.Evidence.Probes&request.ProbeUnpressed == 0)
	n.add(signPlaced, could, could && e.Evidence.Probes&request.ProbeAstray == 0)
	could = could && e.Claim.Family.Chromium() // others have nothing to probe
	n.add(signAlone, could, could && e.Evidence.Probes&request.ProbeInspected == 0)
	if n.changed {
		f.judge()
	}
}

// noting adds the signs of one event to those of its stretch.
type noting struct {
	now         *arrived
	network     uint64
	established bool
	changed     bool
}

// open begins to note an event, and another stretch if it is in one. The caller holds the lock.
func (f *Fields) open(e *verdict.Event, established bool) noting {
	if turn := e.At.Unix() / stretch; turn > f.turn {
		if turn == f.turn+1 {
			f.last = f.now
		} else {
			f.last = arrived{}
		}
		f.now, f.turn = arrived{}, turn
	}
	return noting{now: &f.now, network: tally.Network(e.Subjects[e.N-1].ID) * 0x9e3779b97f4a7c15 >> 40, established: established}
}

func (n *noting) add(s sign, could, sent bool) {
	if !could && !sent {
		return
	}
	n.changed = n.now.could[s].add(n.network) || n.changed
	if sent {
		n.changed = n.now.sent[s].add(n.network) || n.changed
	}
	if !n.established {
		return
	}
	n.changed = n.now.ofOurs[s].add(n.network) || n.changed
	if sent {
		n.changed = n.now.ours[s].add(n.network) || n.changed
	}
}

// judge recomputes what is lost. The caller holds the lock.
func (f *Fields) judge() {
	var gone uint32
	for s := range signs {
		could, sent := f.now.ofOurs[s].or(&f.last.ofOurs[s]), f.now.ours[s].or(&f.last.ours[s])
		lost := sent*goneBelow < could
		if could < fewNetworks {
			could, sent = f.now.could[s].or(&f.last.could[s]), f.now.sent[s].or(&f.last.sent[s])
			lost = sent == 0 || could >= fewNetworks && sent < fewSenders
		}
		if s >= signPressed {
			lost = could >= fewNetworks && sent*oddBelow < could
		}
		if lost {
			gone |= 1 << s
		}
	}
	f.gone.Store(gone)
}

// Lost is what no client of a service sends, so that its absence means nothing.
type Lost struct {
	Agent, Referer, Cookie bool
	OwnReferer             bool // nobody names a page of the site
	Misfits                client.Misfits
	Probes                 request.Probes // of what pages tell
}

// Lost returns what means nothing at a given time, in unix seconds.
func (f *Fields) Lost(now int64) (l Lost) {
	gone := f.gone.Load()
	if now-f.known.Load() > lasts {
		gone = 1<<signs - 1
	}
	is := func(s sign) bool { return gone>>s&1 == 1 }
	l.Agent, l.Referer, l.OwnReferer, l.Cookie = is(signAgent), is(signReferer), is(signOwnReferer), is(signCookie)
	for _, m := range [...]struct {
		s   sign
		bit client.Misfits
	}{{signLanguage, client.NoLanguage}, {signEncoding, client.NoEncoding}, {signFetch, client.NoFetch}, {signHints, client.NoHints}, {signOrder, client.FalseOrder}, {signHello, client.FalseHello}, {signProtocol, client.OldProtocol}} {
		if is(m.s) {
			l.Misfits |= m.bit
		}
	}
	for i, bit := range [...]request.Probes{request.ProbeUnpressed, request.ProbeAstray, request.ProbeInspected} {
		if is(signPressed + sign(i)) {
			l.Probes |= bit
		}
	}
	return l
}
