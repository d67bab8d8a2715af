package sim

import "strings"

// Robots in real browsers, as scripts drive them, and services that scrape for others.

// asBrowser makes the agent an automated browser.
func (a *Agent) asBrowser(residential bool) {
	a.C = chrome(pick(a.r, []string{win, win, mac, linux}), a.r.n(132, 141))
	a.icon = a.r.p(0.5)
	a.NoCache = a.Driven && a.r.p(0.12) // requests are intercepted, so nothing is cached
	a.Addr = centre(a.r)
	a.RTT, a.BW = a.r.u(0.01, 0.08), 3e6
	if residential { // by way of a proxy that does not carry QUIC
		a.Addr = home(a.r)
		a.Quic = 0.12
		a.RTT, a.BW = a.r.u(0.03, 0.12), 1.5e6
	}
}

// naive gives the scripts their sleeping habits and takes items of lists.
func naive(kind string, residential bool) func(*Agent) {
	return func(a *Agent) {
		a.asBrowser(residential)
		if a.r.p(0.5) {
			a.C = headless(a.r.n(128, 141))
			a.icon = true
		}
		mean := a.r.u(1, 9)
		sleep := func() {
			s := mean
			switch kind {
			case "uniform":
				s = a.r.u(mean*0.4, mean*1.6)
			case "gauss":
				s = a.r.g(mean, mean*0.25, 0.2)
			}
			a.look(s, 1)
		}
		a.visits(a.r.u(0.5, 2), flatHours, func() {
			a.cache, a.icon = map[string]*entry{}, true
			k := a.r.n(0, a.site.Lists-1)
			for page := 1; page <= a.r.n(1, 4); page++ {
				a.goTo(a.site.List(k, page), "")
				sleep()
				for _, l := range a.of("item") {
					if a.r.p(0.5) {
						a.goTo(l.URL, "")
						sleep()
					}
				}
			}
		})
	}
}

// lightBrowser is a headless browser that blocks pictures and fonts to be fast.
func lightBrowser(a *Agent) {
	a.asBrowser(false)
	a.C, a.icon, a.NoImg, a.NoFont, a.NoTrack = headless(a.r.n(130, 141)), true, true, true, true
	if a.r.p(0.6) {
		a.C = chrome(linux, a.r.n(130, 141))
	}
	a.startAt()
	n := a.site.count(a.now)
	for range a.r.n(20, 90) {
		a.goTo(a.site.Item(a.r.n(0, n-1)), "")
		a.wait(a.r.u(0.8, 3))
	}
}

// monitorPage is one of many addresses that look at one page each.
func monitorPage(a *Agent) {
	a.asBrowser(true)
	a.ByAddr = true
	page := a.site.Item(hn(a.site.Items, "watched", a.group))
	a.visits(a.r.u(0.4, 1), flatHours, func() {
		a.cache = map[string]*entry{}
		a.goTo(page, "")
		a.wait(a.r.u(2, 6))
	})
}

// inspector runs a lab test of the page in a browser that says so.
func inspector(a *Agent) {
	a.asBrowser(false)
	a.C = android("moto g power (2022)", 136)
	a.C.UA = strings.Replace(a.C.UA, "Android 10", "Android 11", 1)
	if a.r.p(0.4) {
		a.C.UA += " Chrome-Lighthouse"
	}
	a.RTT, a.BW = 0.15, 200000
	a.visits(a.r.u(1, 4), flatHours, func() {
		u := pick(a.r, []string{a.site.Home, a.site.Item(hn(a.site.Items, "test", a.Index))})
		for range a.r.n(1, 3) {
			a.cache = map[string]*entry{}
			a.goTo(u, "")
			a.wait(a.r.u(5, 12))
		}
	})
}

// renderService renders single pages for a scraping interface.
func renderService(a *Agent) {
	a.asBrowser(false)
	a.C = pick(a.r, []*Client{chrome(linux, 138), chrome(win, 137), chrome(mac, 139)})
	a.NoImg, a.NoFont = a.r.p(0.7), a.r.p(0.7)
	a.icon = true
	a.visits(a.r.u(2, 6), flatHours, func() {
		first := a.popular()
		for i := range a.r.geo(5) {
			a.forgetful()
			u := a.site.Item((first + i*7) % a.site.count(a.now))
			if a.r.p(0.2) {
				u = a.site.List(a.r.n(0, a.site.Lists-1), 1)
			}
			a.goTo(u, "")
			a.wait(a.r.u(1, 4))
			a.quit()
			a.wait(a.r.exp(3))
		}
	})
}

// sticky is a scraping service with an address that stays some minutes and a
// profile that stays with it.
func sticky(a *Agent) {
	a.asBrowser(true)
	a.begin(a.at(a.r.n(0, a.site.Days-1), a.r.u(0, 23)), func() {
		stop := a.now + int64(a.r.u(6, 14)*60000)
		k := a.r.n(0, a.site.Lists-1)
		a.goTo(a.site.List(k, a.r.n(1, 6)), "https://www.google.com/")
		for _, l := range a.of("item") {
			if a.now > stop {
				return
			}
			a.look(a.fake(3, 0.4), a.r.u(1, 3))
			a.click(l)
			a.scroll(a.fake(9, 0.5))
			a.back()
		}
	})
}

// rotating is one address of a scraping service; each fetches a page or a few.
func rotating(a *Agent) {
	a.asBrowser(true)
	a.ByAddr = true
	if a.r.p(0.3) {
		a.C = phone(a.r)
	}
	a.visits(a.r.u(0.4, 1), flatHours, func() {
		for range a.r.n(1, 4) {
			a.forgetful()
			a.icon = a.r.p(0.5)
			a.goTo(a.site.Item(a.r.n(0, a.site.count(a.now)-1)), pick(a.r, []string{"", "https://www.google.com/"}))
			a.look(a.r.u(2, 7), a.r.u(1, 3))
			a.quit()
		}
	})
}
