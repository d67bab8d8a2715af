package sim

import "strings"

// step is one recorded act, for robots that replay sessions.
type step struct {
	op, a, c string
	d, e     float64
}

func (b *Browser) note(op, a, c string, d, e float64) {
	if b.rec != nil {
		*b.rec = append(*b.rec, step{op, a, c, d, e})
	}
}

// goTo opens an address in the tab that is looked at, as if typed or come from
// elsewhere: ref is empty or another site's origin.
func (b *Browser) goTo(uri, ref string) {
	b.note("goto", uri, ref, 0, 0)
	sec := "none"
	if ref != "" && !b.Driven {
		sec = "cross-site"
	}
	b.open(uri, ref, sec)
}

func (b *Browser) open(uri, ref, sec string) {
	if b.tab == nil {
		b.tab = &Tab{}
		b.tabs = append(b.tabs, b.tab)
	}
	b.leave(b.tab, true)
	b.tab.hidden = false
	b.navigate(b.tab, "GET", uri, ref, sec, false)
}

// newTab opens an address in a new tab in front.
func (b *Browser) newTab(uri, ref string) {
	b.note("newtab", uri, ref, 0, 0)
	sec := "none"
	if ref != "" && !b.Driven {
		sec = "cross-site"
	}
	b.hide()
	b.tab = &Tab{}
	b.tabs = append(b.tabs, b.tab)
	b.navigate(b.tab, "GET", uri, ref, sec, false)
}

// click follows a link of the page in the same tab.
func (b *Browser) click(l Link) {
	b.note("click", l.URL, l.Kind, l.Pos, 0)
	pg := b.page()
	if pg.Resp == nil || pg.URL == "" {
		b.open(l.URL, "", "none")
		return
	}
	ref := b.url(pg.URL)
	if b.site.Soft && !b.NoJS && !b.Bare && l.Kind != "hard" {
		b.route(l.URL)
		return
	}
	b.hover(l, 1)
	b.leave(b.tab, true)
	b.navigate(b.tab, "GET", l.URL, ref, "same-origin", false)
}

// hover lets the page fetch a link in advance when the pointer is on it.
func (b *Browser) hover(l Link, p float64) {
	pg := b.page()
	if b.site.Hover == "" || b.NoJS || b.Bare || b.Saver || strings.HasPrefix(l.Kind, "form") || b.site.Hover == "spec" && strings.Contains(l.URL, "?") || !b.r.p(p) {
		return
	}
	part := Part{URL: l.URL, Kind: b.site.Hover}
	if b.blocked(part) || pg.have == nil || pg.have[l.URL] {
		return
	}
	b.part(pg, part, b.now, b.url(pg.URL))
	if b.C.Mobile {
		b.step(b.r.u(0.06, 0.16))
		return
	}
	b.step(b.r.logN(0.22, 0.5))
}

// behind opens a link in a background tab.
func (b *Browser) behind(l Link) *Tab {
	b.note("behind", l.URL, l.Kind, l.Pos, 0)
	pg := b.page()
	t := &Tab{hidden: true}
	b.tabs = append(b.tabs, t)
	delete(b.S, "frag")
	now := b.now
	b.navigate(t, "GET", l.URL, b.url(pg.URL), "same-origin", false)
	b.now = now
	b.step(b.r.u(0.25, 0.6))
	return t
}

// submit sends the form of the page.
func (b *Browser) submit(method, uri string) *Page {
	b.note("submit", uri, method, 0, 0)
	pg := b.page()
	ref := b.url(pg.URL)
	b.leave(b.tab, true)
	b.navigate(b.tab, method, uri, ref, "same-origin", false)
	return b.page()
}

// call lets a script of the page send a request.
func (b *Browser) call(method, uri, kind string) *Resp {
	b.note("call", uri, method+" "+kind, 0, 0)
	if b.NoJS || b.Bare {
		return &Resp{Status: 0}
	}
	if method == "GET" && kind != "fetch!" {
		p, end := b.load(b.now, uri, kind, b.url(b.page().URL))
		b.until(end)
		return p
	}
	p, end := b.ask(b.now, method, uri, kind, b.url(b.page().URL), "same-origin")
	b.until(end)
	return p
}

// back goes back one page: out of memory, out of the cache or by a request.
func (b *Browser) back() bool {
	b.note("back", "", "", 0, 0)
	if b.tab == nil || b.tab.at == 0 {
		return false
	}
	if b.site.Soft && !b.NoJS && b.tab.hist[b.tab.at].sec == "route" {
		b.leave(b.tab, false)
		b.tab.at--
		b.routeBack()
		return true
	}
	b.leave(b.tab, true)
	b.tab.at--
	b.revive(b.tab)
	return true
}

// revive shows a page of the history again.
func (b *Browser) revive(t *Tab) {
	pg := t.page()
	if pg.bf && b.now-pg.left < 10*minute {
		b.step(b.r.u(0.08, 0.3))
		b.resume(pg)
		return
	}
	hist, at := t.hist, t.at
	t.hist, t.at = append([]*Page{}, hist[:at]...), max(0, at-1)
	b.navigate(t, "GET", pg.URL, pg.ref, pg.sec, true)
	pg2 := t.page()
	t.hist, t.at = hist, at
	t.hist[at] = pg2
	b.look(b.r.u(0.05, 0.3), pg.depth) // the place on the page is restored
}

// reload loads the page again.
func (b *Browser) reload() {
	b.note("reload", "", "", 0, 0)
	t := b.tab
	pg := b.page()
	if pg.URL == "" {
		return
	}
	b.leave(t, true)
	hist, at := t.hist, t.at
	t.hist, t.at = append([]*Page{}, hist[:at]...), max(0, at-1)
	if e := b.cache[pg.URL]; e != nil {
		e.at = 0
	}
	b.navigate(t, "GET", pg.URL, pg.ref, pg.sec, false)
	pg2 := t.page()
	t.hist, t.at = hist, at
	t.hist[at] = pg2
}

// navigate loads a document into a tab, past redirects.
func (b *Browser) navigate(t *Tab, method, uri, ref, sec string, history bool) {
	if b.hasWorker() {
		b.shell(t, uri, ref, sec)
		return
	}
	at := b.now
	var p *Resp
	posted := method != "GET"
	for range 6 {
		uri, _, _ = strings.Cut(uri, "#")
		kind := "doc"
		e, fresh := b.lookup(uri, at)
		if when, ok := b.spec[uri]; ok && method == "GET" && at-when < 5*minute && e != nil {
			delete(b.spec, uri)
			p, at = e.resp, max(at, when)+20
		} else if method == "GET" && e != nil && !b.Bare && (fresh || history) {
			p = e.resp
			at += int64(b.r.u(20, 90))
		} else {
			p = b.site.Get(&Req{Method: method, URL: uri, At: at, S: b.S, Kind: kind})
			send := *p
			if method == "GET" && e != nil && p.Tag != "" && p.Tag == e.resp.Tag {
				send.Status, send.Size = 304, 0
			}
			if b.hasty(at) {
				b.emit(at+int64(b.r.u(250, 1200)), method, uri, kind, ref, sec, &Resp{Status: 499})
				at += int64(b.r.u(300, 1300))
			}
			at = b.arrive(at, &send)
			b.emit(at, method, uri, kind, ref, sec, &send)
			if method == "GET" && p.Status == 200 && p.MaxAge >= 0 {
				b.cache[uri] = &entry{at: at, resp: p}
			}
		}
		if p.Location == "" {
			break
		}
		if p.Status != 307 {
			method = "GET"
		}
		uri = p.Location
	}
	pg := &Page{URL: uri, ref: ref, sec: sec, Resp: p, opened: at, have: map[string]bool{}, posted: posted}
	if len(t.hist) > 0 {
		t.hist = t.hist[:t.at+1]
	}
	t.hist = append(t.hist, pg)
	t.at = len(t.hist) - 1
	b.furnish(t, pg, at)
}

// furnish loads the parts of a new page.
func (b *Browser) furnish(t *Tab, pg *Page, at int64) {
	self := b.url(pg.URL)
	done := b.parts(pg, pg.Parts, at+int64(b.r.u(1, 15)), self)
	if !b.icon && !b.iconless() && !b.Bare && b.C.Family != "tool" && strings.HasPrefix(pg.Type, "text/html") {
		b.icon = true
		b.load(done+int64(b.r.u(5, 60)), "/favicon.ico", "icon", self)
	}
	b.start(pg, at)
	if !t.hidden {
		b.until(at + int64(b.r.u(30, 250)))
		b.installWorker(b.site.Keep)
	}
}

// hasWorker says whether the site's service worker answers navigations.
func (b *Browser) hasWorker() bool { return b.site.Worker != "" && b.worker && !b.NoJS && !b.Bare }

// hasty says whether a person on a bad line asks twice.
func (b *Browser) hasty(int64) bool { return b.Loss > 0.02 && b.r.p(b.Loss/3) }

// switchTo brings a tab to the front.
func (b *Browser) switchTo(t *Tab) {
	for i, x := range b.tabs {
		if x == t {
			b.note("switch", "", "", float64(i), 0)
		}
	}
	if t == b.tab {
		return
	}
	b.hide()
	b.tab = t
	t.hidden = false
	b.step(b.r.u(0.1, 0.4))
}

// hide puts the front tab into the background.
func (b *Browser) hide() {
	if b.tab == nil || b.tab.hidden {
		return
	}
	b.tab.hidden = true
	b.goodbye(b.tab)
}

// closeTab closes the front tab; the one to its left comes to the front.
func (b *Browser) closeTab() {
	b.note("close", "", "", 0, 0)
	if b.tab == nil {
		return
	}
	b.leave(b.tab, true)
	for i, x := range b.tabs {
		if x == b.tab {
			b.tabs = append(b.tabs[:i:i], b.tabs[i+1:]...)
			b.tab = nil
			if len(b.tabs) > 0 {
				b.tab = b.tabs[max(0, i-1)]
				b.tab.hidden = false
			}
			return
		}
	}
}

// quit closes every tab.
func (b *Browser) quit() {
	for b.tab != nil {
		b.closeTab()
	}
	b.tabs = nil
	delete(b.S, "frag")
}
