package sim

// route changes the route inside a single-page application: no document, only
// what the new view asks for.
func (b *Browser) route(uri string) {
	b.goodbye(b.tab)
	pg := b.page()
	streams := pg.polls
	p := b.site.Get(&Req{Method: "GET", URL: uri, At: b.now, S: b.S, Route: true})
	next := &Page{URL: uri, sec: "route", Resp: p, opened: b.now, have: map[string]bool{}, ref: pg.ref}
	t := b.tab
	t.hist = append(t.hist[:t.at+1:t.at+1], next)
	t.at = len(t.hist) - 1
	b.enter(next, streams)
}

func (b *Browser) enter(pg *Page, old []*polling) {
	end := b.parts(pg, pg.Parts, b.now+int64(b.r.u(5, 40)), b.url(pg.URL))
	at := b.now
	b.start(pg, at)
	for i, p := range pg.polls { // a stream of the application goes on
		for _, q := range old {
			if p.URL == q.URL {
				pg.polls[i] = q
			}
		}
	}
	b.until(min(end, at+3*second))
}

// routeBack shows the view before, from what the application still holds.
func (b *Browser) routeBack() {
	pg := b.tab.page()
	if b.now-pg.opened > 2*minute { // what is held is stale
		p := b.site.Get(&Req{Method: "GET", URL: pg.URL, At: b.now, S: b.S, Route: true})
		pg.have, pg.lazy, pg.opened = map[string]bool{}, nil, b.now
		b.parts(pg, p.Parts, b.now+int64(b.r.u(5, 40)), b.url(pg.URL))
	}
	b.resume(pg)
	b.step(b.r.u(0.1, 0.3))
}

// shell answers a navigation from the service worker's cache.
func (b *Browser) shell(t *Tab, uri, ref, sec string) {
	at := b.now + int64(b.r.u(25, 120))
	p := b.site.Get(&Req{Method: "GET", URL: uri, At: at, S: b.S, Route: true, Kind: "shell"})
	pg := &Page{URL: uri, ref: ref, sec: sec, Resp: p, opened: at, have: map[string]bool{}}
	if len(t.hist) > 0 {
		t.hist = t.hist[:t.at+1]
	}
	t.hist = append(t.hist, pg)
	t.at = len(t.hist) - 1
	b.parts(pg, pg.Parts, at, b.url(uri))
	b.start(pg, at)
	b.checkWorker(at + int64(b.r.u(900, 2500)))
	if !t.hidden {
		b.until(at + int64(b.r.u(30, 250)))
	}
}

// checkWorker asks whether the service worker has changed.
func (b *Browser) checkWorker(at int64) {
	p := b.site.Get(&Req{Method: "GET", URL: b.site.Worker, At: at, S: b.S})
	send := *p
	if e := b.cache[b.site.Worker]; e != nil && e.resp.Tag == p.Tag {
		send.Status = 304
	}
	end := b.arrive(at, &send)
	b.emit(end, "GET", b.site.Worker, "sw", b.url(b.site.Worker), "same-origin", &send)
	b.cache[b.site.Worker] = &entry{at: end, resp: p}
}

// installWorker registers the service worker after the first load: it fetches
// its script and what it keeps for later.
func (b *Browser) installWorker(keep []string) {
	if b.NoJS || b.Bare || b.worker || b.site.Worker == "" || b.C.Family == "ie" || b.C.Family == "tool" {
		return
	}
	if hf(b.site.Name, "worker for half", b.key) < 0.5 {
		return
	}
	at := b.now + int64(b.r.u(1200, 3000))
	p := b.site.Get(&Req{Method: "GET", URL: b.site.Worker, At: at, S: b.S})
	end := b.arrive(at, p)
	b.emit(end, "GET", b.site.Worker, "sw", b.url(b.page().URL), "same-origin", p)
	b.cache[b.site.Worker] = &entry{at: end, resp: p}
	for _, u := range keep {
		b.load(end+int64(b.r.u(20, 90)), u, "fetch", b.url(b.site.Worker))
	}
	b.worker = true
}
