package sim

// Robots in full browsers that try to look like people, with what a capable operator would choose without knowing the people
// of the site.

// fake is a human-like pause of an operator: log-normal, each profile with a
// pace of its own; the careful ones mix in glances and long breaks.
func (a *Agent) fake(med, sd float64) float64 {
	if hf("careful", a.key, a.site.Seed) < 0.45 {
		switch {
		case a.r.p(0.14):
			return max(0.8, a.r.logN(2.4, 0.4))
		case a.r.p(0.03):
			return min(1500, a.r.logN(150, 0.8))
		}
		sd *= 1.2
	}
	return max(0.8, min(900, a.r.logN(med*a.T.Slow, sd)))
}

// scroll looks at the page as a scroll library does: in steps to a random depth.
func (a *Agent) scroll(sec float64) {
	h := a.page().Height
	steps := a.r.n(1, 4)
	d := a.page().depth
	for i := range steps {
		d = min(h, d+h*a.r.u(0.1, 0.4))
		a.look(sec/float64(steps)*a.r.u(0.7, 1.3), max(1, d))
		_ = i
	}
}

// walker walks at random with log-normal pauses.
func walker(a *Agent) {
	a.asBrowser(true)
	med, sd := a.r.u(5, 24), a.r.u(0.5, 1.2)
	a.visits(a.r.u(1, 3), flatHours, func() {
		a.come()
		for n := a.r.n(3, 14); n > 0; n-- {
			a.look(a.fake(med, sd), a.r.u(1, 4))
			if !a.uniform("item", "related", "list", "next", "nav") {
				return
			}
		}
		a.look(a.fake(med, sd), 2)
	})
}

// scroller scrolls in random steps and moves on.
func scroller(a *Agent) {
	a.asBrowser(a.r.p(0.6))
	a.visits(a.r.u(1, 3), publicHours, func() {
		a.arrive(pick(a.r, []string{"home", "list", "search"}))
		for n := a.r.geo(7); n > 0; n-- {
			a.scroll(a.fake(14, 0.7))
			if !a.uniform("item", "related", "list") {
				return
			}
		}
	})
}

// backtracker visits items of a list and goes back each time.
func backtracker(a *Agent) {
	a.asBrowser(true)
	med := a.r.u(5, 20)
	a.visits(a.r.u(0.8, 2.2), publicHours, func() {
		a.arrive(pick(a.r, []string{"list", "home"}))
		for n := a.r.n(4, 16); n > 0; n-- {
			a.scroll(a.fake(med*0.5, 0.6))
			if !a.uniform("item") {
				if !a.uniform("list", "nav") {
					return
				}
				continue
			}
			a.scroll(a.fake(med, 0.8))
			a.back()
			if a.r.p(0.2) {
				a.uniform("next")
			}
		}
	})
}

// popularWalker prefers what is popular, by position on the page.
func popularWalker(a *Agent) {
	a.asBrowser(true)
	a.T = traits(a.r)
	a.visits(a.r.u(0.8, 2), eveningHours, func() {
		a.come()
		for n := a.r.geo(8); n > 0; n-- {
			a.scroll(a.r.weib(0.8, 22) + 1.5)
			ls := a.of("item", "related", "list", "next")
			if len(ls) == 0 {
				return
			}
			a.click(ls[a.r.zipf(len(ls), 1)])
		}
		a.scroll(a.fake(20, 0.8))
	})
}

// officeHours holds sessions at human hours out of a warmed profile.
func officeHours(a *Agent) {
	a.asBrowser(true)
	a.warm, a.icon = 24, true
	a.visits(a.r.u(2, 4), workHours, func() {
		a.arrive(pick(a.r, []string{"home", "home", "search"}))
		for n := a.r.geo(6); n > 0; n-- {
			a.scroll(a.fake(16, 0.9))
			if a.r.p(0.2) {
				a.back()
				a.look(a.fake(3, 0.4), 1)
			}
			if !a.uniform("item", "related", "list", "nav") {
				return
			}
		}
	})
}

// quietScraper takes a list item by item through clicks, with pauses.
func quietScraper(a *Agent) {
	a.asBrowser(true)
	med, sd := a.r.u(5, 13), a.r.u(0.35, 0.7)
	k := a.r.n(0, a.site.Lists-1)
	a.visits(a.r.u(0.6, 1.4), publicHours, func() {
		a.goTo(a.site.Home, "https://www.google.com/")
		a.look(a.fake(4, 0.4), 1)
		a.goTo(a.site.List(k, 1), "")
		for pages := a.r.n(1, 4); pages > 0; pages-- {
			a.look(a.fake(4, 0.4), a.page().Height)
			for _, l := range a.of("item") {
				if a.r.p(0.15) {
					continue
				}
				a.click(l)
				a.scroll(a.fake(med, sd))
				a.back()
				a.look(a.fake(1.8, 0.35), l.Pos+1)
			}
			if !a.uniform("next") {
				return
			}
			if a.r.p(0.3) {
				a.wait(a.r.u(120, 900))
			}
		}
	})
}

// tabOpener opens tabs at once and reads one after another.
func tabOpener(a *Agent) {
	a.asBrowser(a.r.p(0.5))
	a.visits(a.r.u(0.8, 2), publicHours, func() {
		a.arrive("list")
		for range a.r.n(1, 4) {
			a.look(a.fake(7, 0.5), 3)
			front := a.tab
			var open []*Tab
			ls := a.of("item")
			for range a.r.n(2, 6) {
				if len(ls) > 0 {
					open = append(open, a.behind(pick(a.r, ls)))
					a.wait(a.r.u(0.4, 1.6))
				}
			}
			for _, t := range open {
				a.switchTo(t)
				a.scroll(a.fake(12, 0.7))
				a.closeTab()
			}
			if a.tab != front {
				a.switchTo(front)
			}
			if !a.uniform("next", "filter", "list") {
				return
			}
		}
	})
}

// engager makes visits that look like success of an advertisement.
func engager(a *Agent) {
	a.asBrowser(true)
	if a.r.p(0.5) {
		a.C = phone(a.r)
	}
	a.visits(a.r.u(0.7, 1.6), publicHours, func() {
		a.forgetful()
		a.goTo(a.site.Item(a.popular()), pick(a.r, []string{"https://www.google.com/", "https://www.facebook.com/", "https://t.co/"}))
		a.scroll(a.r.u(25, 90))
		for a.r.p(0.6) {
			if !a.uniform("related", "item", "nav", "list") {
				return
			}
			a.scroll(a.r.u(15, 60))
		}
	})
}

// soldVisit is one visit to one page, one of a thousand that were sold.
func soldVisit(a *Agent) {
	a.asBrowser(true)
	a.C = anyBrowser(a.r)
	a.begin(a.at(a.r.n(0, a.site.Days-1), float64(a.r.weighted(publicHours))+a.r.Float64()), func() {
		a.goTo(a.site.Item(hn(a.site.Items, "sold", a.Index%3)), external(a.r, "search"))
		a.scroll(a.fake(38, 0.6))
	})
}

// markov walks a chain learned from logs of other sites, with fitted pauses.
func markov(a *Agent) {
	a.asBrowser(true)
	next := map[string][]float64{ // item, related, list, next, back, end
		"list": {55, 0, 12, 15, 6, 12}, "item": {12, 22, 10, 0, 38, 18}, "home": {30, 5, 50, 0, 0, 15}, "": {30, 20, 20, 5, 10, 15},
	}
	med := map[string]float64{"list": 9, "item": 24, "home": 6, "": 8}
	slow := a.r.logN(1, 0.35)
	a.visits(a.r.u(1, 3), eveningHours, func() {
		a.come()
		for range 40 {
			k := a.page().Kind
			if next[k] == nil {
				k = ""
			}
			a.look(a.fake(med[k]*slow, 0.9), 1+a.page().Height*a.r.Float64())
			switch a.r.weighted(next[k]) {
			case 0:
				a.follow("item")
			case 1:
				a.follow("related")
			case 2:
				a.follow("list", "nav")
			case 3:
				a.follow("next")
			case 4:
				a.back()
			default:
				return
			}
		}
	})
}
