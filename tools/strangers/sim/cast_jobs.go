package sim

// applicant fills in forms and sends them.
func applicant(a *Agent) {
	a.visits(a.r.u(0.8, 1.6), publicHours, func() {
		a.come()
		for range a.r.geo(5) {
			a.read(1.1)
			if a.page().Kind == "item" && a.r.p(0.4) {
				a.call("POST", "/save", "fetch")
			}
			if a.page().Kind == "item" && a.r.p(0.35) && a.follow("formlink") {
				a.look(a.r.logN(150*a.T.Slow, 0.7), 2)
				for range 3 {
					pg := a.submit("POST", a.page().URL)
					a.look(a.r.logN(9, 0.6), 1)
					if pg.Kind != "form" {
						break
					}
					a.look(a.r.logN(25, 0.7), 2)
				}
			}
			if !a.follow("item", "related") && !a.follow("list", "nav") {
				return
			}
		}
	})
}

// recruiter logs in and works on advertisements.
func recruiter(a *Agent) {
	a.C = desktop(a.r)
	a.warm, a.icon = 20, true
	a.S["may"], a.S["salt"] = 1, a.Index
	a.visits(a.r.u(1, 2), workHours, func() {
		a.goTo("/employer", "")
		if a.page().Kind == "form" {
			a.look(a.r.logN(7, 0.5), 1)
			a.submit("POST", "/login")
			a.look(a.r.logN(3, 0.5), 1)
		}
		for range a.r.geo(9) {
			a.goTo("/employer/ad/"+itoa(a.r.n(1, 30)), "")
			a.look(a.r.logN(70*a.T.Slow, 0.9), 2)
			a.submit("POST", a.page().URL)
			a.look(a.r.logN(4, 0.5), 1)
			if a.r.p(0.4) && a.follow("item") {
				a.read(0.8)
				a.back()
			}
		}
	})
}

// autoApplier is a script that applies to everything it finds.
func autoApplier(a *Agent) {
	a.asBrowser(true)
	a.visits(a.r.u(0.7, 1.5), workHours, func() {
		a.goTo(a.site.Search(a.term()), "")
		for _, l := range a.of("item") {
			a.look(a.fake(3, 0.4), 1)
			a.click(l)
			a.scroll(a.fake(8, 0.5))
			if a.uniform("formlink") {
				a.look(a.fake(22, 0.35), 2)
				a.submit("POST", a.page().URL)
				a.look(a.fake(4, 0.3), 1)
				a.goTo(a.site.Search(a.term()), "")
				continue
			}
			a.back()
		}
	})
}

// llmApplies lets a model find a job and fill in the form.
func llmApplies(a *Agent) {
	a.asModel()
	a.visits(a.r.u(0.6, 1.6), workHours, func() {
		a.goTo(a.site.Home, "")
		a.glimpse()
		a.query(a.term())
		for range a.r.n(2, 5) {
			a.glimpse()
			if !a.follow("item") {
				return
			}
			a.glimpse()
			if a.r.p(0.5) && a.follow("formlink") {
				for range a.r.n(4, 9) { // a field a step
					a.look(a.think(), 1.5)
				}
				if pg := a.submit("POST", a.page().URL); pg.Kind == "form" {
					a.look(a.think(), 1)
					a.look(a.think(), 1)
					a.submit("POST", pg.URL)
				}
				a.look(a.think(), 1)
				a.query(a.term())
				continue
			}
			a.back()
		}
	})
}

func castJobs() []role {
	return []role{
		people("skimmer", 9, skimmer), people("deep-reader", 6, deepReader), people("comparer", 9, comparer),
		people("list-worker", 9, listWorker), people("one-page", 14, onePage), people("daily", 7, daily),
		people("bad-line", 5, badLine), people("private", 4, private), people("lean", 2, lean),
		people("screen-reader", 3, screenReader), people("keyboard", 3, keyboard), people("translated", 3, translated),
		people("old-device", 3, oldDevice), people("feed-user", 2, feedUser), people("archivist", 2, archivist),
		people("watcher", 3, watcher), people("prefetcher", 2, prefetcher), people("in-app", 5, inApp),
		people("vpn", 3, vpn), people("lunch", 4, lunch), people("sleepless", 2, sleepless), people("family", 2, family),
		people("tab-hoarder", 3, hoarder), people("scattered", 3, scattered), people("seeker", 6, seeker),
		people("school-class", 12, class), people("applicant", 9, applicant), people("recruiter", 4, recruiter),
		people("developer", 1, developer), people("windows", 2, windows), people("elder", 3, elder), people("kiosk", 1, kiosk),

		robots("crawler", 4, crawler), robots("ai-crawler", 4, aiCrawler), robots("seo-tool", 3, seoTool), robots("search-engine", 2, searchBot),
		robots("list-scraper", 3, listScraper), robots("disguised-client", 4, disguised), robots("form-spammer", 2, formSpam),
		robots("account-checker", 2, accountChecker), robots("vuln-scanner", 2, vulnScanner), robots("link-checker", 1, linkChecker),
		robots("uptime", 2, uptime), robots("feed-fetcher", 2, feedFetcher), robots("sitemap-scraper", 2, sitemapper),
		robots("naive-fixed", 2, naive("fixed", false)), robots("naive-uniform", 2, naive("uniform", true)), robots("naive-gauss", 2, naive("gauss", true)),
		robots("walker", 3, walker), robots("scroller", 3, scroller), robots("backtracker", 3, backtracker), robots("popular-walker", 3, popularWalker),
		robots("office-hours", 2, officeHours), robots("quiet-scraper", 3, quietScraper), robots("tab-opener", 2, tabOpener),
		robots("markov", 3, markov), robots("auto-applier", 3, autoApplier),
		robots("llm-search", 3, llmSearch), robots("llm-compare", 3, llmCompare), robots("llm-applies", 3, llmApplies),
		robots("llm-extension", 2, llmExtension), robots("llm-vision", 2, llmVision), robots("llm-fetcher", 1, llmFetcher), robots("llm-cron", 2, llmCron),
		robots("sticky-residential", 6, sticky), robots("rotating-residential", 9, rotating), robots("replay", 4, replay(0.15, false)), robots("replay-loose", 3, replay(0.3, true)),
		robots("render-service", 1, renderService),
	}
}
