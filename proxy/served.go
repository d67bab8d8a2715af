package proxy

import (
	"hash/maphash"
	"net/netip"
	"sync/atomic"
	"time"

	"antirobot/proxy/h1"
	"antirobot/request"
	"antirobot/verdict"
)

// A stopped client still gets the subresources of the page that it has just been served: a ban may begin between a page
// and its images, and a pass may be spent by a page whose scripts are not loaded yet. A request's claim is free, so the
// answer decides: only subresources pass.

const (
	servedFor    = 10 * time.Second
	servedMost   = 60 // subresources
	servedPlaces = 1 << 16
)

// served counts the subresources that clients may still load, in a table of fixed size without locks. Clients that
// share a slot evict each other, and then get none. Safe for concurrent use.
type served struct {
	seed   maphash.Seed
	places [servedPlaces]atomic.Uint64 // tag 24, second 24, count 16 bits
}

type servedTo struct {
	addr    netip.Addr
	agent   uint64 // of User-Agent: cookies may have come with the page
	service *Service
}

func (s *served) place(to servedTo) (place *atomic.Uint64, tag uint64) {
	sum := maphash.Comparable(s.seed, to)
	return &s.places[sum%servedPlaces], sum >> 40 << 40
}

func servedSecond(at time.Time) uint64 { return uint64(at.Unix()) & (1<<24 - 1) }

func (s *served) page(to servedTo, at time.Time) {
	place, tag := s.place(to)
	place.Store(tag | servedSecond(at)<<16 | servedMost)
}

func (s *served) take(to servedTo, at time.Time) bool {
	place, tag := s.place(to)
	for {
		was := place.Load()
		age := (servedSecond(at) - was>>16) & (1<<24 - 1)
		if was>>40<<40 != tag || was&0xffff == 0 || age > uint64(servedFor/time.Second) {
			return false
		}
		if place.CompareAndSwap(was, was-1) {
			return true
		}
	}
}

func (j *journey) servedTo() servedTo {
	return servedTo{addr: j.id.Addr, agent: request.Hash(j.view.Get("User-Agent")), service: j.svc}
}

func (j *journey) servedPage(r h1.Result) {
	if j.part || j.partner != nil || j.decision.Waived != verdict.NotWaived {
		return
	}
	if verdict.IsHTML(r.ContentType) && r.Status >= 200 && r.Status < 300 {
		j.core.served.page(j.servedTo(), j.view.At)
	}
}

// mayBeSubresource reports whether a stopped request may be for such a subresource. Blocked clients, programs and
// messages get none.
func (j *journey) mayBeSubresource() bool {
	switch d := &j.decision; {
	case d.Verdict == verdict.Blocked || j.partner != nil || string(j.view.Method) != "GET" ||
		j.view.Get("Upgrade") != nil:
		return false
	case d.Cause == verdict.CauseMessage || d.Cause == verdict.CauseDemand || d.Cause == verdict.CauseLimit ||
		d.Cause == verdict.CauseRule:
		return false
	}
	switch j.kind() {
	case kindSubresource:
	case kindScript: // without Sec-Fetch fields a script looks like a call
		if j.view.Get("Sec-Fetch-Mode") != nil {
			return false
		}
	default:
		return false
	}
	return j.core.served.take(j.servedTo(), j.view.At)
}

func (j *journey) forwardSubresource() {
	j.part, j.stopped = true, j.decision.Verdict
	j.decision.Verdict, j.decision.Waived = verdict.Human, verdict.WaivedServed
	j.forward(nil)
	if j.result.Status == 0 {
		j.reporter.remember()
	}
}

func (j *journey) onlySubresources(status int, fields []request.Field) bool {
	held := status != 304 && !verdict.IsPart(valueOf(fields, "Content-Type"))
	if held {
		j.decision.Verdict, j.decision.Waived = j.stopped, verdict.NotWaived
	}
	j.reporter.remember()
	return held
}
