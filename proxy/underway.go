package proxy

import (
	"net/netip"
	"sync/atomic"
	"time"

	"antirobot/proxy/h1"
	"antirobot/request"
	"antirobot/verdict"
)

// An event is offered when its answer has ended, which clients can delay by flow control or slow reading: any number of
// pages would be read before the first counts. So once a network has several pages in flight, further events are
// offered when answers begin.

const (
	fewUnderWay    = 8 // of a network; browsers have one or two
	underWayPlaces = 4096
)

// underWay counts the pages in flight of each network. Networks that collide only report sooner. Safe for concurrent
// use; the zero value is ready.
type underWay struct {
	places [underWayPlaces]struct {
		n atomic.Int32
		_ [60]byte // a cache line each
	}
}

// of returns the count of a /24, or /32 of IPv6.
func (u *underWay) of(addr netip.Addr) *atomic.Int32 {
	a := addr.As16()
	network := a[:4]
	if addr.Unmap().Is4() {
		network = a[12:15]
	}
	return &u.places[request.Hash(network)%underWayPlaces].n
}

// begun counts a page whose answer begins, and offers the event if others of its network are in flight.
func (j *journey) begun(r h1.Result) {
	j.servedPage(r)
	j.core.pages.note(j.svc.Name, j.view, r.Status, r.ContentType)
	if !j.relay.resent && j.partner == nil {
		j.core.deps.Resolver.Answered(j.view, j.svc.Identity, r.Status, j.svc.drop)
	}
	if verdict.IsPart(r.ContentType) || r.Upgraded {
		j.endTurn()
		return
	}
	j.under = j.core.underWay.of(j.id.Addr)
	if j.under.Add(1) <= fewUnderWay && !(j.core.deps.Turns != nil && j.core.deps.Turns.busy(j.turn)) {
		return
	}
	j.status, j.result = r.Status, r
	j.result.BytesOut = max(r.Length, 0)
	j.reporter.tell(time.Since(j.view.At))
	j.early = true
}

func (j *journey) ended(took time.Duration) {
	j.arrived()
	if !j.early {
		j.reporter.tell(took)
	}
}

func (j *journey) arrived() {
	if j.under != nil {
		j.under.Add(-1)
		j.under = nil
	}
}
