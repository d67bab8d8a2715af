package sim

import "strings"

// feedScroller scrolls the endless feed and opens little.
func feedScroller(a *Agent) {
	a.C = phone(a.r)
	a.warm, a.icon, a.worker = 10, true, true
	pace := a.r.logN(2.6, 0.4)
	a.visits(a.r.u(1.5, 4.5), publicHours, func() {
		a.arrive("home")
		for i := 0; !a.enough(i); i++ {
			d := a.page().depth + a.r.logN(4, 0.7)
			a.look(pace*(d-a.page().depth)*a.r.logN(1, 0.5), d)
			if !a.r.p(0.5) || !a.follow("item") {
				continue
			}
			a.read(0.7)
			a.back()
		}
	})
}

// ticker follows a live report for an hour or more.
func ticker(a *Agent) {
	a.visits(a.r.u(0.8, 1.6), workHours, func() {
		n := a.site.count(a.now)
		i := n - 1
		for i > n-200 && hf("live", i) >= 0.06 {
			i--
		}
		a.goTo(a.site.Item(i), external(a.r, "search"))
		for range a.r.geo(14) {
			a.look(a.r.logN(45*a.T.Slow, 0.9), a.r.u(1, 3))
			if a.r.p(0.5) {
				a.hide()
				a.wait(a.r.logN(200, 0.9))
				a.tab.hidden = false
			}
		}
	})
}

// pushed opens what the service worker shows as a notice.
func pushed(a *Agent) {
	a.C = android("K", 140)
	a.warm, a.icon, a.worker = 20, true, true
	seen := a.r.u(0.3, 0.8)
	for d := range a.site.Days {
		for k := range 7 {
			t := a.at(d, 6.5+2.3*float64(k)+hf("push", d, k)*1.5)
			if t < a.now {
				continue
			}
			a.sleep(float64(t-a.now) / 1000)
			i := a.site.count(t) - 1 - hn(3, "pushed", d, k)
			a.ask(a.now+int64(a.r.exp(4000)), "GET", "/api/v2/push/"+itoa(88000+i), "fetch", a.url("/sw.js"), "same-origin")
			if !a.r.p(seen) {
				continue
			}
			a.step(a.r.logN(60, 1.4))
			a.newTab(a.site.Item(i), "")
			a.read(1)
			for a.r.p(0.3) && a.follow("related") {
				a.read(0.7)
			}
			a.goodbye(a.tab)
			if a.r.p(0.6) {
				a.quit()
			}
		}
	}
}

// commenter reads the comments and writes.
func commenter(a *Agent) {
	a.visits(a.r.u(1, 2.5), eveningHours, func() {
		a.come()
		for i := 0; !a.enough(i); i++ {
			a.read(1.4)
			if a.page().Kind == "item" && a.r.p(0.5) {
				a.look(a.r.logN(40*a.T.Slow, 0.8), a.page().Height)
				own := strings.Split(a.page().URL, "/")[2]
				if a.r.p(0.4) {
					a.look(a.r.logN(70*a.T.Slow, 0.8), a.page().Height)
					a.call("POST", "/api/v2/articles/"+own+"/comments", "json")
				}
				for a.r.p(0.4) { // any answer yet?
					a.wait(a.r.logN(100, 0.8))
					a.call("GET", "/api/v2/articles/"+own+"/comments?limit=20", "fetch!")
				}
			}
			if a.r.p(0.4) && a.back() {
				continue
			}
			if !a.follow("item", "related", "list") {
				return
			}
		}
	})
}

// deskEditor checks headlines against the competition all day: reload, reload.
func deskEditor(a *Agent) {
	a.C = desktop(a.r)
	a.warm, a.icon, a.worker = 12, true, true
	for d := range a.site.Days {
		stop := a.at(d, a.r.g(18, 1, 15))
		a.begin(a.at(d, a.r.g(8, 0.8, 6)), func() {
			a.arrive("home")
			for a.now < stop {
				a.look(a.r.logN(12*a.T.Slow, 0.8), a.r.u(1, 4))
				if a.r.p(0.3) && a.follow("item") {
					a.read(0.6)
					a.back()
				}
				a.hide()
				a.wait(a.r.logN(700, 0.9))
				a.tab.hidden = false
				a.reload()
			}
		})
	}
}

// feedAPI reads the feed by its interface and then the articles, in order.
func feedAPI(a *Agent) {
	a.asTool(pick(a.r, []string{"python-httpx/0.27.2", "aiohttp/3.10.5", "node", chrome(win, 135).UA}), "application/json")
	every := a.r.u(900, 4000)
	wait := a.pause(pick(a.r, []string{"fixed", "uniform", "gauss"}), a.r.u(0.5, 4))
	last := a.site.Items - 10
	for a.now = a.at(0, a.r.u(0, 1)); a.now < a.end(); {
		t := a.now
		for c := 0; c < 24; c += 12 {
			_, a.now = a.ask(a.now, "GET", "/api/v2/feed?desk=top&cursor="+itoa(c), "json", "", "")
		}
		for n := a.site.count(a.now); last < n; last++ {
			_, a.now = a.ask(a.now, "GET", a.site.API(last), "json", "", "")
			wait()
		}
		a.now = max(a.now, t+int64(every*1000))
	}
}

// commentBot writes comments through the interface with a browser's session.
func commentBot(a *Agent) {
	a.asBrowser(true)
	a.visits(a.r.u(1, 2), publicHours, func() {
		a.goTo(a.site.Item(a.popular()), pick(a.r, []string{"", "https://www.google.com/"}))
		for range a.r.n(3, 10) {
			a.scroll(a.fake(14, 0.6))
			if f := strings.Split(a.page().URL, "/"); a.page().Kind == "item" {
				a.look(a.fake(12, 0.3), a.page().Height)
				a.call("POST", "/api/v2/articles/"+f[2]+"/comments", "json")
			}
			if !a.uniform("related", "item") {
				return
			}
		}
	})
}

// digest is a model's morning task: read the heads, open a few, sum up.
func digest(a *Agent) {
	a.asModel()
	for d := range a.site.Days {
		for _, h := range []float64{7, 12, 18}[:a.r.n(1, 3)] {
			a.begin(a.at(d, h+a.r.u(0, 0.05)), func() {
				a.forgetful()
				a.goTo(a.site.Home, "")
				a.look(a.think(), 2)
				a.look(a.think(), 5)
				var urls []string
				for _, l := range a.of("item") {
					if len(urls) < a.r.n(4, 9) && a.r.p(0.4) {
						urls = append(urls, l.URL)
					}
				}
				for _, u := range urls {
					a.goTo(u, "")
					a.glimpse()
				}
			})
		}
	}
}

func castNews() []role {
	return []role{
		people("feed-scroller", 14, feedScroller), people("live-ticker", 5, ticker), people("push-reader", 8, pushed), people("commenter", 5, commenter),
		people("desk-editor", 3, deskEditor), people("daily", 14, daily), people("commuter", 9, commuter), people("lunch", 6, lunch),
		people("skimmer", 7, skimmer), people("deep-reader", 7, deepReader), people("one-page", 10, onePage), people("sharer", 7, sharer),
		people("in-app", 6, inApp), people("bad-line", 4, badLine), people("private", 3, private), people("screen-reader", 2, screenReader),
		people("keyboard", 2, keyboard), people("feed-user", 2, feedUser), people("vpn", 3, vpn), people("sleepless", 3, sleepless),
		people("tab-hoarder", 2, hoarder), people("scattered", 3, scattered), people("seeker", 2, seeker), people("comparer", 2, comparer),
		people("watcher", 3, watcher), people("elder", 3, elder), people("developer", 1, developer), people("school-class", 6, class), people("windows", 1, windows),

		robots("feed-api", 6, feedAPI), robots("api-scraper", 5, apiScraper), robots("comment-bot", 4, commentBot), robots("ai-crawler", 4, aiCrawler),
		robots("search-engine", 2, searchBot), robots("seo-tool", 1, seoTool), robots("sitemap-scraper", 2, sitemapper), robots("feed-fetcher", 3, feedFetcher),
		robots("preview", 3, preview), robots("uptime", 2, uptime), robots("vuln-scanner", 2, vulnScanner), robots("account-checker", 1, accountChecker),
		robots("inspector", 2, inspector), robots("naive-fixed", 1, naive("fixed", false)), robots("naive-uniform", 2, naive("uniform", true)),
		robots("light-browser", 2, lightBrowser), robots("walker", 3, walker), robots("scroller", 4, scroller), robots("backtracker", 3, backtracker),
		robots("popular-walker", 3, popularWalker), robots("office-hours", 3, officeHours), robots("quiet-scraper", 2, quietScraper), robots("markov", 4, markov),
		robots("engager", 3, engager), robots("sold-visit", 4, soldVisit), robots("tab-opener", 1, tabOpener),
		robots("llm-digest", 5, digest), robots("llm-search", 3, llmSearch), robots("llm-research", 2, llmResearch), robots("llm-extension", 3, llmExtension),
		robots("llm-vision", 2, llmVision), robots("llm-fetcher", 2, llmFetcher), robots("llm-cron", 1, llmCron),
		robots("sticky-residential", 4, sticky), robots("rotating-residential", 5, rotating), robots("page-monitor", 3, monitorPage),
		robots("replay", 4, replay(0.15, false)), robots("replay-loose", 3, replay(0.3, true)),
	}
}
