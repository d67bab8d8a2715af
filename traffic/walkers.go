package traffic

import (
	"math"
	"slices"
	"time"
)

// Walkers are people, and Drivers robots in browsers, of whom a site sees ten to a hundred pages each: as many of the one
// as of the other, nobody known from before. They differ in how they are made, not in habits: every way of pausing meets
// every way of going on. They take part only if requested, and appear in no table of a day.
const (
	Walkers Kind = "walkers"
	Drivers Kind = "drivers"
)

// walkerSorts are people by the way in which they go on; how they pause changes from one to the next.
func walkerSorts() []sort {
	return []sort{
		{"with a goal", false, 16, walker(seeks)},
		{"in tabs", false, 16, walker(opensTabs)},
		{"back and forth", false, 16, walker(goesBack)},
		{"wandering", false, 16, walker(wanders)},
		{"by favourites", false, 16, walker(favours)},
		{"one after the other", false, 16, walker(reads)},
		{"foraging", true, 20, forager},
		{"comparing", true, 20, weigher},
		{"learning", true, 20, learner},
		{"distracted", true, 20, distracted},
	}
}

// driverSorts are robots by the way in which they pause; how they go on changes from one to the next.
func driverSorts() []sort {
	return []sort{
		{"exponential", false, 14, driver(exponential)},
		{"uniform", false, 14, driver(uniform)},
		{"narrow", false, 14, driver(narrow)},
		{"wide", false, 14, driver(wide)},
		{"gamma", false, 14, driver(gammaPauses)},
		{"two speeds", false, 14, driver(twoSpeeds)},
		{"shuffled gaps", false, 14, driver(shuffledGaps)},
		{"scripted", true, 20, scripted},
		{"frontier", true, 20, frontier},
		{"surfing", true, 20, surfing},
		{"tasked", true, 20, tasked},
		{"recorded", true, 20, recorded},
	}
}

func (w *world) addWalkers() { w.addSorts(Walkers, walkerSorts()) }

func (w *world) addDrivers() { w.addSorts(Drivers, driverSorts()) }

type (
	dwell func(c *client, page string) time.Duration
	// way plans the next load of a client that has a page, after a pause.
	way func(w *world, c *client, pause time.Duration)
)

// most is how many pages a client loads: 10 to 100, few more often than many.
func (c *client) most() int { return int(10 * math.Pow(10, c.rng.Float64())) }

// comesAndGoes lets a client load so many pages in several visits, and then leave for good.
func comesAndGoes(c *client, visit float64, pause dwell, enter func(w *world, c *client), next way) {
	left, here := c.most(), 0
	c.act = func(w *world, c *client) {
		switch {
		case left <= 0:
			c.gone = true
		case here <= 0:
			if c.count > 0 {
				c.rest()
			}
			here = 1 + int(c.rng.ExpFloat64()*visit)
			c.trail = c.trail[:0]
			enter(w, c)
			c.enter(c.page)
			left, here = left-1, here-1
		default:
			had := c.count
			next(w, c, pause(c, c.page))
			left, here = left-(c.count-had), here-1
		}
	}
}

// walker is a person who goes on in one way.
func walker(next way) func(w *world, c *client) {
	return func(w *world, c *client) {
		w.guest(c)
		c.cookies = true
		paces := [...]func(c *client) dwell{weibull, customer, moody, bySize}
		c.at = c.at.Add(c.between(0, 3*time.Hour))
		comesAndGoes(c, 6+20*c.rng.Float64(), paces[c.number%len(paces)](c), entersByPeople, next)
	}
}

func entersByPeople(w *world, c *client) {
	ref := [...]string{"", "https://www.google.com/", "https://www.google.com/", "https://news.example/"}[c.rng.IntN(4)]
	c.open(w, w.place.entrance(c.rng), ref, 0)
}

// weibull, customer, moody and bySize are how people pause.
func weibull(c *client) dwell { return reader(c).pause }

func customer(c *client) dwell {
	scale, spread := 25*math.Exp(0.6*c.rng.NormFloat64()), 0.85*math.Exp(0.3*c.rng.NormFloat64())
	return func(c *client, _ string) time.Duration {
		return seconds(min(max(scale*math.Exp(spread*c.rng.NormFloat64()), 1), 1500))
	}
}

// moody has times of hurry and times of leisure, and is called away now and then.
func moody(c *client) dwell {
	mood, middle := 0.0, math.Log(14)+0.5*c.rng.NormFloat64()
	return func(c *client, _ string) time.Duration {
		mood = 0.7*mood + 0.6*c.rng.NormFloat64()
		s := math.Exp(middle + mood + 0.3*c.rng.NormFloat64())
		if c.rng.IntN(25) == 0 {
			s += 60 + 600*c.rng.Float64()
		}
		return seconds(max(s, 0.8))
	}
}

// bySize skims short pages, and reads some of the long ones.
func bySize(c *client) dwell {
	pace := 0.4 + 0.6*c.rng.Float64() // of a second for a kilobyte
	return func(c *client, page string) time.Duration {
		if c.rng.IntN(2) == 0 {
			return seconds(2 + 5*c.rng.ExpFloat64())
		}
		return seconds(2 + float64(c.sizes(page))/1000*pace*math.Exp(0.5*c.rng.NormFloat64()))
	}
}

// seeks follows links to a thing, looks for it, and leaves.
func seeks(w *world, c *client, pause time.Duration) {
	c.mind.first = 2.5
	from := c.page
	c.open(w, c.pick(w, from), "https://"+w.cfg.Host+from, pause)
	c.enter(c.page)
	if c.rng.IntN(9) == 0 && len(c.trail) > 2 { // it was the wrong one
		c.page = c.trail[len(c.trail)-3]
		c.enter(c.page)
	}
}

// opensTabs opens several links, and goes on from one of them or from where it was.
func opensTabs(w *world, c *client, pause time.Duration) {
	from := c.page
	for range 1 + c.rng.IntN(5) {
		c.open(w, c.pick(w, from), "https://"+w.cfg.Host+from, pause)
		c.enter(c.page)
		pause = c.between(600*time.Millisecond, 4*time.Second)
	}
	c.page = c.trail[len(c.trail)-1-c.rng.IntN(min(len(c.trail), 4))]
}

// goesBack goes back to the page with the links, which the browser mostly has, and takes another.
func goesBack(w *world, c *client, pause time.Duration) {
	host := "https://" + w.cfg.Host
	if n := len(c.trail); n > 1 && c.rng.IntN(3) > 0 {
		c.trail = c.trail[:n-1]
		c.page = c.trail[n-2]
		if c.rng.IntN(4) == 0 {
			c.open(w, c.page, host, pause)
		}
		pause += seconds(1 + 4*c.rng.ExpFloat64())
	}
	from := c.page
	c.open(w, c.pick(w, from), host+from, pause)
	c.enter(c.page)
}

// wanders follows links, goes back, reloads and begins anew.
func wanders(w *world, c *client, pause time.Duration) {
	host := "https://" + w.cfg.Host
	switch c.rng.IntN(10) {
	case 0:
		entersByPeople(w, c)
		c.plan[len(c.plan)-1].after += pause
	case 1:
		c.open(w, c.page, host+c.page, pause)
	case 2, 3:
		c.page = c.trail[c.rng.IntN(len(c.trail))]
		c.open(w, c.page, host, pause)
	default:
		from := c.page
		c.open(w, c.pick(w, from), host+from, pause)
	}
	c.enter(c.page)
}

// favours comes back to the same few pages, and follows a link from there.
func favours(w *world, c *client, pause time.Duration) {
	host := "https://" + w.cfg.Host
	if c.rng.IntN(3) == 0 {
		c.open(w, w.place.item(c.number*7+popular(c.rng, 5)), host+"/", pause)
	} else {
		from := c.page
		c.open(w, c.pick(w, from), host+from, pause)
	}
	c.enter(c.page)
}

// reads follows the first links, page after page.
func reads(w *world, c *client, pause time.Duration) {
	c.mind.first = 6
	from := c.page
	c.open(w, c.pick(w, from), "https://"+w.cfg.Host+from, pause)
	c.enter(c.page)
}

// driver is a robot in a browser that pauses in one way.
func driver(pace func(c *client) dwell) func(w *world, c *client) {
	return func(w *world, c *client) {
		w.driven(c, [...]string{"chrome-150-windows", "chrome-150-mac", "firefox-144-windows"}[c.rng.IntN(3)])
		c.until = time.Time{}
		c.at = w.cfg.Begin.Add(c.between(0, 6*time.Hour))
		ways := [...]func(w *world, c *client) way{linkByLink, backAtRandom, broad, listed, shuffled, popularFirst}
		enter := entersByPeople
		if c.rng.IntN(2) == 0 {
			enter = func(w *world, c *client) { c.open(w, "/", "", 0) }
		}
		comesAndGoes(c, 15+60*c.rng.Float64(), pace(c), enter, ways[c.number%len(ways)](w, c))
	}
}

// exponential and those after it are how robots pause.
func exponential(c *client) dwell {
	mean, least := 4+20*c.rng.Float64(), 0.5+2*c.rng.Float64()
	return func(c *client, _ string) time.Duration { return seconds(least + mean*c.rng.ExpFloat64()) }
}

func uniform(c *client) dwell {
	least := 1 + 8*c.rng.Float64()
	most := least * (1.5 + 6*c.rng.Float64())
	return func(c *client, _ string) time.Duration { return seconds(least + (most-least)*c.rng.Float64()) }
}

func narrow(c *client) dwell { return pausing(3+15*c.rng.Float64(), 0.1+0.35*c.rng.Float64()) }

func wide(c *client) dwell {
	median, spread := 4+8*c.rng.Float64(), 1.5+0.7*c.rng.Float64()
	return func(c *client, _ string) time.Duration {
		return seconds(min(0.5+median*math.Exp(spread*c.rng.NormFloat64()), 1700))
	}
}

func gammaPauses(c *client) dwell {
	mean, shape := 4+16*c.rng.Float64(), 2+c.rng.IntN(4)
	return func(c *client, _ string) time.Duration {
		s := 0.0
		for range shape {
			s += c.rng.ExpFloat64()
		}
		return seconds(0.5 + mean*s/float64(shape))
	}
}

func twoSpeeds(c *client) dwell {
	short, long := 1+3*c.rng.Float64(), 10+30*c.rng.Float64()
	return func(c *client, _ string) time.Duration {
		s := short
		if c.rng.IntN(3) == 0 {
			s = long
		}
		return seconds(s * (0.7 + 0.6*c.rng.Float64()))
	}
}

// shuffledGaps has the times of people, in no order.
func shuffledGaps(c *client) dwell {
	list := []func(c *client) dwell{weibull, customer, bySize}
	return list[c.rng.IntN(len(list))](c)
}

func linkByLink(*world, *client) way {
	return func(w *world, c *client, pause time.Duration) {
		from := c.page
		c.open(w, c.pick(w, from), "https://"+w.cfg.Host+from, pause)
		c.enter(c.page)
	}
}

// backAtRandom presses the button now and then; what the browser has is not requested.
func backAtRandom(*world, *client) way {
	step := linkByLink(nil, nil)
	return func(w *world, c *client, pause time.Duration) {
		if n := len(c.trail); n > 1 && c.rng.IntN(5) == 0 {
			c.trail = c.trail[:n-1]
			if c.page = c.trail[n-2]; c.rng.IntN(2) == 0 {
				c.open(w, c.page, "https://"+w.cfg.Host, pause)
				return
			}
		}
		step(w, c, pause)
	}
}

// broad opens whatever it has found, in the order of finding.
func broad(*world, *client) way {
	var queue []string
	seen := map[string]bool{}
	return func(w *world, c *client, pause time.Duration) {
		for _, l := range w.place.links(nil, c.page) {
			if !seen[l] {
				seen[l] = true
				queue = append(queue, l)
			}
		}
		if len(queue) == 0 {
			queue = append(queue, "/")
		}
		c.open(w, queue[0], "", pause)
		queue = queue[1:]
	}
}

// listed clicks the items of a list one by one, and goes back to it each time.
func listed(_ *world, c *client) way {
	k, i := c.rng.IntN(40), 0
	return func(w *world, c *client, pause time.Duration) {
		host := "https://" + w.cfg.Host
		links := w.place.links(nil, w.place.list(k))
		if i++; i >= min(len(links), 12) {
			k, i = k+1, 0
			c.open(w, w.place.list(k), host+w.place.list(k-1), pause)
			return
		}
		c.open(w, links[i], host+w.place.list(k), pause)
		if c.rng.IntN(2) == 0 {
			c.open(w, w.place.list(k), host+links[i], pause/2)
		}
	}
}

// shuffled opens a list of items in any order.
func shuffled(w *world, c *client) way {
	first, n := c.rng.IntN(w.place.items), 0
	order := c.rng.Perm(200)
	return func(w *world, c *client, pause time.Duration) {
		c.open(w, w.place.item(first+order[n%len(order)]), "", pause)
		n++
	}
}

// popularFirst opens what is popular, again and again.
func popularFirst(w *world, c *client) way {
	list := slices.Clone(w.place.links(nil, w.place.list(c.rng.IntN(10))))
	return func(w *world, c *client, pause time.Duration) {
		c.open(w, list[popular(c.rng, len(list))], "", pause)
	}
}
