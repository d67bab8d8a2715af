package proxy

import (
	"net/netip"
	"sync/atomic"
	"time"

	"antirobot/proxy/h1"
	"antirobot/request"
	"antirobot/verdict"
)

// A request is told of when its answer has ended: only then it is known how long that is. But clients decide when it ends, by the windows of
// HTTP/2 and HTTP/3 or by reading slowly, and would have read most of any number of pages before the first one counts. So once
// several documents of a network are under way, the next ones are told of when their answers begin.

const (
	fewUnderWay    = 8 // documents of a network at once; browsers have one or two
	underWayPlaces = 4096
)

// underWay counts the documents whose answers have begun and not ended, by network. Networks that share a place are only told
// of sooner. Safe for concurrent use; the zero value is ready for use.
type underWay struct {
	places [underWayPlaces]struct {
		n atomic.Int32
		_ [60]byte // a cache line of its own
	}
}

// of returns the count of an address's network: a /24, or a /32 of IPv6, the largest that are judged.
func (u *underWay) of(addr netip.Addr) *atomic.Int32 {
	a := addr.As16()
	network := a[:4]
	if addr.Unmap().Is4() {
		network = a[12:15]
	}
	return &u.places[request.Hash(network)%underWayPlaces].n
}

// begun counts a document whose answer begins, and tells of it at once if others of its network are under way.
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

// ended tells of a request whose answer has ended.
func (j *journey) ended(took time.Duration) {
	j.arrived()
	if !j.early {
		j.reporter.tell(took)
	}
}

// arrived takes a document off those that are under way.
func (j *journey) arrived() {
	if j.under != nil {
		j.under.Add(-1)
		j.under = nil
	}
}
