// Package browsers learns in what shape the requests of browsers reach a service, which is not the same everywhere: what lies on the way
// removes fields (fields.go), and the handshakes of the browsers that its own people use are learnt, not shipped (hellos.go).
//
// Both begin as the zero value, with which nothing is held against anybody. Networks count, not requests.
package browsers

import (
	"math/bits"
	"sync"
	"sync/atomic"

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
)

// See records what an event shows, of a visitor who is established or not.
func (f *Fields) See(e *verdict.Event, established bool) {
	h := tally.Network(e.Subjects[e.N-1].ID) * 0x9e3779b97f4a7c15 >> 40
	browser := !e.Partial && e.Claim.Family.Browser()
	chromium := browser && e.Secure && e.Claim.Family.Chromium()
	fetches := e.Headers&client.HasFetchMode != 0
	f.mu.Lock()
	defer f.mu.Unlock()
	if turn := e.At.Unix() / stretch; turn > f.turn {
		if turn == f.turn+1 {
			f.last = f.now
		} else {
			f.last = arrived{}
		}
		f.now, f.turn = arrived{}, turn
	}
	changed := false
	note := func(s sign, could, sent bool) {
		if !could && !sent {
			return
		}
		changed = f.now.could[s].add(h) || changed
		if sent {
			changed = f.now.sent[s].add(h) || changed
		}
		if !established {
			return
		}
		changed = f.now.ofOurs[s].add(h) || changed
		if sent {
			changed = f.now.ours[s].add(h) || changed
		}
	}
	note(signAgent, true, e.Agent != 0)
	note(signReferer, true, e.Referer != client.RefererNone)
	note(signOwnReferer, true, e.Referer == client.RefererSame)
	note(signCookie, true, e.Cookies&client.CookieOurs != 0)
	note(signLanguage, browser, browser && e.Headers&client.HasAcceptLanguage != 0)
	note(signEncoding, browser, browser && e.Headers&client.HasAcceptEncoding != 0)
	note(signFetch, browser && e.Secure, browser && fetches)
	note(signHints, chromium, browser && e.Headers&client.HasHints != 0)
	note(signOrder, browser && e.Page && fetches, browser && e.Page && fetches && e.Misfits&client.FalseOrder == 0)
	note(signHello, browser && e.JA4 != 0, browser && e.JA4 != 0 && e.Misfits&client.FalseHello == 0)
	note(signProtocol, browser, browser && !e.HTTP10)
	f.known.Store(e.At.Unix())
	if changed { // always true of the first event of a stretch
		f.judge()
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
	return l
}
