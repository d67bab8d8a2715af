package proxy

import (
	"hash/maphash"
	"sync/atomic"

	"antirobot/captcha"
	"antirobot/identity"
	"antirobot/request"
	"antirobot/verdict"
)

// A page of another site can make its readers' browsers request any URL: forty <img> elements that name a shop's pages would use up
// the quota of everyone who reads it. Browsers label such requests (Sec-Fetch-Site, Sec-Fetch-Mode). They get no page, and count for
// no visitor. Images, scripts, fonts and data for other sites are served as usual.

// pages remembers which URLs were answered with HTML. It is a table of fixed size without locks: URLs that share a slot evict each
// other, and one that is missing is recognised by its next answer. Safe for concurrent use.
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

// note records the type of an answer to a GET.
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

// isEmbed reports whether a page of another site makes the request, other than by navigating. Sites in cors_origins are trusted.
func isEmbed(v *request.View, s *Service) bool {
	if m := string(v.Method); m != "GET" && m != "HEAD" || string(v.Get("Sec-Fetch-Site")) != "cross-site" {
		return false
	}
	switch string(v.Get("Sec-Fetch-Mode")) {
	case "", "navigate", "websocket":
		return false
	}
	from := v.Get("Origin")
	if len(from) == 0 {
		from = v.Get("Referer")
	}
	return len(from) == 0 || !s.Captcha.OwnsPage(from, v.Host)
}

// refusesEmbed answers an embed of a URL that is known to be a page, before it is decided: the visitor is not counted. The same URL
// may be data for a script that asks in mode cors, so there the answer decides.
func (j *journey) refusesEmbed() bool {
	if j.embed = isEmbed(j.view, j.svc); !j.embed || j.svc.Verdict.Mode != verdict.Enforce ||
		string(j.view.Get("Sec-Fetch-Mode")) == "cors" || !j.core.pages.has(j.svc.Name, j.view) {
		return false
	}
	j.watch()
	if j.decision.Verdict == verdict.Blocked || !j.decision.Judged() || j.decision.Waived == verdict.WaivedWellKnown {
		return false
	}
	j.declined, j.ownPage = true, true // the answer is the gateway's, and no event
	j.answer(j.crossSite())
	return true
}

// valueOf returns the value of the last field called name; nil if there is none.
func valueOf(fields []request.Field, name string) (value []byte) {
	for i := range fields {
		if request.EqualFold(fields[i].Name, name) {
			value = fields[i].Value
		}
	}
	return value
}

func (j *journey) crossSite() captcha.Response { return j.snap.Captcha.CrossSite(j.request()) }

// holdsPage withholds a page from an embed. A service that lets the origin's scripts read the page has decided otherwise.
func (j *journey) holdsPage(status int, fields []request.Field) bool {
	contentType, allowed := valueOf(fields, "Content-Type"), valueOf(fields, "Access-Control-Allow-Origin")
	if !verdict.IsHTML(contentType) || status < 200 || status > 299 {
		return false
	}
	v := j.view
	j.core.pages.note(j.svc.Name, v, status, contentType)
	if string(v.Get("Sec-Fetch-Mode")) == "cors" && (string(allowed) == "*" || len(allowed) > 0 && string(allowed) == string(v.Get("Origin"))) {
		return false
	}
	j.declined = true
	j.core.deps.Decider.Answered(v, j.svc.Verdict, status, contentType) // in place of the event
	return j.svc.Verdict.Mode == verdict.Enforce
}

// isPrefetch reports whether a browser loads a page ahead of time, which nobody may ever open.
func isPrefetch(v *request.View) bool {
	if m := string(v.Method); m != "GET" && m != "HEAD" {
		return false
	}
	const prefetch = "prefetch" // alone, or followed by parameters such as ";prerender"
	for i := range v.Fields {
		f := &v.Fields[i]
		if (request.EqualFold(f.Name, "Sec-Purpose") || request.EqualFold(f.Name, "Purpose")) && request.HasPrefixFold(f.Value, prefetch) {
			return len(f.Value) == len(prefetch) || f.Value[len(prefetch)] == ';' || f.Value[len(prefetch)] == ' '
		}
	}
	return false
}

// decideAll gives the verdict, and reports whether the request was a prefetch that is declined: of a visitor who would be
// challenged, would pay with a pass, or is near a limit. Such a prefetch costs nothing: no unit of a pass, no count in a
// session. Browsers load the page again when it is opened; a program is refused as for any other request.
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
	case d.Verdict != verdict.Human, d.Paid, d.Excused.Kind == identity.KindSpravka: // the last is a spent pass that stands in
	case j.core.deps.Decider.IsNear(&j.id, j.svc.Verdict, j.view.At):
	default: // it passes, and counts as any other
		j.decide()
		return false
	}
	j.declined, j.ownPage = true, true // the answer is the gateway's, and no event
	j.answer(j.snap.Captcha.Failed(j.request(), 503, captcha.ReadsNothing))
	return true
}
