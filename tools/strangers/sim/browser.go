package sim

import (
	"strings"
)

// Browser is a browser profile (or a plain client) with its cache, its tabs
// and its own clock.
type Browser struct {
	site    *Site
	log     *Log
	r       *Rand
	who     Subject
	key     string // identity of the profile
	ByAddr  bool   // keeps no cookies: known by address only
	Addr    string
	C       *Client
	now     int64
	cache   map[string]*entry
	tabs    []*Tab
	tab     *Tab
	S       map[string]int
	RTT     float64 // seconds
	BW      float64 // bytes a second
	Loss    float64
	pipe    int64
	warm    float64 // hours since a usual visit before the log; 0 is a new profile
	born    int64
	NoRef   bool
	NoImg   bool
	NoJS    bool
	NoTrack bool
	NoCache bool
	NoFont  bool
	Driven  bool // opened by a driver, which may set a Referer without a site
	Bare    bool // loads documents only
	Saver   bool // asks the site for nothing in advance
	asleep  bool
	Quic    float64 // chance that this profile gets through with HTTP/3
	sent    int
	outside string // page of another site that uses parts of this one
	icon    bool
	worker  bool
	rec     *[]step
	spec    map[string]int64
}

type entry struct {
	at   int64
	resp *Resp
}

// Tab is a tab with its history.
type Tab struct {
	hist   []*Page
	at     int
	hidden bool
}

// Page is a document that was opened in a tab.
type Page struct {
	URL, ref, sec string
	*Resp
	opened int64
	lazy   []Part
	have   map[string]bool
	polls  []*polling
	bf     bool
	left   int64
	posted bool
	depth  float64
}

type polling struct {
	Poll
	next, since int64
	n           int
}

func (t *Tab) page() *Page {
	if len(t.hist) == 0 {
		return nil
	}
	return t.hist[t.at]
}

// page is the page that is looked at.
func (b *Browser) page() *Page {
	if b.tab == nil || b.tab.page() == nil {
		return &Page{Resp: &Resp{Kind: "none", Height: 1}}
	}
	return b.tab.page()
}

func (b *Browser) id() string {
	if b.ByAddr {
		return hex(hash(b.site.Seed, b.site.Name, "addr", b.Addr))
	}
	return hex(hash(b.site.Seed, b.site.Name, "profile", b.key))
}

func hex(x uint64) string {
	const d = "0123456789abcdef"
	var o [12]byte
	for i := range o {
		o[i] = d[x&15]
		x >>= 4
	}
	return string(o[:])
}

// emit writes one line.
func (b *Browser) emit(at int64, method, uri, kind, ref, sec string, p *Resp) {
	accept, mode, dest := b.C.heads(kind)
	if !b.site.TLS || !b.C.Sec {
		mode, dest, sec = "", "", ""
	}
	if b.outside != "" && sec == "same-origin" {
		sec = "cross-site"
	}
	if b.NoRef {
		ref = ""
	}
	proto := b.site.Proto
	if b.sent++; b.site.H3 && b.sent > 9 && hf("h3", b.key, b.site.Seed) < b.Quic {
		proto = "HTTP/3.0"
	}
	if b.C.Proto != "" {
		proto = b.C.Proto
	}
	size, typ := p.Size, p.Type
	switch {
	case p.Status == 304 || p.Status == 204:
		size, typ = 0, ""
	case p.Status == 499:
		size, typ = 0, ""
	case method == "HEAD":
		size = 0
	}
	id := b.id()
	b.log.subject(id, b.who)
	b.log.Events = append(b.log.Events, Event{
		At: at, Addr: b.Addr, Visitor: id, Method: method, URI: uri, Proto: proto, Status: p.Status, Bytes: size,
		Ref: ref, UA: b.C.UA, Type: typ, Accept: accept, Mode: mode, Dest: dest, SecFetSite: sec,
	})
}

// ask sends one request and returns the answer and when it was complete.
func (b *Browser) ask(at int64, method, uri, kind, ref, sec string) (*Resp, int64) {
	p := b.site.Get(&Req{Method: method, URL: uri, At: at, S: b.S, Kind: kind})
	end := b.arrive(at, p)
	if p.Hold > 0 {
		end += int64(p.Hold * 1000)
	}
	b.emit(end, method, uri, kind, ref, sec, p)
	return p, end
}

// arrive says when an answer that was asked for at a time is complete.
func (b *Browser) arrive(at int64, p *Resp) int64 {
	wait := b.r.logN(b.RTT, 0.25) + b.r.logN(max(0.002, p.Think), 0.4)
	if b.Loss > 0 && b.r.p(b.Loss) {
		wait += b.r.logN(1.5, 0.8)
	}
	move := int64(float64(p.Size) / b.BW * 1000)
	if p.Size < 3000 { // too small to wait for the line
		return at + int64(wait*1000)
	}
	b.pipe = max(min(b.pipe, at+20*second), at) + move
	return max(at+int64(wait*1000)+move, b.pipe)
}

// lookup finds a stored answer; fresh says it may be used unasked.
func (b *Browser) lookup(uri string, at int64) (e *entry, fresh bool) {
	if b.NoCache {
		return nil, false
	}
	e = b.cache[uri]
	if e == nil && b.warm > 0 {
		p := b.site.Get(&Req{Method: "GET", URL: uri, At: at, S: map[string]int{}, Kind: "warm"})
		if p.Common && p.Status == 200 && p.MaxAge >= 600 {
			e = &entry{at: b.born - int64(b.r.logN(b.warm, 0.8)*float64(hour)), resp: p}
			b.cache[uri] = e
		}
	}
	if e == nil {
		return nil, false
	}
	return e, e.resp.MaxAge > 0 && at-e.at < e.resp.MaxAge*1000
}

// load gets a part through the cache and returns when it was there.
func (b *Browser) load(at int64, uri, kind, ref string) (*Resp, int64) {
	e, fresh := b.lookup(uri, at)
	if fresh {
		return e.resp, max(at, e.at) // perhaps still on its way
	}
	p := b.site.Get(&Req{Method: "GET", URL: uri, At: at, S: b.S, Kind: kind})
	send := *p
	if e != nil && p.Tag != "" && p.Tag == e.resp.Tag && p.Status == 200 {
		send.Status, send.Size = 304, 0
	}
	end := b.arrive(at, &send)
	if b.Loss > 0.05 && send.Size > 30000 && b.r.p(b.Loss/2) { // broken off on a bad line and fetched again
		cutOff := send
		cutOff.Size = int(float64(send.Size) * b.r.u(0.1, 0.8))
		b.emit(end, "GET", uri, kind, ref, "same-origin", &cutOff)
		end = b.arrive(end+int64(b.r.u(300, 4000)), &send)
	}
	b.emit(end, "GET", uri, kind, ref, "same-origin", &send)
	if p.Status == 200 && p.MaxAge >= 0 {
		b.cache[uri] = &entry{at: end, resp: p}
	}
	if p.Location != "" && strings.HasPrefix(p.Location, "/") {
		return b.load(end, p.Location, kind, ref)
	}
	return p, end
}

func (b *Browser) url(uri string) string { return b.site.origin() + uri }

// blocked says whether this profile does not load such a part.
func (b *Browser) blocked(p Part) bool {
	switch {
	case b.Bare:
		return true
	case b.NoTrack && p.Track:
		return true
	case b.NoImg && (p.Kind == "image" || p.Kind == "video"):
		return true
	case b.NoFont && p.Kind == "font":
		return true
	case b.NoJS && (p.Script || p.Kind == "script" || p.Kind == "module" || p.Kind == "beacon"):
		return true
	case b.Saver && p.Kind == "prefetch", p.Kind == "prefetch" && b.C.Family == "safari":
		return true
	case p.Kind == "spec" && b.C.Family != "chrome":
		return true
	}
	return false
}

// parts loads what a page needs from time t on.
func (b *Browser) parts(pg *Page, list []Part, t int64, ref string) int64 {
	last := t
	first := b.viewport(pg)
	for i, p := range list {
		if b.blocked(p) || pg.have[p.URL] && p.Kind != "beacon" {
			continue
		}
		if p.Pos > first && !b.NoJS {
			pg.lazy = append(pg.lazy, p)
			continue
		}
		at := t + int64(p.After*1000*b.r.u(0.8, 1.4)) + int64(b.r.u(0, 6)) + int64(i/6)
		last = max(last, b.part(pg, p, at, ref))
	}
	return last
}

// viewport is how far below the top pictures are fetched at once.
func (b *Browser) viewport(pg *Page) float64 {
	if b.C.Family == "chrome" {
		return 2.2
	}
	return 1.3
}

func (b *Browser) part(pg *Page, p Part, at int64, ref string) int64 {
	pg.have[p.URL] = true
	if p.Kind == "beacon" || p.Method != "" && p.Method != "GET" {
		m := p.Method
		if m == "" {
			m = "POST"
		}
		_, end := b.ask(at, m, p.URL, p.Kind, ref, "same-origin")
		return end
	}
	q, end := b.load(at, p.URL, p.Kind, ref)
	if p.Kind == "video" && b.r.p(0.5) { // it is played: more ranges
		for range b.r.n(1, 4) {
			_, end = b.ask(end+int64(b.r.u(1500, 9000)), "GET", p.URL, p.Kind, ref, "same-origin")
		}
		return at
	}
	if (p.Kind == "spec" || p.Kind == "prefetch") && strings.HasPrefix(q.Type, "text/html") && q.Status == 200 && q.MaxAge >= 0 {
		b.spec[p.URL] = end
	}
	if len(q.Parts) > 0 && (p.Kind == "style" || p.Kind == "script" || p.Kind == "module" || p.Kind == "iframe" || p.Script) {
		from := ref
		if !p.Script {
			from = b.url(p.URL)
		}
		end = max(end, b.parts(pg, q.Parts, end+int64(b.r.u(5, 40)), from))
	}
	return end
}

// external is a Referer of another site, cut to its origin as browsers do.
func external(r *Rand, kind string) string {
	switch kind {
	case "search":
		return pick(r, []string{"https://www.google.com/", "https://www.google.com/", "https://www.google.com/", "https://www.bing.com/", "https://duckduckgo.com/", "https://www.ecosia.org/"})
	case "social":
		return pick(r, []string{"https://l.facebook.com/", "https://www.reddit.com/", "https://t.co/", "https://l.instagram.com/", "https://www.linkedin.com/", ""})
	case "mail":
		return pick(r, []string{"", "", "https://mail.google.com/", "https://outlook.live.com/"})
	}
	return ""
}

func inside(ref string, s *Site) bool { return strings.HasPrefix(ref, s.origin()) }
