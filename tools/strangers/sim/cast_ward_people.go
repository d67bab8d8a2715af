package sim

import "math"

// Who works in the house.

// staff makes the agent a terminal of the house.
func (a *Agent) staff() {
	a.Addr = inner(a.r)
	a.C = pick(a.r, []*Client{edge(138), edge(138), chrome(win, 137), firefox(win, 128), {UA: "Mozilla/5.0 (Windows NT 10.0; WOW64; Trident/7.0; rv:11.0) like Gecko", Family: "ie"}})
	a.RTT, a.BW, a.NoTrack, a.icon = 0.003, 1e7, false, true
	a.S["may"] = 1
	a.T.Distract *= 1.5
	for _, u := range []string{"/kis/res/base.css", "/kis/res/jquery-1.12.4.min.js", "/kis/res/kis.js", "/kis/res/icons.png"} {
		a.cache[u] = &entry{a.born, a.site.Get(&Req{Method: "GET", URL: u})}
	}
}

// logIn goes through the log-in if the session is over.
func (a *Agent) logIn() {
	if a.page().Kind != "login" {
		return
	}
	a.look(a.r.logN(6*math.Sqrt(a.T.Slow), 0.35), 1)
	if a.r.p(0.08) { // mistyped
		a.S["may"] = 0
		a.submit("POST", "/kis/login.do")
		a.look(a.r.logN(5, 0.4), 1)
		a.S["may"] = 1
	}
	a.submit("POST", "/kis/login.do")
	a.look(a.r.logN(2, 0.4), 1)
}

// to clicks an address of the application and logs in where needed.
func (a *Agent) to(uri string) {
	if a.page().URL == "" {
		a.goTo("/kis/", "")
		a.logIn()
	}
	a.click(Link{URL: uri, Kind: "link"})
	if a.page().Kind == "login" {
		a.logIn()
		a.click(Link{URL: uri, Kind: "link"})
	}
}

// shift works from hour to hour on the days of the log with a break.
func (a *Agent) shift(from, long float64, busy func()) {
	for d := -1; d < a.site.Days; d++ {
		start := a.at(d, from+a.r.NormFloat64()*0.15)
		stop := start + int64((long+a.r.NormFloat64()*0.3)*float64(hour))
		if stop < a.now || a.r.p(0.1) {
			continue
		}
		rest := start + int64(long*a.r.u(0.4, 0.6)*float64(hour))
		a.begin(max(start, a.now), func() {
			a.goTo("/kis/", "")
			a.logIn()
			for a.now < stop && a.now < a.end() {
				busy()
				if a.now > rest {
					a.wait(a.r.u(20, 45) * 60)
					rest = math.MaxInt64
				}
			}
			a.click(Link{URL: "/kis/logout.do", Kind: "link"})
		})
	}
}

// patient looks into a record and perhaps writes into it.
func (a *Agent) patient(look, write float64, tabs float64) {
	own := a.page().URL
	for range a.r.geo(tabs) {
		a.look(a.r.logN(look, a.T.SD), 1.5)
		switch {
		case a.r.p(write):
			a.look(a.r.logN(look*2.5, a.T.SD), 1)
			a.submit("POST", own+"/obs")
			a.logIn()
		case a.r.p(0.15):
			a.call("POST", "/kis/ajax/sign", "ajax")
		default:
			if !a.follow("related") {
				return
			}
			a.logIn()
		}
	}
	a.look(a.r.logN(look, a.T.SD), 1.5)
}

// nurse goes round the ward and writes down what was measured.
func nurse(from, long float64) func(*Agent) {
	return func(a *Agent) {
		a.staff()
		ward := a.Index % wards
		write := a.r.u(0.3, 0.6)
		a.shift(from, long, func() {
			a.wait(a.r.logN(1500*a.T.Slow, 0.9)) // at the beds
			a.to(a.site.List(ward, 1))
			a.look(a.r.logN(4, 0.5), 2)
			i := a.r.n(0, beds-8)
			for k := range a.r.geo(3.5) { // in order of the rooms
				ls := a.of("item")
				if len(ls) <= i+k {
					return
				}
				a.click(ls[i+k])
				a.logIn()
				a.patient(11*a.T.Slow, write, 1.7)
				a.to(a.site.List(ward, 1))
				a.look(a.r.logN(3, 0.5), 2)
			}
		})
	}
}

// doctor reads before the round and writes letters after it.
func doctor(a *Agent) {
	a.staff()
	a.shift(a.r.g(7.5, 0.4, 6.5), a.r.g(9.5, 0.8, 7), func() {
		if a.r.p(0.75) {
			a.wait(a.r.logN(1500, 0.8))
		}
		if a.r.p(0.5) {
			a.to("/kis/worklist")
		} else {
			a.to(a.site.List(a.Index%wards, 1))
		}
		for range a.r.geo(4) {
			a.look(a.r.logN(4*a.T.Slow, 0.6), 2)
			if !a.follow("item") {
				return
			}
			a.logIn()
			a.patient(22*a.T.Slow, 0.1, 3)
			if a.r.p(0.15) {
				a.look(a.r.logN(240, 0.8), 2)
				a.submit("POST", a.page().URL+"/letter")
				a.logIn()
			}
			if a.r.p(0.6) {
				a.back()
				a.logIn()
			} else {
				a.to("/kis/worklist")
			}
		}
	})
}

// desk admits people all day: search, record, save, print.
func frontDesk(a *Agent) {
	a.staff()
	a.shift(a.r.g(6.8, 0.5, 6), 8.3, func() {
		a.wait(a.r.exp(420))
		a.to("/kis/search")
		a.look(a.r.logN(6, 0.5), 1)
		a.to(a.site.Search(a.term()))
		a.look(a.r.logN(3, 0.5), 1)
		if !a.follow("item") {
			return
		}
		a.patient(20*a.T.Slow, 0.5, 2)
		if l, ok := a.choose(a.of("print")); ok && a.r.p(0.4) {
			a.newTab(l.URL, "")
			a.look(a.r.logN(8, 0.4), 1)
			a.closeTab()
		}
	})
}

// lab enters results, one record after another, fast.
func lab(a *Agent) {
	a.staff()
	a.T.SD = a.r.u(0.25, 0.5)
	beat := a.r.logN(22, 0.35)
	a.shift(a.r.g(7, 1.5, 5), 8, func() {
		a.to("/kis/worklist")
		ls := a.of("item")
		for _, l := range ls[:min(len(ls), a.r.n(4, 13))] {
			a.look(a.r.logN(2, 0.3), 1)
			a.click(l)
			a.logIn()
			own := a.page().URL
			a.look(a.r.logN(beat, a.T.SD), 1)
			a.submit("POST", own+"/labs")
			a.logIn()
			a.to("/kis/worklist")
		}
		a.wait(a.r.logN(2000, 0.7))
	})
}

// dispatcher keeps several windows open and looks from one to another.
func dispatcher(a *Agent) {
	a.staff()
	a.C = edge(138)
	a.S["always"] = 1
	a.shift(6, 12, func() {
		for len(a.tabs) < 3 {
			a.newTab(a.site.List(a.r.n(0, wards-1), 1), "")
			a.look(a.r.logN(3, 0.4), 1)
		}
		a.switchTo(pick(a.r, a.tabs))
		a.look(a.r.logN(70*a.T.Slow, 1), 2)
		switch {
		case a.r.p(0.25):
			a.reload()
		case a.r.p(0.3) && a.follow("item"):
			a.patient(8, 0.15, 2)
			a.back()
		}
	})
}

// wallBoard is a screen on a wall.
func wallBoard(a *Agent) {
	a.staff()
	a.C = pick(a.r, []*Client{chrome(linux, 109), firefox(linux, 115), edge(130)})
	a.cache = map[string]*entry{}
	a.goTo("/board/"+itoa(a.Index%wards), "")
	for a.now < a.end() {
		a.wait(a.r.u(4, 9) * 3600)
		a.reload()
	}
}

// shared is a terminal in a corridor that all use for a minute.
func shared(a *Agent) {
	a.staff()
	a.visits(a.r.u(14, 30), []float64{4, 3, 3, 3, 4, 6, 9, 10, 11, 11, 10, 9, 8, 9, 9, 8, 8, 8, 7, 7, 7, 6, 5, 4}, func() {
		a.T = traits(a.r) // another person each time
		a.goTo("/kis/", "")
		a.logIn()
		a.to(a.site.List(a.r.n(0, wards-1), 1))
		a.look(a.r.logN(4, 0.5), 2)
		if a.follow("item") {
			a.patient(7*a.T.Slow, 0.3, 2)
		}
		if a.r.p(0.5) {
			a.click(Link{URL: "/kis/logout.do", Kind: "link"})
		}
	})
}

// researcher leafs through the records of all wards.
func researcher(a *Agent) {
	a.staff()
	a.S["always"] = 1
	look := a.r.logN(9, 0.4)
	a.visits(1, workHours, func() {
		a.goTo(a.site.Item(a.r.n(0, a.site.Items/2)), "")
		for range a.r.n(50, 130) {
			a.look(a.r.logN(look, a.T.SD), 2)
			if a.r.p(0.5) {
				a.follow("related")
				a.look(a.r.logN(look, a.T.SD), 2)
			}
			if a.r.p(0.1) {
				a.wait(a.r.logN(120, 0.9))
			}
			if !a.follow("next") {
				return
			}
		}
	})
}

// occasional looks something up a few times a day.
func occasional(a *Agent) {
	a.staff()
	a.visits(a.r.u(1.5, 6), workHours, func() {
		a.goTo("/kis/", "")
		a.logIn()
		for range a.r.geo(2.5) {
			if a.r.p(0.5) {
				a.to(a.site.Search(a.term()))
			} else {
				a.to(a.site.List(a.r.n(0, wards-1), 1))
			}
			a.look(a.r.logN(8*a.T.Slow, 0.7), 2)
			if a.follow("item") {
				a.patient(18*a.T.Slow, 0.1, 2)
			}
		}
		if a.r.p(0.4) { // left open
			a.wait(a.r.logN(2400, 0.8))
		}
	})
}

// porter has a handheld that shows what is to be carried where.
func porter(a *Agent) {
	a.staff()
	a.C = android("K", 133)
	a.RTT, a.BW, a.Loss = 0.04, 500000, 0.02
	a.S["always"] = 1
	a.shift(pick(a.r, []float64{6, 7, 13}), 7.7, func() {
		a.to("/kis/worklist")
		a.look(a.r.logN(4, 0.5), 1)
		if a.r.p(0.7) && a.follow("item") {
			a.look(a.r.logN(6, 0.5), 1)
			a.call("POST", "/kis/ajax/sign", "ajax")
			a.sleep(a.r.logN(520*a.T.Slow, 0.6)) // on the way, screen off
			a.call("POST", "/kis/ajax/sign", "ajax")
			return
		}
		a.sleep(a.r.logN(240, 0.7))
	})
}
