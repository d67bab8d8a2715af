package processor

import (
	"sync/atomic"

	"antirobot/verdict"
	"antirobot/verdict/client"
)

// arrivals is when a service was last sent what browsers send: a proxy or a balancer on the way may take fields out, or
// reorder them, and then nobody can be blamed for it. Times are unix seconds.
type arrivals struct {
	agent, referer, cookie, language, fetch, hints, order atomic.Int64
}

// arrivalsLast is for how many seconds one arrival shows that such fields get through.
const arrivalsLast = 6 * 3600

// see notes what an event shows.
func (a *arrivals) see(e *verdict.Event) {
	now := e.At.Unix()
	note := func(is bool, at *atomic.Int64) {
		if is && now-at.Load() >= 60 {
			at.Store(now)
		}
	}
	note(e.Agent != 0, &a.agent)
	note(e.Referer != client.RefererNone, &a.referer)
	note(e.Cookies&client.CookieOurs != 0, &a.cookie)
	if e.Partial || !e.Claim.Family.Browser() {
		return
	}
	note(e.Headers&client.HasAcceptLanguage != 0, &a.language)
	note(e.Headers&client.HasFetchMode != 0, &a.fetch)
	note(e.Headers&client.HasHints != 0, &a.hints)
	note(e.Page && e.Misfits&client.FalseOrder == 0 && e.Headers&client.HasFetchMode != 0, &a.order)
}

// lost is what nobody at a service sends, so that its lack tells nothing.
type lost struct {
	agent, referer, cookie bool
	misfits                client.Misfits
}

// lost returns what tells nothing at a time.
func (a *arrivals) lost(now int64) (l lost) {
	old := func(at *atomic.Int64) bool { return now-at.Load() > arrivalsLast }
	l.agent, l.referer, l.cookie = old(&a.agent), old(&a.referer), old(&a.cookie)
	for _, f := range [...]struct {
		at  *atomic.Int64
		bit client.Misfits
	}{{&a.language, client.NoLanguage}, {&a.fetch, client.NoFetch}, {&a.hints, client.NoHints}, {&a.order, client.FalseOrder}} {
		if old(f.at) {
			l.misfits |= f.bit
		}
	}
	return l
}
