package sim

// Robots inside the house.

func (a *Agent) insider(ua string) {
	a.asTool(ua, anything)
	a.Addr, a.RTT = inner(a.r), 0.002
	a.S["may"], a.S["always"] = 1, 1
}

// insideBrowser is an automated browser on a machine of the house.
func (a *Agent) insideBrowser() {
	a.staff()
	a.C = pick(a.r, []*Client{edge(138), edge(138), chrome(win, 137), chrome(win, 136)})
	if a.r.p(0.3) {
		a.cache = map[string]*entry{}
	}
}

// pull is an interface of another system.
func pull(a *Agent) {
	a.insider(pick(a.r, []string{"Apache-HttpClient/4.5.14 (Java/11.0.22)", "Mirth Connect/4.5", "Java/1.8.0_402", "curl/7.76.1"}))
	every := pick(a.r, []float64{300, 600, 900, 1800})
	i := a.r.n(0, 200)
	for a.now = a.at(0, a.r.u(0, 0.1)); a.now < a.end(); {
		t := a.now
		for range a.r.n(1, 4) {
			_, a.now = a.ask(a.now, "GET", a.site.API(i), "json", "", "")
			i++
		}
		a.now = t + int64(every*1000) + int64(a.r.u(0, 300))
	}
}

// nightExport walks all records at night.
func nightExport(a *Agent) {
	a.insider(pick(a.r, []string{"python-requests/2.28.1", "Wget/1.21.3", "libwww-perl/6.67"}))
	wait := a.pause(pick(a.r, []string{"fixed", "exp"}), a.r.u(0.3, 2))
	for d := range a.site.Days {
		a.now = a.at(d, a.r.u(1, 4))
		from := a.r.n(0, 150)
		for i := range a.r.n(100, 180) {
			a.grab(a.site.Item(from+i), "")
			wait()
		}
	}
}

// bareScan is the security scanner of the house or an intruder.
func bareScan(a *Agent) {
	a.insider(pick(a.r, []string{"Mozilla/4.0 (compatible; MSIE 8.0; Windows NT 5.1; Trident/4.0)", "Mozilla/5.0 [en] (X11, U; OpenVAS-VT 22.4.1)", "Mozilla/5.0 (Windows NT 10.0; Win64; x64)"}))
	a.S["may"], a.S["always"] = 0, 0
	a.visits(0.7, nightHours, func() {
		for range a.r.n(40, 150) {
			_, a.now = a.ask(a.now, pick(a.r, []string{"GET", "GET", "GET", "OPTIONS", "POST"}), pick(a.r, holes), "doc", "", "")
			a.now += int64(a.r.exp(250))
		}
	})
}

// wardRPA transfers data by screen: search, open, write, next.
func wardRPA(kind string) func(*Agent) {
	return func(a *Agent) {
		a.insideBrowser()
		mean := a.r.u(1.5, 7)
		nap := func(f float64) {
			s := mean * f
			switch kind {
			case "uniform":
				s *= a.r.u(0.5, 1.5)
			case "logn":
				s *= a.r.logN(1, 0.5)
			}
			a.look(max(0.3, s), 1)
		}
		a.visits(a.r.u(0.6, 1.4), workHours, func() {
			a.goTo("/kis/", "")
			nap(1)
			if a.page().Kind == "login" {
				a.submit("POST", "/kis/login.do")
				nap(1)
			}
			for range a.r.n(12, 45) {
				a.to(a.site.Search(a.term()))
				nap(0.7)
				if !a.uniform("item") {
					continue
				}
				own := a.page().URL
				nap(1)
				if a.r.p(0.7) {
					a.click(Link{URL: own + "/" + pick(a.r, []string{"labs", "meds"}), Kind: "related"})
					nap(1)
				}
				a.submit("POST", own+"/obs")
				nap(0.8)
			}
		})
	}
}

// snoop reads records in a browser and looks like staff to the log.
func snoop(a *Agent) {
	a.insideBrowser()
	med, sd := a.r.u(6, 16), a.r.u(0.4, 0.9)
	a.visits(a.r.u(0.6, 1.6), workHours, func() {
		a.goTo("/kis/", "")
		a.look(a.fake(5, 0.4), 1)
		if a.page().Kind == "login" {
			a.submit("POST", "/kis/login.do")
		}
		a.to(a.site.List(a.r.n(0, wards-1), 1))
		for range a.r.geo(12) {
			a.scroll(a.fake(4, 0.5))
			if !a.uniform("item") {
				return
			}
			for range a.r.n(1, 3) {
				a.scroll(a.fake(med, sd))
				if !a.uniform("related") {
					break
				}
			}
			a.back()
			if a.r.p(0.5) {
				a.back()
			}
			if a.page().Kind != "list" {
				a.to(a.site.List(a.r.n(0, wards-1), 1))
			}
		}
	})
}

// assistant is a language model that works in the application on a task.
func assistant(write bool) func(*Agent) {
	return func(a *Agent) {
		a.insideBrowser()
		a.T.Slow = a.r.logN(1, 0.35)
		a.visits(a.r.u(1, 3.5), workHours, func() {
			a.goTo("/kis/", "")
			a.look(a.think(), 1)
			if a.page().Kind == "login" {
				a.look(a.think(), 1)
				a.submit("POST", "/kis/login.do")
				a.look(a.think(), 1)
			}
			if a.r.p(0.6) {
				a.to(a.site.Search(a.term()))
			} else {
				a.to("/kis/worklist")
			}
			for range a.r.n(1, 4) {
				a.look(a.think(), 1)
				if !a.follow("item") {
					return
				}
				own := a.page().URL
				for range a.r.n(1, 4) {
					a.glimpse()
					a.follow("related")
				}
				if write {
					for range a.r.n(2, 5) {
						a.look(a.think(), 1)
					}
					a.submit("POST", own+"/notes")
					a.look(a.think(), 1)
				}
				a.to("/kis/worklist")
			}
		})
	}
}

// macro replays a recorded round of a clerk with noise.
func macro(noise float64) func(*Agent) {
	return func(a *Agent) {
		g := newAgent(a.site, newLog(), Subject{}, "ghost-ward", a.Index/2, a.site.Seed)
		g.staff()
		g.S["always"] = 1
		g.now = a.at(0, 8)
		var steps []step
		g.rec = &steps
		g.goTo("/kis/", "")
		for range 12 {
			g.to(g.site.List(g.Index%wards, 1))
			g.look(g.r.logN(4, 0.5), 2)
			if g.follow("item") {
				g.patient(8, 0.3, 2.5)
			}
		}
		a.insideBrowser()
		a.S["always"] = 1
		a.visits(a.r.u(0.7, 1.5), workHours, func() {
			for _, s := range steps {
				if s.op == "submit" {
					a.submit(s.c, s.a)
					continue
				}
				a.play(s, a.r.logN(1, noise), a.r.p(0.3))
			}
		})
	}
}

// probe is a monitor that opens the log-in in a real browser.
func probe(a *Agent) {
	a.insideBrowser()
	a.C = headless(a.r.n(120, 138))
	every := pick(a.r, []float64{900, 1800, 3600})
	a.S["may"] = 1
	for t := a.at(0, a.r.u(0, 0.2)); t < a.end(); t += int64(every * 1000) {
		a.now = max(a.now, t)
		a.cache = map[string]*entry{}
		a.goTo("/kis/login.do", "")
		a.wait(1.5)
		if a.r.p(0.5) {
			a.submit("POST", "/kis/login.do")
			a.wait(2)
		}
		a.quit()
		a.S["in"] = 0
	}
}

func castWard() []role {
	return []role{
		people("nurse-early", 14, nurse(6, 8)), people("nurse-late", 10, nurse(13.5, 8)), people("nurse-night", 7, nurse(21.3, 9)),
		people("doctor", 13, doctor), people("front-desk", 8, frontDesk), people("lab", 5, lab), people("dispatcher", 3, dispatcher),
		people("wall-board", 6, wallBoard), people("shared-terminal", 8, shared), people("researcher", 4, researcher),
		people("occasional", 12, occasional), people("porter", 6, porter),

		robots("interface-pull", 6, pull), robots("night-export", 4, nightExport), robots("house-scan", 5, bareScan), robots("uptime-inside", 5, func(a *Agent) {
			uptime(a)
		}), robots("rpa-fixed", 5, wardRPA("fixed")), robots("rpa-uniform", 5, wardRPA("uniform")), robots("rpa-human", 7, wardRPA("logn")),
		robots("snoop", 9, snoop), robots("llm-assistant", 9, assistant(false)), robots("llm-writer", 7, assistant(true)),
		robots("macro", 6, macro(0.15)), robots("macro-loose", 4, macro(0.35)), robots("login-probe", 3, probe),
		robots("account-checker", 2, accountChecker), robots("index-crawler", 2, func(a *Agent) {
			a.insider("SearchBlox/9.2 (intranet index)")
			a.startAt()
			a.crawl(true, 220, a.pause("exp", 4), false, "")
		}),
	}
}
