package traffic

import (
	"math"
	"time"
)

// The held-out walkers and drivers, made by another scheme than the others: people are states that follow each other,
// robots are what their scripts do. Look at the results once, report them, and change nothing because of them.

// state is what a person is about: how long it takes, and what may come after it.
type state struct {
	median, spread float64 // seconds, of its logarithm
	stay           float64 // the chance of remaining in it
	then           []int
}

// moved walks through states: each load takes as long as its state says.
func moved(list []state) func(c *client) (now int, pause time.Duration) {
	at := 0
	return func(c *client) (int, time.Duration) {
		s := &list[at]
		d := seconds(min(max(s.median*math.Exp(s.spread*c.rng.NormFloat64()), 0.7), 1750))
		was := at
		if c.rng.Float64() > s.stay {
			at = s.then[c.rng.IntN(len(s.then))]
		}
		return was, d
	}
}

// inVisits prepares a client as somebody in so many visits; a visit ends after a number of pages.
func inVisits(w *world, c *client, visit float64, next func(w *world, c *client)) {
	w.guest(c)
	c.cookies = true
	comesAndGoes(c, visit, func(*client, string) time.Duration { return 0 }, entersByPeople, func(w *world, c *client, _ time.Duration) { next(w, c) })
}

// forager stays at a page with links as long as they yield, and then moves to another: information foraging.
func forager(w *world, c *client) {
	next := moved([]state{{6, 0.7, 0.6, []int{1}}, {30, 0.9, 0.4, []int{0, 0, 2}}, {240, 0.8, 0, []int{0}}})
	hub, yield := "", 0.0
	inVisits(w, c, 14, func(w *world, c *client) {
		host := "https://" + w.cfg.Host
		_, d := next(c)
		if hub == "" || yield < 0.25 || len(c.trail) < 2 {
			from := c.page
			hub, yield = c.pick(w, from), 0.5+0.5*c.rng.Float64()
			c.open(w, hub, host+from, d)
			c.enter(hub)
			return
		}
		yield *= 0.6 + 0.3*c.rng.Float64()
		c.open(w, c.pick(w, hub), host+hub, d)
		c.enter(c.page)
	})
}

// weigher looks at few things again and again, side by side.
func weigher(w *world, c *client) {
	next := moved([]state{{4, 0.6, 0.7, []int{1, 2}}, {22, 0.8, 0.5, []int{0}}, {90, 1, 0.2, []int{0, 1}}})
	var few []string
	inVisits(w, c, 18, func(w *world, c *client) {
		host := "https://" + w.cfg.Host
		now, d := next(c)
		if len(few) < 3 || now == 0 && len(few) < 8 && c.rng.IntN(2) == 0 {
			from := c.page
			page := c.pick(w, from)
			few = append(few, page)
			c.open(w, page, host+from, d)
		} else {
			c.open(w, few[c.rng.IntN(len(few))], host+few[0], d)
		}
		c.enter(c.page)
	})
}

// learner reads what follows, page after page, slowly; looks words up and comes back.
func learner(w *world, c *client) {
	next := moved([]state{{45, 0.8, 0.6, []int{1, 2}}, {9, 0.7, 0.3, []int{0}}, {400, 0.7, 0, []int{0}}})
	main := ""
	c.visit = 0
	inVisits(w, c, 10, func(w *world, c *client) {
		c.mind.first = 4
		now, d := next(c)
		if now == 1 && main != "" {
			c.open(w, c.pick(w, main), "https://"+w.cfg.Host+main, d)
			return
		}
		from := c.page
		if main != "" {
			from = main
		}
		main = c.pick(w, from)
		c.open(w, main, "https://"+w.cfg.Host+from, d)
		c.enter(main)
	})
}

// distracted looks at something else every few pages, and comes in again from elsewhere.
func distracted(w *world, c *client) {
	next := moved([]state{{8, 0.9, 0.5, []int{0, 1, 1, 2}}, {20, 1, 0.5, []int{0, 2}}, {500, 0.9, 0.1, []int{0, 1}}})
	inVisits(w, c, 8, func(w *world, c *client) {
		now, d := next(c)
		if now == 2 && c.rng.IntN(2) == 0 {
			c.open(w, w.place.entrance(c.rng), "https://www.google.com/", d)
		} else {
			from := c.page
			c.open(w, c.pick(w, from), "https://"+w.cfg.Host+from, d)
		}
		c.enter(c.page)
	})
}

// runs prepares a client as a browser that a script drives, in one or several runs.
func runs(w *world, c *client, next func(w *world, c *client)) {
	w.driven(c, [...]string{"chrome-150-windows", "chrome-142-windows", "firefox-144-mac"}[c.rng.IntN(3)])
	c.until = time.Time{}
	c.at = w.cfg.Begin.Add(c.between(0, 8*time.Hour))
	enter := func(w *world, c *client) { c.open(w, "/", "", 0) }
	comesAndGoes(c, 40, func(*client, string) time.Duration { return 0 }, enter, func(w *world, c *client, _ time.Duration) { next(w, c) })
}

// scripted scrolls down each page with a sleep at each screen, and clicks a link that it sees.
func scripted(w *world, c *client) {
	sleep, screens := 0.3+1.2*c.rng.Float64(), 1+c.rng.IntN(4)
	runs(w, c, func(w *world, c *client) {
		s := 1 + float64(c.sizes(c.page))/40000
		for range 1 + min(screens, c.sizes(c.page)/9000) {
			s += sleep * (0.5 + c.rng.Float64())
		}
		from := c.page
		c.open(w, c.pick(w, from), "https://"+w.cfg.Host+from, seconds(s+2*c.rng.Float64()))
	})
}

// frontier opens what promises most of all that it has seen: what is deep, and what it has met most often.
func frontier(w *world, c *client) {
	met, done := map[string]int{}, map[string]bool{}
	load, wait := 0.5+c.rng.Float64(), 1+6*c.rng.Float64()
	runs(w, c, func(w *world, c *client) {
		best, found := "/", -1
		for _, l := range w.place.links(nil, c.page) {
			met[l]++
		}
		for l, n := range met {
			if v := n*8 + len(l); !done[l] && (v > found || v == found && l < best) {
				best, found = l, v
			}
		}
		done[best] = true
		c.open(w, best, "", seconds(load*(1+c.rng.ExpFloat64())+wait*(0.8+0.4*c.rng.Float64())))
	})
}

// surfing follows links and jumps to a random page with the chance of the random surfer; it sleeps at random.
func surfing(w *world, c *client) {
	low, high := 2+3*c.rng.Float64(), 8+30*c.rng.Float64()
	runs(w, c, func(w *world, c *client) {
		d := seconds(low + (high-low)*math.Pow(c.rng.Float64(), 2))
		if c.rng.Float64() < 0.15 {
			c.open(w, w.place.item(c.rng.IntN(w.place.items)), "", d)
			return
		}
		from := c.page
		c.open(w, c.pick(w, from), "https://"+w.cfg.Host+from, d)
	})
}

// tasked is driven by a language model: it thinks for as long as the page is, goes to what its task names, returns to the
// list, and waits longer when the model is busy.
func tasked(w *world, c *client) {
	speed, task := 0.6+0.8*c.rng.Float64(), 0
	runs(w, c, func(w *world, c *client) {
		think := speed * (2 + math.Log(1+float64(c.sizes(c.page))/3000)) * math.Exp(0.25*c.rng.NormFloat64())
		if c.rng.IntN(12) == 0 {
			think += 10 * c.rng.Float64()
		}
		host := "https://" + w.cfg.Host
		if task++; task%5 == 0 {
			c.open(w, w.place.list(c.number+task/5), host, seconds(think))
			return
		}
		from := c.page
		links := w.place.links(nil, from)
		c.open(w, links[(task*7+c.number)%len(links)], host+from, seconds(think))
	})
}

// recorded plays the times of a person on twenty pages again and again, on other pages and a little faster or slower.
func recorded(w *world, c *client) {
	next := moved([]state{{7, 0.8, 0.6, []int{1}}, {30, 0.8, 0.4, []int{0, 0, 2}}, {120, 0.8, 0, []int{0}}})
	tape, at := make([]time.Duration, 20), 0
	for i := range tape {
		_, tape[i] = next(c)
	}
	runs(w, c, func(w *world, c *client) {
		at++
		from := c.page
		c.open(w, c.pick(w, from), "https://"+w.cfg.Host+from, time.Duration(float64(tape[at%len(tape)])*(0.7+0.3*c.rng.Float64())))
	})
}
