package sim

// Language models that drive a browser.

// think is the pause of a model between two steps.
func (a *Agent) think() float64 { return clamp(a.r.logN(6.5*a.T.Slow, 0.5), 2.2, 45) }

// asModel gives the agent a fresh browser in a data centre.
func (a *Agent) asModel() {
	a.asBrowser(false)
	if a.r.p(0.5) {
		a.C = headless(a.r.n(136, 141))
		a.icon = true
	}
	if a.r.p(0.4) {
		a.C = chrome(linux, a.r.n(138, 141))
	}
	a.T.Slow = a.r.logN(1, 0.35)
}

// glimpse reads the page by a snapshot, now and then scrolling.
func (a *Agent) glimpse() {
	d := 1.0
	for range a.r.weighted([]float64{55, 30, 10, 5}) {
		a.look(a.think(), d)
		d += a.r.u(0.8, 1.2)
	}
	a.look(a.think(), d)
}

// llmSearch searches, reads a result or two and is done.
func llmSearch(a *Agent) {
	a.asModel()
	a.visits(a.r.u(0.8, 3), workHours, func() {
		a.forgetful()
		a.goTo(a.site.Home, "")
		a.glimpse()
		q := a.term()
		for range a.r.n(1, 3) {
			a.query(q)
			a.glimpse()
			for range a.r.n(1, 3) {
				if !a.follow("item") {
					break
				}
				a.glimpse()
				if a.r.p(0.7) {
					a.back()
					a.look(a.think(), 1)
				}
			}
			q = a.term()
		}
	})
}

// query types into the search field at once, as drivers do, or opens the address.
func (a *Agent) query(q string) {
	s := a.site
	switch {
	case s.Search == nil:
		a.follow("list", "nav")
	case a.r.p(0.35):
		a.goTo(s.Search(q), "")
	default:
		if s.Suggest != nil {
			a.call("GET", s.Suggest(q), "json")
		}
		a.wait(a.r.u(0.3, 2))
		a.click(Link{URL: s.Search(q), Kind: "form"})
	}
}

// llmCompare collects facts of several items for a comparison.
func llmCompare(a *Agent) {
	a.asModel()
	a.visits(a.r.u(0.6, 2), publicHours, func() {
		a.forgetful()
		if a.r.p(0.5) {
			a.goTo(a.site.Home, "")
			a.glimpse()
			a.query(a.term())
		} else {
			a.goTo(a.site.List(a.r.zipf(a.site.Lists, 0.6), 1), "")
		}
		a.glimpse()
		ls := a.of("item")
		for i := range min(len(ls), a.r.n(3, 8)) {
			if a.r.p(0.6) {
				a.click(ls[i])
				a.glimpse()
				a.back()
				a.look(a.think(), 1)
			} else {
				a.goTo(ls[i].URL, "")
				a.glimpse()
			}
		}
	})
}

// llmResearch fans out: several pages at once in tabs, then more.
func llmResearch(a *Agent) {
	a.asModel()
	a.visits(a.r.u(0.5, 1.5), workHours, func() {
		a.forgetful()
		a.query(a.term())
		if a.page().URL == "" {
			a.goTo(a.site.Home, "")
		}
		for range a.r.n(1, 3) {
			a.look(a.think(), 1)
			var open []*Tab
			for _, l := range a.of("item", "related") {
				if len(open) < a.r.n(2, 7) && a.r.p(0.7) {
					open = append(open, a.behind(l))
				}
			}
			for _, t := range open {
				a.switchTo(t)
				a.look(a.r.u(0.8, 3), a.page().Height) // text is taken at once
				a.closeTab()
			}
			a.wait(a.r.logN(14, 0.6))
			a.query(a.term())
		}
	})
}

// llmExtension works in its owner's own browser, with the owner's cache.
func llmExtension(a *Agent) {
	a.asModel()
	a.C = desktop(a.r)
	a.Addr = home(a.r)
	a.warm, a.icon, a.Driven, a.NoCache, a.Quic = 30, true, false, false, 0.55
	a.visits(a.r.u(0.6, 2.5), publicHours, func() {
		if a.r.p(0.5) {
			a.arrive("home")
		} else {
			a.arrive("search")
		}
		for range a.r.n(4, 14) {
			a.glimpse()
			switch {
			case a.r.p(0.2):
				a.query(a.term())
			case a.r.p(0.2) && a.back():
			default:
				if !a.follow("item", "related", "filter", "next") && !a.follow("list", "nav") {
					return
				}
			}
		}
	})
}

// llmVision sees screenshots: every scroll is a step of its own.
func llmVision(a *Agent) {
	a.asModel()
	a.C = chrome(linux, 139)
	if a.r.p(0.4) {
		a.C = firefox(linux, 128)
	}
	a.T.Slow = a.r.u(0.7, 1.3)
	a.visits(a.r.u(0.5, 1.6), flatHours, func() {
		a.forgetful()
		a.goTo(a.site.Home, "")
		for range a.r.n(5, 16) {
			d := 1.0
			for range a.r.geo(2.6) {
				a.look(a.think(), d)
				d += 0.8
			}
			switch {
			case a.r.p(0.12):
				a.query(a.term())
			case a.r.p(0.15) && a.back():
			case a.r.p(0.08): // the click misses
				a.look(a.think(), d)
			default:
				if !a.follow("item", "related", "list", "next", "nav") {
					return
				}
			}
		}
	})
}

// llmFetcher fetches one page because a user of a chat asked.
func llmFetcher(a *Agent) {
	a.asTool(pick(a.r, []string{
		"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko); compatible; ChatGPT-User/1.0; +https://openai.com/bot",
		"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; Perplexity-User/1.0; +https://perplexity.ai/perplexity-user)",
		"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; Claude-User/1.0; +Claude-User@anthropic.com)",
	}), pick(a.r, []string{anything, "text/markdown, text/html;q=0.9, */*;q=0.1", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}))
	a.visits(a.r.u(2, 9), publicHours, func() {
		for range a.r.geo(1.7) {
			a.grab(a.site.Item(a.popular()), "")
			a.now += int64(a.r.logN(4, 0.8) * 1000)
		}
	})
}

// llmCron does the same task at the same hours.
func llmCron(a *Agent) {
	a.asModel()
	every := pick(a.r, []float64{2, 4, 6, 12})
	k := a.r.zipf(a.site.Lists, 0.6)
	q := a.term()
	for t := a.at(0, a.r.u(0, 2)); t < a.end(); t += int64(every * float64(hour)) {
		a.begin(t+int64(a.r.u(2, 20)*1000), func() {
			a.forgetful()
			if a.r.p(0.5) {
				a.query(q)
			}
			if a.page().URL == "" {
				a.goTo(a.site.List(k, 1), "")
			}
			a.glimpse()
			for range a.r.n(0, 4) {
				if !a.follow("item") {
					break
				}
				a.glimpse()
				a.back()
				a.look(a.think(), 1)
			}
		})
	}
}
