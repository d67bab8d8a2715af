package sim

// How people read: they may come to any public site.

// skimmer glances at lists and few items.
func skimmer(a *Agent) {
	a.T.Glance, a.T.Slow = a.r.u(0.5, 0.85), a.T.Slow*0.6
	a.visits(a.r.u(0.5, 2.5), publicHours, func() {
		a.come()
		for i := 0; !a.enough(i); i++ {
			a.read(0.5)
			if !a.follow(pick(a.r, []string{"item", "item", "list", "next", "related", "nav"})) && !a.follow("item", "list", "nav") {
				return
			}
		}
		a.read(0.4)
	})
}

// deepReader reads a few pages to the end.
func deepReader(a *Agent) {
	a.T.Glance, a.T.Depth, a.T.K = a.r.u(0.02, 0.1), a.r.u(0.85, 1), a.r.u(0.9, 1.4)
	a.T.Stay *= 0.7
	a.visits(a.r.u(0.4, 1.6), eveningHours, func() {
		a.come()
		for i := 0; !a.enough(i); i++ {
			a.read(2)
			if a.page().Kind == "item" && a.r.p(0.3) {
				a.back()
				a.read(0.6)
			}
			if !a.follow("related", "item") && !a.follow("list", "nav") {
				return
			}
		}
		a.read(2)
	})
}

// wander reads and follows what interests until it is enough.
func (a *Agent) wander(interest float64) {
	for i := 0; !a.enough(i); i++ {
		a.read(interest)
		switch {
		case a.r.p(0.22) && a.back():
		case a.r.p(a.T.Tabs) && !a.C.Mobile:
			ls := a.of("item", "related")
			var open []*Tab
			for range a.r.n(1, 3) {
				if l, ok := a.choose(ls); ok {
					open = append(open, a.behind(l))
				}
			}
			if len(open) == 0 {
				return
			}
			a.look(a.r.logN(4, 0.8), a.page().depth+1)
			for _, t := range open {
				a.switchTo(t)
				a.read(interest)
				if a.r.p(0.8) && len(a.tabs) > 1 {
					a.closeTab()
				}
			}
		default:
			if !a.follow("item", "related", "next", "list") && !a.follow("nav") {
				return
			}
		}
	}
	a.read(interest)
}

// comparer opens many results in background tabs and goes through them.
func comparer(a *Agent) {
	if a.C.Mobile && a.r.p(0.8) {
		a.C = desktop(a.r)
	}
	a.visits(a.r.u(0.4, 1.3), publicHours, func() {
		if a.r.p(0.5) {
			a.arrive("list")
		} else {
			a.arrive("home")
			a.read(0.4)
			a.find(a.term())
		}
		for round := 0; round < a.r.geo(2.2); round++ {
			a.read(0.8)
			want := a.r.n(3, 15)
			var open []*Tab
			front := a.tab
			for _, l := range a.of("item") {
				if len(open) < want && a.r.p(0.45) {
					open = append(open, a.behind(l))
					a.look(a.r.logN(2.2*a.T.Slow, 0.8), l.Pos+1)
				}
			}
			a.tour(open, front)
			if a.tab != front && front != nil {
				a.switchTo(front)
			}
			if !a.follow("next", "filter") {
				return
			}
		}
	})
}

// tour looks at open tabs, closes the poor ones, comes back to the good ones.
func (a *Agent) tour(open []*Tab, front *Tab) {
	var keep []*Tab
	for _, t := range open {
		a.switchTo(t)
		a.read(0.8)
		if a.r.p(0.62) {
			a.closeTab()
		} else {
			keep = append(keep, t)
		}
	}
	for n := a.r.n(0, 2*len(keep)); n > 0 && len(keep) > 1; n-- {
		a.switchTo(pick(a.r, keep))
		a.look(a.r.logN(5*a.T.Slow, a.T.SD), a.page().Height*0.6)
	}
	for _, t := range keep {
		if a.r.p(0.8) {
			a.switchTo(t)
			a.look(a.r.logN(1.2, 0.5), 1)
			a.closeTab()
		}
	}
	_ = front
}

// listWorker goes list, item, back, item, back.
func listWorker(a *Agent) {
	a.visits(a.r.u(0.5, 1.5), publicHours, func() {
		a.arrive("list")
		for i := 0; !a.enough(i / 3); i++ {
			a.read(0.6)
			if !a.follow("item") {
				return
			}
			a.read(0.9)
			a.back()
			if a.r.p(0.18) {
				a.look(a.r.logN(3, 0.6), a.page().Height)
				a.follow("next")
			}
		}
	})
}

// onePage comes from a search engine and leaves.
func onePage(a *Agent) {
	a.visits(0.3, publicHours, func() {
		a.arrive("search")
		a.read(a.r.u(0.4, 1.6))
		if a.r.p(0.15) {
			a.follow("related", "list")
			a.read(0.5)
		}
	})
}

// sharer comes by a link that was sent, reads, and sends on.
func sharer(a *Agent) {
	if !a.C.Mobile {
		a.C = phone(a.r)
	}
	a.visits(a.r.u(0.4, 1.6), eveningHours, func() {
		if len(a.tabs) > 0 && a.r.p(0.5) {
			a.newTab(a.site.Item(a.popular()), external(a.r, "social"))
		} else {
			a.arrive("social")
		}
		a.read(1.2)
		for a.r.p(0.4) && a.follow("related", "item") {
			a.read(0.9)
		}
	})
}

// rabbit follows link after link.
func rabbit(a *Agent) {
	a.T.Stay = a.r.logN(22, 0.5)
	a.T.Tabs = a.r.u(0.2, 0.6)
	a.visits(a.r.u(0.5, 1.2), eveningHours, func() {
		a.arrive("search")
		for i := 0; !a.enough(i); i++ {
			a.read(0.9)
			if a.r.p(a.T.Tabs) && !a.C.Mobile {
				for range a.r.geo(2) {
					if l, ok := a.choose(a.of("related", "item")); ok {
						a.behind(l)
						a.look(a.r.logN(8*a.T.Slow, 0.9), a.page().depth+1)
					}
				}
				if a.r.p(0.7) {
					a.closeTab()
				}
				if a.tab == nil && len(a.tabs) > 0 {
					a.tab = a.tabs[0]
				}
				if a.tab == nil {
					return
				}
				continue
			}
			if !a.follow("related", "item") && !a.back() {
				return
			}
		}
	})
}

// seeker asks the site's search again and again in other words.
func seeker(a *Agent) {
	a.visits(a.r.u(0.6, 1.6), publicHours, func() {
		a.arrive("home")
		a.look(a.r.logN(3*a.T.Slow, 0.5), 1)
		q := a.term()
		for range a.r.geo(4) {
			a.find(q)
			a.look(a.r.logN(5*a.T.Slow, a.T.SD), a.r.u(1, 3))
			for a.r.p(0.55) && a.follow("item") {
				a.read(0.9)
				a.back()
				a.look(a.r.logN(2.5, 0.6), a.page().depth+0.5)
			}
			if a.r.p(0.5) {
				q = a.term()
			} else {
				q += " " + a.term()
			}
		}
	})
}

// archivist leafs through hundreds of records in order.
func archivist(a *Agent) {
	a.C = desktop(a.r)
	a.T.SD = a.r.u(0.3, 0.6)
	look := a.r.logN(5, 0.4)
	k, page := a.r.n(0, a.site.Lists-1), a.r.n(1, 6)
	a.visits(1, workHours, func() {
		a.goTo(a.site.List(k, page), "")
		for n := 0; n < a.r.n(70, 200) && a.now < a.end(); {
			a.look(a.r.logN(4, 0.5), a.page().Height)
			for _, l := range a.of("item") {
				if a.r.p(0.04) {
					continue
				}
				a.click(l)
				a.look(a.r.logN(look, a.T.SD), a.page().Height*a.r.u(0.3, 1))
				if a.r.p(0.06) { // notes
					a.wait(a.r.logN(50, 0.9))
				}
				a.back()
				a.look(a.r.logN(1.4, 0.4), l.Pos+1)
				n++
			}
			page++
			if !a.follow("next") {
				return
			}
			if a.r.p(0.2) {
				a.wait(a.r.logN(600, 0.8))
			}
		}
	})
}

// screenReader goes by headings and lists of links: quick on menus, then long
// listening.
func screenReader(a *Agent) {
	a.C = pick(a.r, []*Client{firefox(win, 143), chrome(win, 140), edge(140)})
	a.T.WPM = a.r.u(280, 480)
	a.T.Tabs = 0
	a.visits(a.r.u(0.5, 1.3), publicHours, func() {
		a.come()
		for i := 0; !a.enough(i / 2); i++ {
			if a.page().Kind == "item" && a.r.p(0.6) {
				a.look(float64(a.page().Words)/a.T.WPM*60*a.r.u(0.4, 1.1)+4, a.page().Height*a.r.u(0.5, 1))
			} else { // heading by heading, a key press each
				a.look(a.r.logN(0.6, 0.3)*float64(a.r.n(3, 25)), a.page().Height*a.r.u(0.2, 1))
			}
			a.page().depth = a.page().Height
			if a.r.p(0.3) {
				a.back()
				a.look(a.r.logN(2.5, 0.5), 1)
			}
			if !a.follow("item", "related", "next") && !a.follow("list", "nav") {
				return
			}
		}
	})
}

// keyboard finds on the page, tabs to it and is quick.
func keyboard(a *Agent) {
	a.C = desktop(a.r)
	a.T.Slow, a.T.SD, a.T.Glance = 0.35, 0.4, 0.5
	a.visits(a.r.u(0.8, 2), workHours, func() {
		a.arrive("home")
		for i := 0; !a.enough(i / 2); i++ {
			a.look(a.r.logN(1.6, 0.45), a.page().Height*a.r.Float64())
			if a.r.p(0.3) && a.site.Search != nil {
				a.find(a.term())
				a.look(a.r.logN(1.5, 0.4), 1)
			}
			if !a.follow("item", "related", "list") {
				return
			}
			a.read(0.6)
			if a.r.p(0.6) {
				a.back()
			}
		}
	})
}

// elder is slow, reads everything twice and presses things twice.
func elder(a *Agent) {
	a.T.Slow, a.T.Glance, a.T.WPM = a.r.logN(3.2, 0.3), 0.03, a.r.u(90, 150)
	a.T.Tabs, a.T.Stay = 0, a.T.Stay*0.7
	if a.r.p(0.3) {
		a.C = old(a.r)
	}
	a.visits(a.r.u(0.3, 1), []float64{0, 0, 0, 0, 0, 1, 3, 6, 9, 10, 9, 6, 4, 4, 5, 6, 6, 5, 4, 3, 2, 1, 0, 0}, func() {
		a.come()
		for i := 0; !a.enough(i); i++ {
			a.read(1.2)
			switch {
			case a.r.p(0.08):
				a.reload()
			case a.r.p(0.35) && a.back():
			default:
				if !a.follow("item", "list", "nav", "related") {
					return
				}
			}
		}
	})
}
