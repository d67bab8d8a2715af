package proxy

import (
	"hash/maphash"
	"net/netip"
	"sync/atomic"
	"time"

	"antirobot/captcha"
	"antirobot/identity"
	"antirobot/proxy/h1"
	"antirobot/request"
	"antirobot/verdict"
)

// Any site can make its readers' browsers request any URL: forty <img> elements with a shop's pages would use up every
// reader's quota. Browsers label such requests (Sec-Fetch-Site, Sec-Fetch-Mode). They get no page and count for no
// visitor. Images, scripts, fonts and data are served.

// pages remembers URLs that were answered with HTML, in a table of fixed size without locks. An evicted URL is
// recognised by its next answer. Safe for concurrent use.
type pages struct {
	seed  maphash.Seed
	known [1 << 14]atomic.Uint64
}

func (p *pages) slot(service string, v *request.View) (slot *atomic.Uint64, key uint64) {
	var h maphash.Hash
	h.SetSeed(p.seed)
	_, _ = h.WriteString(service)
	_ = h.WriteByte(0)
	_, _ = h.Write(v.Host)
	_, _ = h.Write(v.Target)
	key = h.Sum64()
	return &p.known[key%uint64(len(p.known))], key
}

func (p *pages) note(service string, v *request.View, status int, contentType []byte) {
	if status < 200 || status > 299 || string(v.Method) != "GET" {
		return
	}
	slot, key := p.slot(service, v)
	switch was, html := slot.Load(), verdict.IsHTML(contentType); {
	case html && was != key:
		slot.Store(key)
	case !html && was == key:
		slot.CompareAndSwap(key, 0)
	}
}

func (p *pages) has(service string, v *request.View) bool {
	slot, key := p.slot(service, v)
	return slot.Load() == key
}

// isEmbed reports whether a page of another site makes the request without navigating. Sites in cors_origins are
// trusted.
func isEmbed(v *request.View, p *purpose, s *Service) bool {
	if m := string(v.Method); m != "GET" && m != "HEAD" || string(p.Site) != "cross-site" {
		return false
	}
	switch string(p.Mode) {
	case "", "navigate", "websocket":
		return false
	}
	from := p.Origin
	if len(from) == 0 {
		from = p.Referer
	}
	return len(from) == 0 || !s.Captcha.OwnsPage(from, v.Host)
}

// refusesEmbed answers an embed of a known page before it is decided, so that nothing is counted. In mode cors the URL
// may be data, so the answer decides.
func (j *journey) refusesEmbed() bool {
	j.wants()
	if j.embed = isEmbed(j.view, &j.purpose, j.svc); !j.embed || j.svc.Verdict.Mode != verdict.Enforce ||
		string(j.purpose.Mode) == "cors" || !j.core.pages.has(j.svc.Name, j.view) {
		return false
	}
	j.watch()
	if j.decision.Verdict == verdict.Blocked || !j.decision.Judged() || j.decision.Waived == verdict.WaivedWellKnown {
		return false
	}
	j.declined, j.ownPage = true, true
	j.answer(j.crossSite())
	return true
}

func valueOf(fields []request.Field, name string) (value []byte) {
	for i := range fields {
		if request.EqualFold(fields[i].Name, name) {
			value = fields[i].Value
		}
	}
	return value
}

func (j *journey) crossSite() captcha.Response { return j.snap.Captcha.CrossSite(j.request()) }

// holdsPage withholds a page from an embed, unless the service opens it to the origin's scripts.
func (j *journey) holdsPage(status int, fields []request.Field) bool {
	contentType, allowed := valueOf(fields, "Content-Type"), valueOf(fields, "Access-Control-Allow-Origin")
	if !verdict.IsHTML(contentType) || status < 200 || status > 299 {
		return false
	}
	v := j.view
	j.core.pages.note(j.svc.Name, v, status, contentType)
	if string(j.purpose.Mode) == "cors" && (string(allowed) == "*" || len(allowed) > 0 &&
		string(allowed) == string(j.purpose.Origin)) {
		return false
	}
	j.declined = true
	j.core.deps.Decider.Answered(v, j.svc.Verdict, status, contentType) // in place of the event
	return j.svc.Verdict.Mode == verdict.Enforce
}

func isPrefetch(v *request.View) bool {
	if m := string(v.Method); m != "GET" && m != "HEAD" {
		return false
	}
	const prefetch = "prefetch" // may be followed by parameters such as ";prerender"
	for i := range v.Fields {
		f := &v.Fields[i]
		if (request.EqualFold(f.Name, "Sec-Purpose") || request.EqualFold(f.Name, "Purpose")) &&
			request.HasPrefixFold(f.Value, prefetch) {
			return len(f.Value) == len(prefetch) || f.Value[len(prefetch)] == ';' || f.Value[len(prefetch)] == ' '
		}
	}
	return false
}

// decideAll decides, and reports whether it declined a prefetch: of a visitor who would be challenged, would pay with a
// pass, or is near a limit. A declined prefetch costs nothing; the browser loads the page again when it is opened.
func (j *journey) decideAll() (declined bool) {
	if j.svc.Verdict.Mode != verdict.Enforce || !isPrefetch(j.view) || j.kind() == kindProgram {
		j.decide()
		return false
	}
	j.watch()
	d := &j.decision
	switch {
	case d.Verdict == verdict.Blocked || !d.Judged():
		j.decide()
		return false
	// the last holds a spent pass
	case d.Verdict != verdict.Human, d.Paid, d.Excused.Kind == identity.KindSpravka:
	case j.core.deps.Decider.IsNear(j.view, &j.id, j.svc.Verdict):
	default:
		j.decide()
		return false
	}
	j.declined, j.ownPage = true, true
	j.answer(j.snap.Captcha.Failed(j.request(), 503, captcha.ReadsNothing))
	return true
}

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
