package sim

// People who share an address, a profile or a machine.

// family shares a profile and has two windows open at once.
func family(a *Agent) {
	a.C = desktop(a.r)
	a.visits(a.r.u(0.6, 1.5), eveningHours, func() {
		a.come()
		one := a.tab
		a.read(0.7)
		a.newTab(a.site.Home, "")
		two := a.tab
		for i := 0; !a.enough(i / 2); i++ {
			for _, t := range []*Tab{one, two} {
				a.switchTo(t)
				for range a.r.n(1, 3) {
					a.look(a.r.logN(6*a.T.Slow, 0.8), a.page().Height*a.T.Depth)
					if !a.follow("item", "related", "next", "list") {
						a.back()
					}
				}
			}
		}
	})
}

// class is a school class behind one address that starts at the same minute
// with the same task.
func class(a *Agent) {
	g := newRand("class", a.site.Seed, a.site.Name)
	a.Addr = home(g)
	start := a.at(g.n(0, a.site.Days-1), g.u(8.2, 11.5))
	q := a.site.Terms[g.n(0, len(a.site.Terms)-1)]
	task := a.site.Item(g.n(0, a.site.Items-1))
	a.C = chrome("X11; CrOS x86_64 14541.0.0", 139)
	if g.p(0.4) {
		a.C = edge(139)
	}
	a.BW, a.RTT = 200000, 0.05
	a.begin(start+int64(a.r.logN(45, 0.8)*1000), func() {
		a.arrive("home")
		a.look(a.r.logN(9, 0.6), 1)
		if a.r.p(0.6) {
			a.find(q)
			a.read(0.5)
			a.follow("item")
		} else {
			a.goTo(task, "")
		}
		stop := a.now + int64(g.u(25, 42)*60000)
		for a.now < stop {
			a.read(a.r.u(0.2, 1.4))
			if a.r.p(0.2) { // chatting
				a.wait(a.r.logN(60, 0.8))
			}
			if a.r.p(0.3) && a.back() {
				continue
			}
			if !a.follow("related", "item", "list") {
				a.find(q)
			}
		}
	})
}

// callCentre looks things up for callers, all behind one address.
func callCentre(a *Agent) {
	g := newRand("calls", a.group)
	a.Addr = home(g)
	a.C = chrome(win, 138)
	a.warm, a.icon = 16, true
	for d := range a.site.Days {
		from := a.at(d, a.r.g(8.2, 0.5, 7))
		to := a.at(d, a.r.g(16.4, 0.5, 15))
		rest := a.at(d, a.r.g(12.2, 0.6, 11))
		a.begin(from, func() {
			a.arrive("home")
			for a.now < to {
				a.wait(a.r.exp(150)) // until the next call
				a.look(a.r.logN(8, 0.5), 1)
				if a.r.p(0.75) {
					a.find(a.term())
				} else {
					a.follow("list", "nav")
				}
				for range a.r.geo(2) {
					a.look(a.r.logN(3, 0.5), a.r.u(1, 2))
					if !a.follow("item") {
						break
					}
					a.look(a.r.logN(28*a.T.Slow, 0.8), a.page().Height*a.r.u(0.3, 1))
					if a.r.p(0.6) {
						a.back()
					}
				}
				if a.now > rest && a.now < rest+hour {
					a.sleep(a.r.u(25, 45) * 60)
					rest = 0
				}
			}
		})
	}
}

// kiosk is a public terminal that goes to the start page when nobody is there.
func kiosk(a *Agent) {
	a.C = chrome(win, 126)
	a.warm, a.icon = 20, true
	for d := range a.site.Days {
		from, to := a.at(d, 9), a.at(d, a.r.u(18, 20))
		a.begin(from, func() {
			a.arrive("home")
			for a.now < to {
				a.wait(a.r.exp(1100))
				for i := 0; i < a.r.geo(6); i++ {
					a.look(a.r.logN(9, 0.8), a.r.u(1, 3))
					if !a.follow("list", "nav", "item") {
						a.back()
					}
				}
				a.wait(120) // idle: back to the start
				a.open(a.site.Home, "", "none")
			}
		})
	}
}
