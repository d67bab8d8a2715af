package processor

import (
	"sync/atomic"

	"antirobot/verdict"
)

// arrivals is when a service was last sent what browsers send: a proxy on the way may take fields out, or reorder them, and
// then nobody can be blamed for it. Times are unix seconds.
type arrivals struct {
	language, fetch, hints, order atomic.Int64
}

// arrivalsLast is for how many seconds one arrival shows that such fields get through.
const arrivalsLast = 6 * 3600

// see notes what an event of a browser shows.
func (a *arrivals) see(e *verdict.Event) {
	if e.Partial || !e.Claim.Family.Browser() {
		return
	}
	now := e.At.Unix()
	note := func(is bool, at *atomic.Int64) {
		if is && now-at.Load() >= 60 {
			at.Store(now)
		}
	}
	note(e.Headers&verdict.HasAcceptLanguage != 0, &a.language)
	note(e.Headers&verdict.HasFetchMode != 0, &a.fetch)
	note(e.Headers&verdict.HasHints != 0, &a.hints)
	note(e.Page && e.Misfits&verdict.FalseOrder == 0 && e.Headers&verdict.HasFetchMode != 0, &a.order)
}

// lost returns the misfits that tell nothing at a time.
func (a *arrivals) lost(now int64) (m verdict.Misfits) {
	old := func(at *atomic.Int64, bit verdict.Misfits) {
		if now-at.Load() > arrivalsLast {
			m |= bit
		}
	}
	old(&a.language, verdict.NoLanguage)
	old(&a.fetch, verdict.NoFetch)
	old(&a.hints, verdict.NoHints)
	old(&a.order, verdict.FalseOrder)
	return m
}
