package sim

import "strings"

func (a *Agent) titleOf() string { return strings.TrimPrefix(a.page().URL, "/wiki/") }

// editor reads, edits, previews and saves.
func editor(a *Agent) {
	a.C = desktop(a.r)
	a.warm, a.icon = 12, true
	a.S["may"] = 1
	a.visits(a.r.u(1, 2.5), eveningHours, func() {
		a.arrive("home")
		a.read(0.4)
		if a.S["user"] == 0 {
			a.click(Link{URL: a.site.Login, Kind: "form"})
			a.look(a.r.logN(7, 0.4), 1)
			a.submit("POST", a.site.Login)
		}
		for range a.r.geo(7) {
			if a.r.p(0.5) {
				a.find(a.term())
			}
			if a.page().Kind != "item" && !a.follow("item", "related") {
				a.goTo(a.site.Item(a.popular()), "")
			}
			a.read(0.9)
			if !a.r.p(0.6) || a.page().Kind != "item" {
				a.follow("related", "item")
				continue
			}
			t := a.titleOf()
			a.click(Link{URL: "/index.php?title=" + t + "&action=edit", Kind: "tool"})
			for range 5 {
				a.look(a.r.logN(95*a.T.Slow, 1), 2)
				if pg := a.submit("POST", "/index.php?title="+t+"&action=submit"); pg.Kind != "edit" {
					break
				}
			}
			a.look(a.r.logN(9, 0.7), 2)
			if a.r.p(0.3) {
				a.click(Link{URL: "/index.php?title=" + t + "&action=history", Kind: "tool"})
				a.look(a.r.logN(6, 0.5), 1)
			}
		}
	})
}

// patroller goes through the recent changes, difference by difference.
func patroller(a *Agent) {
	a.C = desktop(a.r)
	a.warm, a.icon = 8, true
	look := a.r.logN(5, 0.35)
	a.visits(a.r.u(1.5, 3), workHours, func() {
		a.goTo("/wiki/Special:RecentChanges", "")
		for range a.r.geo(4) {
			var open []*Tab
			front := a.tab
			a.look(a.r.logN(7, 0.6), 2)
			for _, l := range a.of("diff") {
				if a.r.p(0.3) {
					open = append(open, a.behind(l))
					a.wait(a.r.logN(0.9, 0.5))
				}
			}
			for _, t := range open {
				a.switchTo(t)
				a.look(a.r.logN(look, 0.7), a.page().Height)
				if a.r.p(0.1) {
					a.follow("tool")
					a.read(0.5)
				}
				a.closeTab()
			}
			if a.tab != front && front != nil {
				a.switchTo(front)
			}
			a.wait(a.r.logN(150, 0.9))
			a.reload()
		}
	})
}

// quizzer looks up one fact after another.
func quizzer(a *Agent) {
	a.T.Glance = a.r.u(0.2, 0.5)
	a.visits(a.r.u(0.8, 1.8), eveningHours, func() {
		a.arrive("home")
		for range a.r.geo(9) {
			a.look(a.r.logN(3, 0.5), 1)
			a.find(a.term())
			a.look(a.r.logN(3, 0.6), 1)
			if a.page().Kind == "list" {
				a.follow("item")
			}
			a.read(0.5)
			a.wait(a.r.logN(35, 0.9))
		}
	})
}

// student writes a paper: long stays, many tabs, copying, coming back.
func student(a *Agent) {
	a.C = desktop(a.r)
	a.T.Tabs = a.r.u(0.3, 0.7)
	a.visits(1, eveningHours, func() {
		a.arrive("search")
		stop := a.now + int64(a.r.u(0.6, 3)*float64(hour))
		for a.now < stop {
			a.read(1.6)
			a.wait(a.r.logN(110, 1)) // writing
			switch {
			case a.r.p(0.4):
				if l, ok := a.choose(a.of("related", "item")); ok {
					a.switchTo(a.behind(l))
				}
			case len(a.tabs) > 1 && a.r.p(0.5):
				a.switchTo(pick(a.r, a.tabs))
			case len(a.tabs) > 8:
				a.closeTab()
			case a.r.p(0.3):
				a.find(a.term())
			default:
				a.follow("related", "item", "list")
			}
		}
	})
}

// trapped is a crawler that falls into histories and differences.
func trapped(a *Agent) {
	a.asTool(pick(a.r, []string{"Mozilla/5.0 (compatible; ImagesiftBot; +imagesift.com)", "Mozilla/5.0 (compatible; PetalBot;+https://webmaster.petalsearch.com/site/petalbot)", chrome(win, 119).UA}), "text/html,*/*;q=0.8")
	a.startAt()
	a.crawl(a.Index%2 == 1, a.r.n(150, 320), a.pause("exp", a.r.u(0.8, 6)), false, "")
}

// vandal posts advertising into articles.
func vandal(a *Agent) {
	a.asTool(desktop(a.r).UA, "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8")
	a.visits(a.r.u(1, 2), flatHours, func() {
		for range a.r.n(4, 20) {
			t := title(a.popular())
			e := "/index.php?title=" + t + "&action=edit"
			a.grab(e, a.url("/wiki/"+t))
			_, a.now = a.ask(a.now+int64(a.r.u(900, 5000)), "POST", "/index.php?title="+t+"&action=submit", "doc", a.url(e), "")
			a.now += int64(a.r.exp(9000))
		}
	})
}

// botEditor mends links through the interface and says who it is.
func botEditor(a *Agent) {
	a.asTool("pywikibot/9.6.0 (wiki.heimatkunde.test; User:LinkMender) requests/2.32.3 Python/3.11", anything)
	for d := range a.site.Days {
		a.now = a.at(d, a.r.u(2, 20))
		i := a.r.n(0, articles-200)
		for k := range a.r.n(60, 150) {
			_, a.now = a.ask(a.now, "GET", a.site.API(i+k), "json", "", "")
			if a.r.p(0.3) {
				_, a.now = a.ask(a.now+300, "POST", "/api.php", "json", "", "")
				a.now += 10 * second
			}
			a.now += int64(a.r.u(400, 1500))
		}
	}
}

// deepModel researches a question over many pages, following links.
func deepModel(a *Agent) {
	a.asModel()
	a.visits(a.r.u(0.8, 2), workHours, func() {
		a.forgetful()
		a.goTo(a.site.Search(a.term()), "")
		for range a.r.n(6, 20) {
			a.glimpse()
			switch {
			case a.r.p(0.15):
				a.query(a.term())
			case a.r.p(0.15) && a.back():
			default:
				ls := a.of("item", "related")
				if len(ls) == 0 {
					return
				}
				a.click(ls[a.r.zipf(len(ls), 0.7)]) // what fits the question
			}
		}
	})
}

func castWiki() []role {
	return []role{
		people("rabbit", 12, rabbit), people("editor", 8, editor), people("patroller", 4, patroller), people("quizzer", 7, quizzer), people("student", 8, student),
		people("one-page", 11, onePage), people("deep-reader", 7, deepReader), people("skimmer", 9, skimmer), people("school-class", 12, class),
		people("comparer", 3, comparer), people("list-worker", 3, listWorker), people("daily", 4, daily), people("bad-line", 4, badLine), people("commuter", 3, commuter),
		people("private", 5, private), people("lean", 3, lean), people("screen-reader", 4, screenReader), people("keyboard", 3, keyboard),
		people("translated", 4, translated), people("old-device", 3, oldDevice), people("archivist", 3, archivist), people("watcher", 2, watcher),
		people("prefetcher", 2, prefetcher), people("in-app", 3, inApp), people("vpn", 2, vpn), people("sleepless", 4, sleepless), people("tab-hoarder", 3, hoarder),
		people("scattered", 2, scattered), people("seeker", 3, seeker), people("windows", 2, windows), people("feed-user", 1, feedUser), people("elder", 2, elder),

		robots("trapped-crawler", 4, trapped), robots("crawler", 3, crawler), robots("ai-crawler", 6, aiCrawler), robots("seo-tool", 2, seoTool), robots("search-engine", 2, searchBot),
		robots("list-scraper", 3, listScraper), robots("disguised-client", 2, disguised), robots("vandal", 3, vandal), robots("bot-editor", 1, botEditor),
		robots("api-scraper", 3, apiScraper), robots("mirror", 2, mirror), robots("link-checker", 1, linkChecker), robots("uptime", 1, uptime), robots("feed-fetcher", 2, feedFetcher),
		robots("vuln-scanner", 1, vulnScanner), robots("account-checker", 1, accountChecker), robots("sitemap-scraper", 2, sitemapper),
		robots("naive-fixed", 2, naive("fixed", false)), robots("naive-gauss", 2, naive("gauss", true)), robots("light-browser", 2, lightBrowser),
		robots("walker", 4, walker), robots("scroller", 4, scroller), robots("backtracker", 2, backtracker), robots("popular-walker", 4, popularWalker), robots("markov", 4, markov),
		robots("office-hours", 3, officeHours), robots("quiet-scraper", 2, quietScraper), robots("tab-opener", 2, tabOpener), robots("engager", 2, engager),
		robots("deep-model", 7, deepModel), robots("llm-research", 4, llmResearch), robots("llm-search", 3, llmSearch), robots("llm-extension", 3, llmExtension),
		robots("llm-vision", 2, llmVision), robots("llm-fetcher", 2, llmFetcher), robots("sticky-residential", 3, sticky), robots("rotating-residential", 6, rotating),
		robots("replay", 4, replay(0.15, false)), robots("replay-loose", 3, replay(0.3, true)), robots("render-service", 1, renderService),
	}
}
