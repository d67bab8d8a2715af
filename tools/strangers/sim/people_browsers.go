package sim

import (
	"fmt"
	"strings"
)

// People whose browser or line is not as others': they may come to any public site.

// badLine is a phone in a train.
func badLine(a *Agent) {
	a.C, a.Addr = phone(a.r), cell(a.r)
	a.RTT, a.BW, a.Loss = a.r.u(0.25, 0.9), a.r.u(15000, 70000), a.r.u(0.05, 0.2)
	a.visits(a.r.u(0.7, 2), publicHours, func() {
		a.come()
		for i := 0; !a.enough(i); i++ {
			a.read(0.7)
			switch {
			case a.r.p(0.07):
				a.reload()
			case a.r.p(0.06): // another cell, another address
				a.Addr = cell(a.r)
				a.sleep(a.r.logN(40, 1))
			case a.r.p(0.2):
				a.back()
			default:
				if !a.follow("item", "related", "next") && !a.follow("list", "nav") {
					return
				}
			}
		}
	})
}

// commuter reads on the train, the line breaks in tunnels, the phone sleeps.
func commuter(a *Agent) {
	a.C, a.Addr = phone(a.r), cell(a.r)
	a.RTT, a.BW, a.Loss = a.r.u(0.06, 0.2), a.r.u(150000, 900000), a.r.u(0.01, 0.05)
	a.warm, a.icon = 14, true
	morning, back := a.r.u(6.3, 8.6), a.r.u(16, 18.6)
	for d := range a.site.Days {
		for _, h := range []float64{morning, back} {
			if a.r.p(0.15) {
				continue
			}
			a.begin(a.at(d, h)+int64(a.r.NormFloat64()*7*float64(minute)), func() {
				if a.tab != nil && a.r.p(0.5) { // the old tab is still there
					a.tab.hidden = false
					a.reload()
				} else {
					a.arrive("home")
				}
				stop := a.now + int64(a.r.u(10, 45)*60000)
				for a.now < stop {
					a.read(0.9)
					if a.r.p(0.12) {
						a.goodbye(a.tab)
						a.sleep(a.r.logN(60, 1))
					}
					if a.page().Kind == "item" && a.r.p(0.65) {
						a.back()
						a.look(a.r.logN(2.2, 0.6), a.page().depth+1)
					}
					if !a.follow("item", "related", "next") && !a.back() {
						return
					}
				}
			})
		}
	}
}

// vpn changes the address in the middle of visits.
func vpn(a *Agent) {
	a.visits(a.r.u(0.8, 2), eveningHours, func() {
		a.Addr = centre(a.r)
		a.come()
		for i := 0; !a.enough(i); i++ {
			a.read(0.9)
			if a.r.p(0.12) {
				a.Addr = centre(a.r)
			}
			if a.r.p(0.25) && a.back() {
				continue
			}
			if !a.follow("item", "related", "next") && !a.follow("list", "nav") {
				return
			}
		}
	})
}

// private sends no Referer, blocks counters and keeps no cookies.
func private(a *Agent) {
	a.C = pick(a.r, []*Client{firefox(linux, 143), firefox(win, 140), chrome(win, 140), chrome(linux, 139)})
	a.ByAddr, a.NoTrack, a.NoFont = true, true, a.r.p(0.5)
	a.NoRef = a.r.p(0.7)
	a.NoJS = a.r.p(0.3)
	a.NoImg = a.r.p(0.15)
	a.visits(a.r.u(0.6, 1.8), eveningHours, func() {
		a.forgetful()
		a.icon = false
		a.come()
		a.wander(0.9)
	})
}

// lean has scripts and pictures off.
func lean(a *Agent) {
	a.C = firefox(linux, 140)
	a.NoJS, a.NoImg, a.NoTrack = true, true, true
	if a.r.p(0.4) {
		a.C = tool("Lynx/2.9.0dev.12 libwww-FM/2.14 SSL-MM/1.4.1 GNUTLS/3.7.8", "text/html, text/plain, text/sgml, text/css, application/xhtml+xml, */*;q=0.01")
		a.C.Proto = "HTTP/1.0"
		a.Bare = true
	}
	a.visits(a.r.u(0.5, 1.5), publicHours, func() {
		a.come()
		a.wander(1)
	})
}

// translated reads through a translation proxy: documents are fetched by the
// proxy, parts by the person's own browser.
func translated(a *Agent) {
	own := *a.Browser
	own.cache, own.key, own.NoFont, own.icon = map[string]*entry{}, a.key+"/own", true, true
	own.outside = "https://" + strings.ReplaceAll(a.site.Host, ".", "-") + ".translate.goog/"
	a.ByAddr = true
	a.Addr = fmt.Sprintf("66.249.%d.%d", a.r.n(80, 95), a.Index%200+20)
	a.C = &Client{UA: a.C.UA + ",gzip(gfe),gzip(gfe)", Family: "tool", Accept: a.C.page(), Proto: "HTTP/1.1"}
	a.Bare, a.NoRef = true, a.r.p(0.5)
	from := len(a.log.Events)
	a.visits(a.r.u(0.5, 1.2), publicHours, func() {
		a.come()
		a.wander(1)
	})
	for _, e := range a.log.Events[from:] {
		if strings.HasPrefix(e.Type, "text/html") && e.Status == 200 {
			own.beside(e)
		}
	}
}

// beside loads the pictures and styles of a page that a translation proxy shows.
func (b *Browser) beside(e Event) {
	p := b.site.Get(&Req{Method: "GET", URL: e.URI, At: e.At, S: map[string]int{"frag": 1}, Kind: "warm"})
	depth := b.r.u(1, 5)
	for _, x := range p.Parts {
		if x.Script || x.Method != "" || x.Pos > depth || x.Kind != "style" && x.Kind != "script" && x.Kind != "image" {
			continue
		}
		b.load(e.At+int64(b.r.u(200, 900)+x.Pos*2500), x.URL, x.Kind, b.outside)
	}
}

// oldDevice has a browser of years ago on a slow line.
func oldDevice(a *Agent) {
	a.C = old(a.r)
	a.RTT, a.BW = a.r.u(0.08, 0.3), a.r.u(60000, 300000)
	a.T.Slow *= 1.8
	a.visits(a.r.u(0.5, 1.4), publicHours, func() {
		a.come()
		a.wander(1)
	})
}

// inApp reads a page or two in the browser of an app.
func inApp(a *Agent) {
	a.C, a.Addr = webview(a.r), cell(a.r)
	a.RTT, a.BW = a.r.u(0.05, 0.2), a.r.u(300000, 2000000)
	a.visits(a.r.u(0.5, 1.5), eveningHours, func() {
		a.forgetful()
		a.arrive("social")
		a.read(0.7)
		for a.r.p(0.3) && a.follow("related", "item", "list") {
			a.read(0.5)
		}
	})
}

// forgetful drops what a private session drops but stays the same visitor.
func (b *Browser) forgetful() {
	b.cache, b.worker, b.icon, b.warm = map[string]*entry{}, false, b.iconless(), 0
	for _, k := range []string{"cart", "frag", "login", "user", "phone"} {
		delete(b.S, k)
	}
}

// iconless browsers show no tabs and fetch no icon.
func (b *Browser) iconless() bool {
	for _, s := range []string{"Headless", "FBAN", "Instagram", "GSA/", "Lighthouse"} {
		if strings.Contains(b.C.UA, s) {
			return true
		}
	}
	return b.C.Family == "tool"
}

// prefetcher has an extension that loads links in advance.
func prefetcher(a *Agent) {
	a.C = chrome(pick(a.r, []string{win, mac, linux}), 140)
	a.visits(a.r.u(0.8, 1.6), workHours, func() {
		a.come()
		for i := 0; !a.enough(i); i++ {
			pg := a.page()
			ls := a.of("item", "related", "next")
			for j, l := range ls {
				if l.Pos < 1.5 && j < 8 {
					_, end := a.ask(a.now+int64(200+60*j), "GET", l.URL, "fetch", a.url(pg.URL), "same-origin")
					if p := a.site.Get(&Req{Method: "GET", URL: l.URL, At: end, S: a.S}); p.MaxAge >= 0 && !a.site.Soft {
						a.cache[l.URL] = &entry{end, p}
						a.spec[l.URL] = end
					}
				}
			}
			a.read(0.8)
			if a.r.p(0.2) && a.back() {
				continue
			}
			if !a.follow("item", "related", "next") && !a.follow("list", "nav") {
				return
			}
		}
	})
}

// developer has the tools open with the cache off.
func developer(a *Agent) {
	a.C = pick(a.r, []*Client{chrome(mac, 141), firefox(linux, 144), chrome(linux, 141)})
	a.NoCache = true
	a.visits(a.r.u(0.5, 1), workHours, func() {
		a.come()
		for range a.r.geo(14) {
			a.look(a.r.logN(9, 1), a.r.u(1, 3))
			if a.r.p(0.7) {
				a.reload()
			} else if !a.follow("item", "list", "related", "nav") {
				return
			}
		}
	})
}

// feedUser has a feed extension in the browser and opens what is new.
func feedUser(a *Agent) {
	a.C = desktop(a.r)
	a.warm, a.icon = 20, true
	every := a.r.u(30, 90) * 60
	stop := a.at(0, a.r.u(6, 10))
	a.sleep(float64(stop-a.now) / 1000)
	for d := range a.site.Days {
		if t := a.at(d, a.r.u(6, 10)); t > a.now {
			a.sleep(float64(t-a.now) / 1000)
		}
		for a.now < a.at(d, a.r.u(20, 23)) {
			a.ask(a.now, "GET", a.site.Feed, "fetch", "", "none")
			if a.r.p(0.3) {
				for range a.r.geo(1.8) {
					a.newTab(a.site.Item(a.site.count(a.now)-1-a.r.zipf(20, 1)), "")
					a.read(1.2)
				}
				a.quit()
			}
			a.step(every + a.r.u(0, 5))
		}
	}
}
