package sim

import "strings"

func (a *Agent) adOf() string { return strings.TrimPrefix(a.page().URL, "/ad/") }

// leaf opens the large pictures one by one.
func (a *Agent) leaf(n int, pace float64) {
	id := num(a.adOf())
	for k := 1; k <= min(n, photos(id-5200000)); k++ {
		a.call("GET", homePhoto(id-5200000, k, "l"), "image")
		a.look(a.r.logN(pace, a.T.SD*0.7), a.page().depth)
	}
}

// ring asks for the telephone number.
func (a *Agent) ring() { a.call("POST", "/ajax/phone?ad="+a.adOf(), "fetch") }

// galleryViewer looks at pictures most of all.
func galleryViewer(a *Agent) {
	pace := a.r.logN(2.4*a.T.Slow, 0.4)
	a.visits(a.r.u(0.7, 2), eveningHours, func() {
		a.come()
		for i := 0; !a.enough(i); i++ {
			a.read(0.5)
			if a.page().Kind == "item" {
				if a.r.p(0.7) {
					a.leaf(a.r.geo(8), pace)
				}
				if a.r.p(0.05) {
					a.call("POST", "/ajax/fav?ad="+a.adOf(), "fetch")
				}
				if a.r.p(0.6) {
					a.back()
					a.look(a.r.logN(2, 0.5), a.page().depth+1)
				}
			}
			if !a.follow("item", "related", "next") && !a.follow("list") {
				return
			}
		}
	})
}

// flatHunter reloads the newest of one town and writes or rings at once.
func flatHunter(a *Agent) {
	a.warm, a.icon = 6, true
	u := "/rent/" + word(2, "city", a.r.zipf(cities, 0.8)) + "?sort=new"
	gap := a.r.logN(420, 0.7)
	a.visits(a.r.u(1.5, 3.5), publicHours, func() {
		if a.tab != nil && a.page().URL != "" && a.r.p(0.5) {
			a.tab.hidden = false
			a.reload()
		} else {
			a.goTo(u, "")
		}
		for range a.r.geo(7) {
			a.look(a.r.logN(4*a.T.Slow, 0.6), a.r.u(1, 2.5))
			if a.r.p(0.35) && a.follow("item") {
				a.read(0.6)
				if a.page().Kind == "item" {
					if a.r.p(0.4) {
						a.leaf(a.r.geo(4), 1.8)
					}
					if a.r.p(0.25) {
						a.ring()
						a.wait(a.r.logN(80, 0.7))
					} else if a.r.p(0.2) {
						a.look(a.r.logN(45*a.T.Slow, 0.7), 2)
						a.call("POST", "/ajax/message?ad="+a.adOf(), "fetch")
					}
				}
				a.back()
				continue
			}
			if a.C.Mobile {
				a.goodbye(a.tab)
				a.sleep(a.r.logN(gap, 0.9))
			} else {
				a.hide()
				a.wait(a.r.logN(gap, 0.9))
				a.tab.hidden = false
			}
			a.reload()
		}
	})
}

// mapPanner moves about on the map.
func mapPanner(a *Agent) {
	a.visits(a.r.u(0.7, 1.6), eveningHours, func() {
		city := word(2, "city", a.r.zipf(cities, 0.8))
		a.goTo("/rent/"+city, external(a.r, "search"))
		a.read(0.4)
		a.click(Link{URL: "/map/" + city, Kind: "maplink"})
		x, y, z := 2200+hn(50, city), 1300, 12
		for range a.r.geo(14) {
			a.look(a.r.logN(2.4*a.T.Slow, 0.7), 1)
			if a.r.p(0.25) && z < 16 {
				x, y, z = x*2, y*2, z+1
			} else {
				x, y = x+a.r.n(-2, 2), y+a.r.n(-1, 1)
			}
			for k := range 6 {
				a.load(a.now+int64(a.r.u(20, 200)), tile(z, x+k%3, y+k/3), "image", a.url(a.page().URL))
			}
			a.call("GET", "/ajax/pins?city="+city+"&z="+itoa(z)+"&x="+itoa(x)+"&y="+itoa(y), "fetch")
			if a.r.p(0.2) {
				if l, ok := a.choose(a.of("item")); ok {
					a.switchTo(a.behind(l))
					a.read(0.8)
					a.closeTab()
				}
			}
		}
	})
}

// seller puts up an advertisement and looks how often it is seen.
func seller(a *Agent) {
	a.S["may"] = 1
	own := a.site.Item(a.r.n(12000, 13900))
	a.visits(a.r.u(1, 2.5), publicHours, func() {
		a.goTo("/mine", "")
		if a.page().Kind == "form" {
			a.look(a.r.logN(8, 0.5), 1)
			a.submit("POST", "/login")
		}
		a.read(0.6)
		if a.r.p(0.4) {
			a.click(Link{URL: "/post", Kind: "form"})
			for range a.r.n(3, 14) {
				a.look(a.r.logN(16*a.T.Slow, 0.8), 2)
				a.call("POST", "/ajax/upload", "fetch")
			}
			a.look(a.r.logN(120*a.T.Slow, 0.7), 2)
			a.submit("POST", "/post")
			a.look(a.r.logN(6, 0.5), 1)
		}
		a.click(Link{URL: own, Kind: "nav"})
		a.read(0.5)
		for a.r.p(0.5) {
			a.wait(a.r.logN(400, 0.9))
			a.reload()
		}
	})
}

// broker keeps the advertisements of an agency all day, next to colleagues
// behind the same address.
func broker(a *Agent) {
	g := newRand("broker", a.group)
	a.Addr = home(g)
	a.C = pick(g, []*Client{chrome(win, 140), macSafari("18.5"), edge(139)})
	a.warm, a.icon = 14, true
	a.S["may"], a.S["user"] = 1, 1
	for d := range a.site.Days {
		stop := a.at(d, a.r.g(17, 0.8, 14))
		a.begin(a.at(d, a.r.g(9, 0.5, 7.5)), func() {
			a.goTo("/mine", "")
			for a.now < stop {
				a.look(a.r.logN(14*a.T.Slow, 0.8), 1.5)
				u := "/mine/edit/" + itoa(a.r.n(100, 160))
				switch a.r.weighted([]float64{4, 2, 2, 3}) {
				case 0:
					a.click(Link{URL: u, Kind: "form"})
					a.look(a.r.logN(80*a.T.Slow, 0.8), 2)
					a.submit("POST", u)
				case 1:
					a.call("GET", "/ajax/thread?id="+itoa(a.r.n(1, 900)), "fetch")
					a.look(a.r.logN(50*a.T.Slow, 0.8), 1)
					a.call("POST", "/ajax/message?id=1", "fetch")
				case 2:
					a.newTab(a.site.Item(a.r.n(9000, 13900)), "")
					a.read(0.6)
					a.closeTab()
				default:
					a.wait(a.r.logN(600, 0.9)) // on the telephone
				}
			}
		})
	}
}

// phoneHarvester gathers numbers: list, advertisement, number.
func phoneHarvester(browser bool) func(*Agent) {
	return func(a *Agent) {
		if browser {
			a.asBrowser(true)
			med := a.r.u(5, 14)
			a.visits(a.r.u(0.8, 1.5), publicHours, func() {
				a.goTo(a.site.List(a.r.n(0, cities-1), 1), "")
				for _, l := range a.of("item") {
					a.look(a.fake(2.5, 0.4), l.Pos+1)
					a.click(l)
					a.scroll(a.fake(med, 0.5))
					if a.page().Kind == "item" {
						a.ring()
						a.look(a.fake(2.5, 0.3), 1)
					}
					a.back()
				}
			})
			return
		}
		a.asTool(desktop(a.r).UA, anything)
		a.startAt()
		from := a.r.n(0, 12000)
		wait := a.pause(pick(a.r, []string{"fixed", "uniform", "gauss"}), a.r.u(1.5, 8))
		for i := range a.r.n(50, 140) {
			u := a.site.Item(from + i)
			a.grab(u, "")
			_, a.now = a.ask(a.now+300, "POST", "/ajax/phone?ad="+strings.TrimPrefix(u, "/ad/"), "fetch", a.url(u), "")
			wait()
		}
	}
}

// sniper watches for new advertisements and writes to them at once.
func sniper(browser bool) func(*Agent) {
	return func(a *Agent) {
		u := "/rent/" + word(2, "city", a.r.zipf(cities, 0.8)) + "?sort=new"
		gap := a.r.u(60, 300)
		if browser {
			a.asBrowser(true)
			a.S["may"], a.S["user"] = 1, 1
			a.visits(1, workHours, func() {
				a.goTo(u, "")
				for range a.r.n(30, 110) {
					a.wait(a.r.logN(gap, 0.25))
					a.reload()
					a.look(a.fake(2, 0.3), 1)
					if a.r.p(0.12) && a.follow("item") {
						a.look(a.fake(6, 0.4), 2)
						if a.page().Kind == "item" {
							a.call("POST", "/ajax/message?ad="+a.adOf(), "fetch")
						}
						a.look(1, 1)
						a.back()
					}
				}
			})
			return
		}
		a.asTool(pick(a.r, []string{"python-requests/2.32.3", desktop(a.r).UA, "Go-http-client/2.0"}), anything)
		for a.now = a.at(0, a.r.u(0, 0.1)); a.now < a.end(); {
			t := a.now
			a.grab(u, "")
			a.now = t + int64(a.r.u(gap*2, gap*3)*1000)
		}
	}
}

// bumper renews the advertisements of a seller by script in a real browser.
func bumper(a *Agent) {
	a.asBrowser(true)
	a.S["may"] = 1
	for t := a.at(0, a.r.u(0, 2)); t < a.end(); t += int64(a.r.u(1.9, 2.1) * float64(hour)) {
		a.begin(t, func() {
			a.goTo("/login", "")
			a.look(a.r.u(2, 5), 1)
			a.submit("POST", "/login")
			for k := range a.r.n(2, 8) {
				a.look(a.r.u(2, 6), 1)
				a.goTo("/mine/edit/"+itoa(200+k), "")
				a.look(a.r.u(3, 8), 1)
				a.submit("POST", a.page().URL)
			}
		})
	}
}

// llmFlat lets a model look for a flat and write to the owner.
func llmFlat(a *Agent) {
	a.asModel()
	city := a.r.zipf(cities, 0.7)
	a.visits(a.r.u(0.8, 2.5), publicHours, func() {
		if a.r.p(0.6) {
			a.goTo(a.site.Home, "")
			a.glimpse()
			a.query(word(2, "city", city))
		} else {
			a.goTo(a.site.List(city, 1), "")
		}
		a.glimpse()
		if a.r.p(0.6) {
			a.follow("filter")
			a.glimpse()
		}
		for range a.r.n(2, 6) {
			if !a.follow("item") {
				return
			}
			a.glimpse()
			if a.page().Kind == "item" && a.r.p(0.3) {
				if a.r.p(0.5) {
					a.ring()
				} else {
					a.look(a.think(), 2)
					a.look(a.think(), 2)
					a.call("POST", "/ajax/message?ad="+a.adOf(), "fetch")
				}
				a.look(a.think(), 1)
			}
			a.back()
			a.look(a.think(), 1)
		}
	})
}

func castHomes() []role {
	return []role{
		people("flat-hunter", 14, flatHunter), people("gallery-viewer", 14, galleryViewer), people("map-panner", 6, mapPanner), people("seller", 7, seller),
		people("broker", 5, broker), people("skimmer", 7, skimmer), people("deep-reader", 4, deepReader), people("comparer", 9, comparer),
		people("list-worker", 8, listWorker), people("one-page", 12, onePage), people("daily", 5, daily), people("bad-line", 4, badLine), people("commuter", 3, commuter),
		people("private", 3, private), people("screen-reader", 1, screenReader), people("keyboard", 2, keyboard), people("translated", 3, translated),
		people("old-device", 2, oldDevice), people("watcher", 3, watcher), people("in-app", 6, inApp), people("vpn", 3, vpn), people("lunch", 4, lunch),
		people("sleepless", 2, sleepless), people("family", 3, family), people("tab-hoarder", 3, hoarder), people("scattered", 2, scattered), people("seeker", 2, seeker),
		people("archivist", 1, archivist), people("windows", 1, windows), people("elder", 2, elder), people("prefetcher", 1, prefetcher),

		robots("phone-harvester", 3, phoneHarvester(false)), robots("phone-browser", 4, phoneHarvester(true)), robots("sniper", 3, sniper(false)), robots("sniper-browser", 3, sniper(true)),
		robots("bumper", 2, bumper), robots("list-scraper", 3, listScraper), robots("disguised-client", 3, disguised), robots("price-monitor", 3, priceMonitor),
		robots("api-scraper", 2, apiScraper), robots("image-taker", 2, imageTaker), robots("crawler", 2, crawler), robots("ai-crawler", 3, aiCrawler), robots("seo-tool", 2, seoTool),
		robots("search-engine", 2, searchBot), robots("form-spammer", 1, formSpam), robots("account-checker", 1, accountChecker), robots("vuln-scanner", 2, vulnScanner),
		robots("uptime", 1, uptime), robots("preview", 2, preview), robots("inspector", 1, inspector), robots("sitemap-scraper", 1, sitemapper),
		robots("naive-fixed", 1, naive("fixed", false)), robots("naive-uniform", 1, naive("uniform", true)), robots("naive-gauss", 1, naive("gauss", true)), robots("light-browser", 2, lightBrowser),
		robots("walker", 3, walker), robots("scroller", 2, scroller), robots("backtracker", 3, backtracker), robots("popular-walker", 3, popularWalker), robots("markov", 3, markov),
		robots("office-hours", 2, officeHours), robots("quiet-scraper", 2, quietScraper), robots("tab-opener", 3, tabOpener), robots("engager", 2, engager), robots("sold-visit", 2, soldVisit),
		robots("llm-flat", 6, llmFlat), robots("llm-compare", 3, llmCompare), robots("llm-extension", 2, llmExtension), robots("llm-vision", 2, llmVision),
		robots("llm-cron", 2, llmCron), robots("llm-fetcher", 1, llmFetcher), robots("sticky-residential", 3, sticky), robots("rotating-residential", 5, rotating),
		robots("page-monitor", 3, monitorPage), robots("replay", 3, replay(0.15, false)), robots("replay-loose", 3, replay(0.3, true)), robots("render-service", 1, renderService),
	}
}
