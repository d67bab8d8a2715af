package sim

// When people come, and with how many windows: they may come to any public site.

// daily comes back at about the same hour with a warm cache.
func daily(a *Agent) {
	a.warm = a.r.u(8, 60)
	a.icon = true
	h := a.r.g(8, 3, 5)
	for d := range a.site.Days {
		if a.r.p(0.1) {
			continue
		}
		a.begin(a.at(d, h)+int64(a.r.NormFloat64()*25*float64(minute)), func() {
			a.arrive("home")
			for i := 0; !a.enough(i); i++ {
				a.read(0.8)
				if a.page().Kind == "item" && a.r.p(0.7) {
					a.back()
					a.look(a.r.logN(3*a.T.Slow, a.T.SD), a.page().depth+1)
				}
				if !a.follow("item") && !a.follow("related", "nav") {
					return
				}
			}
			a.read(0.8)
		})
	}
}

// watcher looks at one thing every few minutes.
func watcher(a *Agent) {
	every := a.r.logN(240, 0.6)
	item := a.site.Item(a.popular())
	a.visits(a.r.u(0.6, 1.4), workHours, func() {
		a.goTo(item, "")
		for n := a.r.n(8, 45); n > 0; n-- {
			a.look(a.r.logN(6*a.T.Slow, 0.7), a.r.u(1, 2))
			a.hide()
			a.wait(a.r.logN(every, 0.7))
			a.tab.hidden = false
			a.reload()
			if a.r.p(0.06) {
				a.follow("related", "item", "list")
				a.read(0.7)
				a.back()
			}
		}
	})
}

// lunch comes at noon and in the evening, from work and from home.
func lunch(a *Agent) {
	a.C = desktop(a.r)
	work, flat := home(a.r), a.Addr
	a.warm, a.icon = 30, true
	for d := range a.site.Days {
		for _, h := range []float64{a.r.g(12.3, 0.4, 11), a.r.g(20, 1.5, 18)} {
			if a.r.p(0.25) {
				continue
			}
			a.Addr = flat
			if h < 16 {
				a.Addr = work
			}
			a.begin(a.at(d, h), func() {
				a.arrive("home")
				a.wander(0.8)
			})
		}
	}
}

// sleepless comes in the night for long.
func sleepless(a *Agent) {
	a.T.Stay *= 2.2
	a.T.Distract *= 2
	a.visits(a.r.u(0.6, 1.3), nightHours, func() {
		a.come()
		a.wander(1)
		if a.C.Mobile {
			a.sleep(a.r.logN(300, 1))
		}
		a.follow("related", "item", "list", "nav")
		a.wander(0.8)
	})
}

// hoarder starts with tabs that the browser restores and keeps many open.
func hoarder(a *Agent) {
	a.C = desktop(a.r)
	a.warm, a.icon = 40, true
	n := a.r.n(5, 22)
	var kept []string
	for range n {
		kept = append(kept, a.site.Item(a.popular()))
	}
	a.visits(1, workHours, func() {
		for i, u := range kept {
			if i == 0 || a.C.Family == "firefox" && i < 3 || a.r.p(0.5) {
				t := &Tab{hidden: i > 0}
				a.tabs = append(a.tabs, t)
				now := a.now
				a.navigate(t, "GET", u, "", "none", true)
				if i == 0 {
					a.tab = t
				} else {
					a.now = now + int64(a.r.u(20, 250))
				}
			}
		}
		for range a.r.n(3, 14) {
			a.switchTo(pick(a.r, a.tabs))
			a.read(0.6)
			if a.r.p(0.3) {
				a.follow("related", "item")
				a.read(0.6)
			}
			if a.r.p(0.2) {
				a.wait(a.r.logN(400, 1.2))
			}
		}
	})
}

// scattered does something else most of the time.
func scattered(a *Agent) {
	a.T.Distract = a.r.u(0.25, 0.5)
	a.T.Stay *= 1.5
	a.visits(a.r.u(0.5, 1.2), publicHours, func() {
		a.come()
		a.wander(0.7)
	})
}

// windows works in several windows at once for hours.
func windows(a *Agent) {
	a.C = desktop(a.r)
	a.visits(1, workHours, func() {
		for range a.r.n(2, 4) {
			a.newTab(a.site.List(a.r.n(0, a.site.Lists-1), 1), "")
			a.read(0.5)
		}
		wins := append([]*Tab{}, a.tabs...)
		for range a.r.n(15, 50) {
			a.switchTo(pick(a.r, wins))
			for range a.r.geo(1.8) {
				a.look(a.r.logN(7*a.T.Slow, a.T.SD), a.page().Height*a.T.Depth)
				if a.r.p(0.35) {
					a.back()
				} else if !a.follow("item", "related", "next", "filter") {
					a.back()
				}
			}
			if a.r.p(0.08) {
				a.wait(a.r.logN(500, 0.9))
			}
		}
	})
}
