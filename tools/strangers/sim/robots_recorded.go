package sim

// Replays of recorded sessions.

// record gathers the steps of sessions of a person that are in no log.
func record(s *Site, seed uint64, n int) []trace {
	var out []trace
	for i := range n {
		g := newAgent(s, newLog(), Subject{}, "ghost", i, seed)
		g.icon = true
		g.now = s.Start + hour
		var steps []step
		g.rec = &steps
		g.come()
		switch i % 3 {
		case 0:
			g.wander(1)
		case 1:
			for range g.r.n(3, 9) {
				g.read(0.8)
				if !g.follow("item") {
					break
				}
				g.read(0.9)
				g.back()
			}
		default:
			g.T.Tabs = 0.5
			g.wander(0.8)
			g.follow("list", "nav")
			g.wander(0.8)
		}
		out = append(out, trace{steps, g.C})
	}
	return out
}

// replay plays recorded sessions with noise; loose also changes the targets.
func replay(noise float64, loose bool) func(*Agent) {
	return func(a *Agent) {
		a.asBrowser(true)
		pool := *a.pool
		a.visits(a.r.u(0.8, 2), publicHours, func() {
			t := pool[a.r.n(0, len(pool)-1)]
			speed := a.r.logN(1, noise/2)
			for _, s := range t.steps {
				a.play(s, speed*a.r.logN(1, noise), loose)
			}
		})
	}
}

func (a *Agent) play(s step, f float64, loose bool) {
	switch s.op {
	case "goto":
		u := s.a
		if loose && a.r.p(0.7) && u != a.site.Home {
			u = a.site.Item(a.popular())
		}
		a.goTo(u, s.c)
	case "newtab":
		a.newTab(s.a, s.c)
	case "click", "behind":
		l := Link{URL: s.a, Kind: s.c, Pos: s.d}
		if ls := a.of(s.c); loose && len(ls) > 0 {
			l = ls[min(len(ls)-1, hn(len(ls), a.key, s.a))]
		}
		if s.op == "behind" {
			a.behind(l)
			return
		}
		a.click(l)
	case "back":
		a.back()
	case "reload":
		a.reload()
	case "switch":
		if i := int(s.d); i < len(a.tabs) {
			a.switchTo(a.tabs[i])
		}
	case "close":
		a.closeTab()
	case "wait":
		a.wait(s.d * f)
	case "look":
		a.look(s.d*f, s.e)
	case "call":
		a.call("GET", s.a, "json")
	}
}
