package sim

import (
	"math"
	"strings"
)

// form goes through the steps of a form; pace gives the seconds of a step.
func (a *Agent) form(pace func() float64, quit float64) bool {
	if a.page().Kind != "start" {
		return false
	}
	a.look(pace()*0.8, 1.5)
	a.submit("POST", a.page().URL)
	for range 30 {
		p := a.page()
		switch p.Kind {
		case "step":
			a.look(pace()*(0.5+float64(p.Words)/120), 1.6)
			if a.r.p(0.12) {
				a.call("GET", "/api/address?q="+itoa(a.r.n(10000, 99999)), "json")
				a.look(pace()*0.3, 1.6)
			}
			if a.r.p(0.06) {
				a.call("POST", "/api/upload", "fetch")
				a.look(pace()*0.3, 1.6)
			}
			if a.r.p(quit) {
				return false
			}
			a.submit("POST", p.URL)
		case "error":
			a.look(pace()*0.5, 1.6)
			a.submit("POST", p.URL)
		case "check":
			a.look(pace(), 1.6)
			a.submit("POST", p.URL)
		default:
			a.look(pace()*0.5, 1)
			return p.Kind == "done"
		}
	}
	return false
}

// citizen reads about a service and applies for it.
func citizen(slow float64) func(*Agent) {
	return func(a *Agent) {
		a.T.Slow *= slow
		a.visits(0.6, publicHours, func() {
			a.goTo(a.site.Item(a.r.zipf(services, 0.7)), external(a.r, "search"))
			a.read(1.3)
			if a.r.p(0.3) {
				a.follow("related")
				a.read(1)
				a.back()
			}
			if !a.follow("formstart") {
				return
			}
			pace := func() float64 {
				s := a.r.logN(24*a.T.Slow, a.T.SD)
				if a.r.p(0.07) { // papers are looked for
					s += a.r.logN(150, 1)
				}
				return s
			}
			if !a.form(pace, 0.02) && a.r.p(0.5) {
				a.sleep(a.r.logN(3000, 1))
				a.reload()
				a.read(0.5)
				if strings.Contains(a.page().URL, "session") {
					a.goTo("/contact", "")
					a.read(1)
				}
			}
		})
	}
}

// slotHunter reloads the calendar until an appointment is free.
func slotHunter(a *Agent) {
	office, week := a.r.n(1, 6), a.r.n(45, 47)
	gap := a.r.logN(40, 0.8)
	a.visits(a.r.u(0.8, 2), workHours, func() {
		a.goTo("/appointments?office="+itoa(office)+"&week="+itoa(week), "")
		for range a.r.geo(16) {
			a.look(a.r.logN(4*a.T.Slow, 0.6), 1)
			switch {
			case a.r.p(0.4):
				a.follow("week")
			case a.r.p(0.2):
				a.back()
			default:
				a.wait(a.r.logN(gap, 0.9))
				a.reload()
			}
		}
	})
}

// waiting looks at the state of an application now and then.
func waiting(a *Agent) {
	u := "/status?ref=" + word(2, a.key) + itoa(a.r.n(1000, 9999))
	a.visits(a.r.u(1.5, 6), publicHours, func() {
		a.goTo(u, "")
		a.look(a.r.logN(6*a.T.Slow, 0.7), 1)
		for a.r.p(0.4) {
			a.wait(a.r.logN(120, 1))
			a.reload()
			a.look(a.r.logN(3, 0.6), 1)
		}
	})
}

// clerk sits at a counter all day: next person, case, tabs, note, decision.
func clerk(a *Agent) {
	g := newRand("office", a.group)
	a.Addr = home(g)
	a.C = pick(g, []*Client{edge(138), firefox(win, 128)})
	a.warm, a.icon, a.NoTrack = 14, true, false
	a.S["may"] = 1
	a.T.Distract *= 0.5
	a.RTT = 0.012
	think := a.r.logN(19, 0.4)
	for d := range a.site.Days {
		if a.r.p(0.08) {
			continue
		}
		start, rest, stop := a.at(d, a.r.g(7.7, 0.25, 6.9)), a.at(d, a.r.g(12.2, 0.5, 11.2)), a.at(d, a.r.g(16, 0.5, 14))
		a.begin(start, func() {
			a.goTo("/desk", "")
			if a.page().Kind == "signin" {
				a.look(a.r.logN(8, 0.4), 1)
				a.submit("POST", "/account/sign-in")
			}
			for a.now < stop {
				a.customer(think)
				if a.now > rest {
					rest = math.MaxInt64
					a.wait(a.r.u(28, 55) * 60)
				}
				if a.r.p(0.05) { // coffee
					a.wait(a.r.logN(480, 0.5))
				}
			}
		})
	}
}

// customer is one person at the counter.
func (a *Agent) customer(think float64) {
	r := a.r
	a.wait(r.exp(90) + 4)
	a.call("POST", "/desk/api/ticket/next", "json")
	a.look(r.logN(50*a.T.Slow, 0.7), 1) // what is it about
	if r.p(0.7) {
		a.click(Link{URL: "/desk/search?ref=" + itoa(r.n(70000, 79000)), Kind: "form"})
		a.look(r.logN(3.5, 0.5), 1)
		if !a.follow("case") {
			return
		}
	} else {
		a.click(Link{URL: "/desk/next", Kind: "form"})
	}
	own := a.page().URL
	for range r.geo(3) {
		a.look(r.logN(think, 0.8), 2)
		switch r.weighted([]float64{5, 2, 3, 1}) {
		case 0:
			a.follow("tab")
		case 1:
			if l, ok := a.choose(a.of("pdf")); ok {
				t := a.tab
				a.newTab(l.URL, "")
				a.look(r.logN(20, 0.8), 2)
				a.closeTab()
				if a.tab != t && t != nil {
					a.switchTo(t)
				}
			}
		case 2:
			a.submit("POST", own+"/note")
		default:
			a.call("GET", "/desk/api/fees?case="+own[len(own)-5:], "json")
		}
	}
	a.look(r.logN(think*3, 0.8), 2)
	if r.p(0.8) {
		a.submit("POST", own+"/decide")
	} else {
		a.click(Link{URL: "/desk", Kind: "nav"})
	}
}

// backOffice works off cases without people in front.
func backOffice(a *Agent) {
	g := newRand("office", a.group)
	a.Addr = home(g)
	a.C = edge(138)
	a.warm, a.icon = 14, true
	a.S["may"], a.S["clerk"] = 1, 1
	for d := range a.site.Days {
		stop := a.at(d, a.r.g(16.5, 0.7, 14))
		a.begin(a.at(d, a.r.g(8, 0.6, 6)), func() {
			a.goTo("/desk", "")
			for a.now < stop {
				a.look(a.r.logN(5*a.T.Slow, 0.6), 1)
				a.click(Link{URL: "/desk/next", Kind: "form"})
				own := a.page().URL
				for range a.r.geo(2) {
					a.look(a.r.logN(26*a.T.Slow, 0.9), 2)
					a.follow("tab", "pdf")
					if a.page().Kind == "pdf" {
						a.look(a.r.logN(22, 0.8), 2)
						a.back()
					}
				}
				a.look(a.r.logN(85*a.T.Slow, 0.9), 2)
				a.submit("POST", own+"/decide")
				if a.r.p(0.04) {
					a.wait(a.r.logN(900, 0.7))
				}
			}
		})
	}
}

// rpa is the office's own automation: it works off cases in a browser.
func rpa(a *Agent) {
	g := newRand("office", hash(a.site.Seed, a.site.Name, "clerk", a.Index%3)) // next to the clerks
	a.Addr = home(g)
	a.C, a.icon, a.RTT = edge(138), true, 0.012
	a.S["may"], a.S["clerk"] = 1, 1
	mean := a.r.u(1.5, 6)
	a.visits(1, workHours, func() {
		a.goTo("/desk", "")
		for range a.r.n(50, 150) {
			a.click(Link{URL: "/desk/next", Kind: "form"})
			own := a.page().URL
			a.look(mean*a.r.logN(1, 0.15), 1)
			a.goTo(own+"/documents", "")
			a.look(mean*a.r.logN(1, 0.15), 1)
			a.submit("POST", own+"/decide")
			a.look(mean*a.r.logN(0.6, 0.2), 1)
		}
	})
}

// slotGrabber asks for free appointments, in a browser or by the interface.
func slotGrabber(browser bool) func(*Agent) {
	return func(a *Agent) {
		u := "/appointments?office=" + itoa(a.r.n(1, 6)) + "&week=" + itoa(a.r.n(45, 47))
		if browser {
			a.asBrowser(true)
			gap := a.r.u(30, 120)
			a.visits(1, workHours, func() {
				a.goTo(u, "")
				for range a.r.n(20, 90) {
					a.look(a.r.logN(3, 0.3), 1)
					a.wait(a.r.logN(gap, 0.3))
					if a.r.p(0.25) {
						a.uniform("week")
						a.look(a.r.logN(3, 0.3), 1)
						a.back()
						continue
					}
					a.reload()
				}
			})
			return
		}
		a.asTool(desktop(a.r).UA, "application/json, text/plain, */*")
		a.visits(1, workHours, func() {
			for range a.r.n(60, 250) {
				_, a.now = a.ask(a.now, "GET", "/api"+u[:strings.Index(u, "week")]+"week="+itoa(a.r.n(45, 48)), "json", a.url(u), "")
				a.now += int64(a.r.u(8000, 30000))
			}
		})
	}
}

// statusChecker asks after many applications in a row.
func statusChecker(a *Agent) {
	a.asTool(pick(a.r, []string{"python-requests/2.32.3", "Java/17.0.12", desktop(a.r).UA}), anything)
	wait := a.pause(pick(a.r, []string{"fixed", "gauss"}), a.r.u(1, 6))
	a.visits(1, flatHours, func() {
		for i := range a.r.n(60, 160) {
			a.grab("/status?ref="+word(2, "file", a.Index)+itoa(2000+i), "")
			wait()
		}
	})
}

// formBot fills in a form in a browser; think gives seconds by step.
func formBot(model bool) func(*Agent) {
	return func(a *Agent) {
		med := a.r.u(8, 22)
		if model {
			a.asModel()
		} else {
			a.asBrowser(a.r.p(0.7))
		}
		a.visits(a.r.u(1, 2), publicHours, func() {
			pace := func() float64 {
				if !model {
					return a.fake(med, 0.4)
				}
				s := 0.0
				for range a.r.n(2, 5) { // a field a step
					s += a.think()
				}
				return s
			}
			if model {
				a.goTo(a.site.Home, "")
				a.glimpse()
				a.query(a.term())
				a.glimpse()
				a.follow("item")
				a.glimpse()
			} else {
				a.goTo(a.site.Item(a.r.n(0, services-1)), "")
				a.scroll(a.fake(12, 0.5))
			}
			if a.follow("formstart") {
				a.form(pace, 0.01)
			}
		})
	}
}

func castGov() []role {
	return []role{
		people("citizen", 22, citizen(1)), people("citizen-slow", 8, citizen(2.6)), people("slot-hunter", 9, slotHunter), people("waiting", 8, waiting),
		people("clerk", 16, clerk), people("back-office", 5, backOffice), people("skimmer", 6, skimmer), people("deep-reader", 4, deepReader),
		people("one-page", 14, onePage), people("bad-line", 4, badLine), people("private", 4, private), people("lean", 1, lean),
		people("screen-reader", 4, screenReader), people("keyboard", 3, keyboard), people("translated", 4, translated), people("old-device", 4, oldDevice),
		people("in-app", 2, inApp), people("vpn", 2, vpn), people("lunch", 2, lunch), people("call-centre", 6, callCentre), people("kiosk", 2, kiosk),
		people("elder", 5, elder), people("seeker", 4, seeker), people("comparer", 2, comparer), people("archivist", 1, archivist), people("family", 1, family),

		robots("rpa", 5, rpa), robots("slot-grabber", 5, slotGrabber(true)), robots("slot-api", 4, slotGrabber(false)), robots("status-checker", 3, statusChecker),
		robots("form-script", 5, formBot(false)), robots("llm-form", 7, formBot(true)), robots("crawler", 3, crawler), robots("ai-crawler", 3, aiCrawler),
		robots("search-engine", 2, searchBot), robots("seo-tool", 2, seoTool), robots("vuln-scanner", 3, vulnScanner), robots("link-checker", 2, linkChecker),
		robots("uptime", 2, uptime), robots("form-spammer", 2, formSpam), robots("account-checker", 2, accountChecker), robots("sitemap-scraper", 2, sitemapper),
		robots("mirror", 1, mirror), robots("inspector", 2, inspector), robots("list-scraper", 2, listScraper), robots("naive-uniform", 2, naive("uniform", true)),
		robots("walker", 3, walker), robots("scroller", 2, scroller), robots("backtracker", 2, backtracker), robots("popular-walker", 2, popularWalker),
		robots("markov", 3, markov), robots("office-hours", 3, officeHours), robots("quiet-scraper", 2, quietScraper),
		robots("llm-search", 4, llmSearch), robots("llm-research", 2, llmResearch), robots("llm-extension", 3, llmExtension), robots("llm-vision", 3, llmVision),
		robots("llm-fetcher", 2, llmFetcher), robots("llm-cron", 2, llmCron), robots("page-monitor", 6, monitorPage), robots("rotating-residential", 5, rotating),
		robots("replay", 3, replay(0.15, false)), robots("replay-loose", 3, replay(0.3, true)), robots("render-service", 1, renderService),
	}
}
