package sim

import "math"

// step lets a short time go by.
func (b *Browser) step(sec float64) { b.until(b.now + int64(sec*1000)) }

// wait lets time go by without scrolling.
func (b *Browser) wait(sec float64) {
	b.note("wait", "", "", sec, 0)
	b.step(sec)
}

// sleep lets time go by with the device asleep.
func (b *Browser) sleep(sec float64) {
	b.asleep = true
	b.step(sec)
	b.asleep = false
}

// until moves the clock on and lets open pages poll meanwhile.
func (b *Browser) until(to int64) {
	if to <= b.now {
		return
	}
	for _, t := range b.tabs {
		if pg := t.page(); pg != nil {
			for _, p := range pg.polls {
				b.tick(t, pg, p, to)
			}
		}
	}
	b.now = to
}

func (b *Browser) start(pg *Page, at int64) {
	if b.Bare || b.NoJS {
		return
	}
	pg.polls = nil
	for _, p := range pg.Polls {
		if p.Track && b.NoTrack {
			continue
		}
		first := p.First
		if first == 0 {
			first = p.Every
		}
		q := &polling{Poll: p, next: at + int64(first*1000), since: at + int64(b.r.u(60, 400))}
		if p.Stream {
			q.next = q.since + int64(p.Every*1000)
		}
		pg.polls = append(pg.polls, q)
	}
}

func (b *Browser) resume(pg *Page) {
	pg.bf = false
	for _, p := range pg.polls {
		if p.next < b.now {
			p.next = b.now + int64(b.r.u(50, 400))
			p.since = b.now
		}
	}
}

// tick sends what a poll sends until a time.
func (b *Browser) tick(t *Tab, pg *Page, p *polling, to int64) {
	for p.next <= to && (p.Max == 0 || p.n < p.Max) {
		at := p.next
		gap := int64(p.Every * 1000)
		switch {
		case b.asleep:
			p.next = to + int64(b.r.u(200, 3000))
			p.since = p.next
			return
		case t.hidden && !p.Hidden:
			p.next = to + int64(b.r.u(30, 300))
			return
		case t.hidden && !p.Stream && gap < minute && b.C.Family == "chrome":
			gap = minute // timers of background tabs are aligned
		}
		method := p.Method
		if method == "" {
			method = "GET"
		}
		p.n++
		if p.Stream {
			b.cutStream(pg, p, at, 200)
			p.since = at + int64(b.r.u(20, 3000))
			p.next = p.since + gap
			continue
		}
		_, end := b.ask(at, method, p.URL, p.Kind, b.url(pg.URL), "same-origin")
		p.next = at + gap
		if gap < 20*second || p.chain() {
			p.next = end + gap
		}
	}
}

// chain says that the next poll is set only when the answer is there.
func (p *polling) chain() bool { return p.Kind == "fetch" }

func (b *Browser) cutStream(pg *Page, p *polling, at int64, status int) {
	size := int(float64(at-p.since) / 1000 * 14)
	typ := "text/event-stream"
	if p.Kind != "sse" {
		size, typ = 29, js
	}
	b.emit(at, "GET", p.URL, p.Kind, b.url(pg.URL), "same-origin", &Resp{Status: status, Type: typ, Size: size})
}

// leave ends the page of a tab that goes elsewhere.
func (b *Browser) leave(t *Tab, document bool) {
	pg := t.page()
	if pg == nil {
		return
	}
	if !t.hidden {
		b.goodbye(t)
	}
	streams := false
	for _, p := range pg.polls {
		if p.Stream && document {
			streams = true
			status := 200
			if p.Kind != "sse" {
				status = 499
			}
			if b.now > p.since && !b.asleep {
				b.cutStream(pg, p, b.now, status)
			}
			p.since = b.now
		}
	}
	pg.left = b.now
	pg.bf = document && !b.Driven && pg.MaxAge >= 0 && !streams && !pg.posted && b.C.Family != "ie" && b.C.Family != "tool" && !b.Bare && b.r.p(0.85)
}

// goodbye sends what a page sends when it is no longer seen.
func (b *Browser) goodbye(t *Tab) {
	pg := t.page()
	if pg == nil || b.Bare || b.NoJS {
		return
	}
	for _, p := range pg.Leave {
		if b.NoTrack && p.Track || b.C.Family == "ie" {
			continue
		}
		b.ask(b.now+int64(b.r.u(1, 15)), "POST", p.URL, "beacon", b.url(pg.URL), "same-origin")
	}
}

// look reads the page for so many seconds and scrolls down to a depth in
// screens; pictures are fetched as they come near.
func (b *Browser) look(sec, depth float64) {
	b.note("look", "", "", sec, depth)
	pg := b.page()
	end := b.now + int64(sec*1000)
	if pg.have == nil || len(pg.lazy) == 0 || depth <= pg.depth {
		pg.depth = max(pg.depth, min(depth, pg.Height))
		b.until(end)
		return
	}
	from := pg.depth
	to := min(depth, pg.Height)
	first := min(sec*0.3, b.r.logN(1.1, 0.6))
	span := (sec - first) * b.r.u(0.6, 1)
	bend := b.r.logN(1, 0.3)
	begin := b.now
	var rest []Part
	ahead := b.viewport(pg)
	flick := 0.0
	for _, p := range pg.lazy {
		need := p.Pos - ahead
		if need > to {
			rest = append(rest, p)
			continue
		}
		if need > flick { // one movement of the wheel or the finger shows about a screen
			flick = need + b.r.u(0.1, 1.2)
		}
		frac := clamp((flick-from)/max(0.1, to-from), 0, 1)
		at := begin + int64((first+span*math.Pow(frac, bend))*1000)
		if at > b.now {
			b.until(at)
		}
		if !b.blocked(p) && !pg.have[p.URL] {
			b.part(pg, p, max(at, b.now)+int64(b.r.u(0, 12)), b.url(pg.URL))
		}
	}
	pg.lazy = rest
	pg.depth = max(pg.depth, to)
	b.until(end)
}
