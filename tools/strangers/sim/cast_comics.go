package sim

import "strings"

// turn reads a page of a comic and goes on.
func (a *Agent) turn(pace float64) bool {
	p := a.page()
	if p.Height > 3 { // a strip
		a.look(pace*p.Height*0.7*a.r.logN(1, a.T.SD*0.5), p.Height)
	} else {
		d := pace * a.r.logN(1, a.T.SD*0.7)
		if a.r.p(a.T.Distract) {
			d += a.r.logN(90, 1.2)
		}
		a.look(max(0.9, d), 1.6)
	}
	if a.r.p(0.02) && a.follow("prev") {
		a.look(a.r.logN(3, 0.5), 1)
	}
	return a.follow("next")
}

// binge reads chapter after chapter.
func binge(a *Agent) {
	pace := a.r.logN(8, 0.45)
	a.warm, a.icon = 20, true
	var at string
	a.visits(a.r.u(0.8, 1.6), eveningHours, func() {
		if at != "" {
			a.goTo(at, "")
		} else {
			a.arrive("search")
			a.read(0.7)
			a.follow("chapter")
		}
		for range a.r.geo(55) {
			if !a.turn(pace) {
				break
			}
			if a.C.Mobile && a.r.p(0.02) {
				a.sleep(a.r.logN(120, 1.2))
			}
		}
		at = a.page().URL
	})
}

// catcher looks at the list of new chapters and reads those.
func catcher(a *Agent) {
	pace := a.r.logN(7, 0.4)
	a.warm, a.icon = 18, true
	a.visits(a.r.u(1, 2.5), eveningHours, func() {
		a.goTo("/updates", "")
		for range a.r.geo(2.2) {
			a.read(0.5)
			if !a.follow("fresh") {
				return
			}
			for range 30 {
				if !a.turn(pace) {
					break
				}
			}
			a.follow("up")
			a.look(a.r.logN(3, 0.5), 1)
			a.goTo("/updates", "")
		}
	})
}

// flipper uses the arrow keys and races through.
func flipper(a *Agent) {
	a.C = desktop(a.r)
	pace := a.r.logN(2.2, 0.3)
	a.visits(a.r.u(0.8, 1.4), eveningHours, func() {
		a.come()
		a.read(0.3)
		if !a.follow("chapter", "item") {
			return
		}
		a.follow("item")
		for range a.r.geo(40) {
			if !a.turn(pace) {
				a.follow("up")
				a.look(a.r.logN(2, 0.5), 2)
				if !a.follow("chapter") {
					return
				}
			}
		}
	})
}

// child has a tablet and jumps about.
func child(a *Agent) {
	a.C = macSafari("18.5")
	a.T.SD, a.T.Distract = 1, 0.08
	pace := a.r.logN(5, 0.4)
	a.visits(a.r.u(0.8, 2), []float64{0, 0, 0, 0, 0, 0, 1, 3, 3, 4, 5, 4, 3, 4, 6, 8, 9, 9, 8, 6, 2, 0, 0, 0}, func() {
		a.arrive("home")
		for range a.r.geo(30) {
			switch {
			case a.r.p(0.7) && a.turn(pace):
			case a.r.p(0.3) && a.back():
				a.look(a.r.logN(2, 0.6), 1)
			case a.r.p(0.2):
				a.click(Link{URL: "/random", Kind: "nav"})
			default:
				a.look(a.r.logN(3, 0.7), 2)
				if !a.follow("item", "related", "up") {
					return
				}
			}
		}
	})
}

// ripper opens every page in a browser to save the pictures.
func ripper(kind string, med float64) func(*Agent) {
	return func(a *Agent) {
		a.asBrowser(kind != "fixed")
		i := a.r.n(0, seriesCount-1)
		a.visits(0.7, flatHours, func() {
			a.goTo(a.site.Item(i), "")
			a.look(2, 1)
			if !a.uniform("chapter") {
				return
			}
			for range a.r.n(50, 160) {
				s := med
				if kind == "logn" {
					s = a.fake(med, 0.5)
				}
				a.look(s, a.page().Height)
				if !a.follow("next") {
					return
				}
			}
		})
	}
}

// downloader takes page documents and pictures with a script that sets Referer.
func downloader(a *Agent) {
	a.asTool(pick(a.r, []string{chrome(win, 131).UA, "gallery-dl/1.28.5", "okhttp/5.0.0-alpha.14"}), anything)
	a.startAt()
	i := a.r.n(0, seriesCount-1)
	a.grab(a.site.Item(i), "")
	for ch := 1; ch <= a.r.n(3, 9); ch++ {
		for k := 1; k <= pagesOf(i, ch); k++ {
			u := readURL(i, ch, k)
			if !strip(i) || k == 1 {
				if p := a.grab(u, ""); p.Status != 200 {
					return
				}
			}
			_, a.now = a.ask(a.now, "GET", picture(i, ch, k), "doc", a.url("/"), "")
			a.now += int64(a.r.u(100, 900))
		}
	}
}

// notifier watches the list of new chapters.
func notifier(a *Agent) {
	a.asTool(pick(a.r, []string{"python-requests/2.32.3", "Mozilla/5.0 (compatible; ChapterBot/0.4)", desktop(a.r).UA}), anything)
	every := pick(a.r, []float64{300, 600, 900})
	a.now = a.at(0, a.r.u(0, 0.2))
	for a.now < a.end() {
		t := a.now
		p := a.grab("/updates", "")
		if a.r.p(0.1) {
			for _, l := range p.Links {
				if l.Kind == "fresh" && a.r.p(0.2) && strings.HasPrefix(l.URL, "/read") {
					a.grab(l.URL, "")
				}
			}
		}
		a.now = t + int64(every*1000) + int64(a.r.u(0, 3000))
	}
}

// modelReader lets a model read a chapter and tell about it.
func modelReader(a *Agent) {
	a.asModel()
	a.visits(a.r.u(0.6, 1.6), publicHours, func() {
		a.forgetful()
		a.goTo(a.site.Home, "")
		a.glimpse()
		a.query(a.term())
		a.glimpse()
		a.follow("item")
		a.glimpse()
		if !a.follow("chapter") {
			return
		}
		for range a.r.n(5, 24) {
			a.look(a.think(), a.page().Height)
			if !a.follow("next") {
				return
			}
		}
	})
}

// fakeReader reads comics in a full browser at an operator's idea of a pace.
func fakeReader(a *Agent) {
	a.asBrowser(true)
	pace, sd := a.r.u(5, 15), a.r.u(0.3, 0.8)
	a.visits(a.r.u(0.8, 1.6), eveningHours, func() {
		a.come()
		a.scroll(a.fake(9, 0.6))
		if !a.uniform("chapter", "item") {
			return
		}
		for range a.r.geo(35) {
			a.scroll(a.fake(pace*max(1, a.page().Height/4), sd))
			if a.r.p(0.06) {
				a.back()
				a.look(a.fake(3, 0.4), 1)
			}
			if !a.follow("next") && !a.uniform("up", "chapter", "related") {
				return
			}
		}
	})
}

func castComics() []role {
	return []role{
		people("binge", 18, binge), people("catcher-up", 16, catcher), people("flipper", 6, flipper), people("child", 6, child),
		people("skimmer", 7, skimmer), people("deep-reader", 5, deepReader), people("comparer", 3, comparer), people("list-worker", 5, listWorker),
		people("one-page", 9, onePage), people("daily", 6, daily), people("bad-line", 5, badLine), people("commuter", 6, commuter),
		people("private", 4, private), people("old-device", 2, oldDevice), people("archivist", 2, archivist), people("watcher", 2, watcher),
		people("in-app", 4, inApp), people("vpn", 3, vpn), people("sleepless", 4, sleepless), people("tab-hoarder", 2, hoarder),
		people("scattered", 3, scattered), people("translated", 2, translated), people("rabbit", 2, rabbit), people("sharer", 4, sharer),
		people("seeker", 2, seeker), people("family", 1, family), people("feed-user", 1, feedUser),

		robots("ripper-fixed", 3, ripper("fixed", 3)), robots("ripper-human", 4, ripper("logn", 7)), robots("downloader", 5, downloader),
		robots("chapter-notifier", 4, notifier), robots("image-taker", 2, imageTaker), robots("crawler", 3, crawler), robots("ai-crawler", 4, aiCrawler),
		robots("seo-tool", 2, seoTool), robots("search-engine", 2, searchBot), robots("list-scraper", 2, listScraper), robots("mirror", 1, mirror),
		robots("vuln-scanner", 2, vulnScanner), robots("account-checker", 1, accountChecker), robots("preview", 2, preview), robots("uptime", 1, uptime),
		robots("naive-uniform", 2, naive("uniform", false)), robots("naive-gauss", 2, naive("gauss", true)),
		robots("fake-reader", 6, fakeReader), robots("walker", 3, walker), robots("scroller", 2, scroller), robots("popular-walker", 3, popularWalker),
		robots("markov", 3, markov), robots("engager", 4, engager), robots("sold-visit", 6, soldVisit), robots("tab-opener", 2, tabOpener),
		robots("llm-reader", 4, modelReader), robots("llm-search", 2, llmSearch), robots("llm-vision", 2, llmVision), robots("llm-extension", 2, llmExtension),
		robots("rotating-residential", 6, rotating), robots("sticky-residential", 4, sticky), robots("page-monitor", 4, monitorPage),
		robots("replay", 4, replay(0.15, false)), robots("replay-loose", 3, replay(0.3, true)),
	}
}
