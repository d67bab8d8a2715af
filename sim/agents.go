package main

import (
	"fmt"
	"math"
	"time"
)

// agentSorts are present-day robots.
func agentSorts() []sort {
	return []sort{
		{"log-normal", 25, logNormal},              // a browser that pauses log-normally and follows links at random
		{"sitemap", 20, sitemap},                   // a browser that opens a list of pages
		{"depth first", 20, depthFirst},            // a list, an item, back, the next
		{"app scraper", 5, appScraper},             // the app's API, by number
		{"checker", 40, checker},                   // tries accounts, from many addresses
		{"service", 300, scrapingService},          // a scraping service: each page from another household
		{"watchers", 150, watcher},                 // as many households, each looks at an item of its own again and again
		{"samplers", 120, sampler},                 // as many again, each with a list of its own, at odd times
		{"signer", 15, signer},                     // signs up again and again with a browser
		{"clicked by script", 20, clickedByScript}, // a browser whose links are clicked by a script, as WebDriver and extensions do
		{"intercepted", 20, intercepted},           // a browser whose requests a driver intercepts, which turns its cache off
		{"assistant", 20, assistant},               // a browser driven by a language model
		{"clicker", 20, clicker},                   // random clicks at exponential times
		{"breadth first", 20, breadthFirst},        // Firefox: a list, all its links in tabs, the next list
		{"imitator", 20, imitator},                 // long tails, goes back, rests: the hardest one
		{"in an extension", 20, inAnExtension},     // a language model in somebody's own browser, whose extension clicks
		{"script in page", 10, scriptInPage},       // a browser with one page, whose console asks for all data
		{"login browser", 20, loginBrowser},        // tries accounts with a browser
		{"price monitor", 200, priceMonitor},       // two hundred households, a few pages a day from each
	}
}

func (w *world) addAgents() { w.addSorts(Agents, agentSorts()) }

// driven equips a client as a browser driven by a program.
func (w *world) driven(c *client, name string) {
	c.browser = w.named(name)
	c.until = w.cfg.Begin.Add(10 * time.Hour)
	c.mind = &mind{first: 1, inTabs: 2, pages: 40, quiet: true}
}

// pausing is a duration with the given median and spread of its logarithm.
func pausing(median, spread float64) func(c *client, _ string) time.Duration {
	return func(c *client, _ string) time.Duration {
		return seconds(0.8 + median*math.Exp(spread*c.rng.NormFloat64()))
	}
}

func logNormal(w *world, c *client) {
	w.driven(c, "chrome-150-windows")
	c.mind.pause = pausing(4+14*c.rng.Float64(), 0.3+0.4*c.rng.Float64())
	c.mind.back = 0.1 * c.rng.Float64()
	c.act = roam
}

// roam follows links without end.
func roam(w *world, c *client) {
	if c.count == 0 {
		c.arrive(w)
	}
	c.visit = 10
	stroll(w, c)
}

func sitemap(w *world, c *client) {
	w.driven(c, [...]string{"chrome-150-mac", "firefox-144-windows"}[c.number%2])
	n := c.rng.IntN(w.place.items)
	least := seconds(2 + 6*c.rng.Float64())
	c.act = func(w *world, c *client) {
		n++
		c.open(w, w.place.item(n), "", c.between(least, 3*least))
	}
}

func depthFirst(w *world, c *client) {
	w.driven(c, "chrome-150-windows")
	k, i := c.rng.IntN(40), 0
	mean := 3 + 8*c.rng.Float64()
	pause := func() time.Duration { // gamma with a shape of 4
		s := 0.0
		for range 4 {
			s += c.rng.ExpFloat64()
		}
		return seconds(0.5 + mean*s/4)
	}
	c.act = func(w *world, c *client) {
		host := "https://" + w.cfg.Host
		links := w.place.links(nil, w.place.list(k))
		if i++; i >= min(len(links), 14) {
			k, i = k+1, 1
			c.open(w, w.place.list(k), host+w.place.list(k-1), pause())
			return
		}
		c.open(w, links[i], host+w.place.list(k), pause())
		c.open(w, w.place.list(k), host+"/", pause())
	}
}

func appScraper(w *world, c *client) {
	c.browser = androidApp
	c.cookies = false
	n := c.number * 500
	c.act = func(_ *world, c *client) {
		n++
		c.then(planned{path: fmt.Sprintf("/api/item/%d", n), dest: destFetch, after: c.between(time.Second, 3*time.Second)})
	}
}

func checker(w *world, c *client) {
	c.browser, c.cookies = w.named("chrome-142-windows"), c.number%2 == 0
	c.act = func(w *world, c *client) {
		c.then(planned{path: "/login", dest: destPage, after: c.between(20*time.Second, 60*time.Second)})
		c.then(planned{path: "/login?login", ref: "https://" + w.cfg.Host + "/login", dest: destPage, post: true, after: c.between(time.Second, 2*time.Second)})
	}
	c.until = w.cfg.Begin.Add(6 * time.Hour)
}

// watcher is one address of many that share the items of the site among them, and come back by the clock.
func watcher(w *world, c *client) {
	c.browser, c.cookies = w.named("chrome-142-windows"), c.number%3 > 0
	every := c.between(2*time.Hour, 6*time.Hour)
	c.at = w.cfg.Begin.Add(c.between(0, every))
	mine := c.rng.IntN(w.place.items)
	c.act = func(w *world, c *client) {
		var after time.Duration
		if c.count > 0 {
			after = every + c.between(-10*time.Minute, 10*time.Minute)
		}
		c.open(w, w.place.item(mine+c.count%2), "", after)
	}
}

// scrapingService is one address of a service: each page of a job comes from another address, with a fresh browser.
func scrapingService(w *world, c *client) {
	n := 3 + c.rng.IntN(5)
	c.at = w.cfg.Begin.Add(c.between(0, 6*time.Hour))
	c.act = func(w *world, c *client) {
		if n--; n < 0 {
			c.gone = true
			return
		}
		c.forgets()
		c.open(w, w.place.item(c.rng.IntN(w.place.items)), "https://www.google.com/", c.between(10*time.Second, 12*time.Minute))
	}
}

// assistant is a browser driven by a language model: it thinks as long as the model does, and goes straight to the
// point.
func assistant(w *world, c *client) {
	w.driven(c, "chrome-150-mac")
	mean := 3 + 5*c.rng.Float64()
	c.mind.pause = func(c *client, _ string) time.Duration {
		s := mean * (0.6 + 0.8*c.rng.Float64())
		if c.rng.IntN(15) == 0 { // a long answer
			s *= 3
		}
		return seconds(s)
	}
	c.mind.back, c.mind.first, c.mind.pages = 0.08, 1.5, 25
	c.act = func(w *world, c *client) {
		if c.visit <= 0 { // the next task, in a new profile
			c.iCookie, c.session, c.count = "", "", 1
			clear(c.cached)
			c.wait(c.between(time.Minute, 20*time.Minute))
			c.arrive(w)
			c.visit = 12 + c.rng.IntN(40)
			return
		}
		stroll(w, c)
	}
}

func clicker(w *world, c *client) {
	w.driven(c, "chrome-142-windows")
	mean := 5 + 10*c.rng.Float64()
	c.mind.pause = func(c *client, _ string) time.Duration { return seconds(2 + mean*c.rng.ExpFloat64()) }
	c.mind.back, c.mind.quiet = 0.2, false
	c.act = roam
}

func breadthFirst(w *world, c *client) {
	w.driven(c, "firefox-144-mac")
	k := c.rng.IntN(40)
	spread := 0.4 + 0.5*c.rng.Float64()
	pause := pausing(8, spread)
	c.act = func(w *world, c *client) {
		host := "https://" + w.cfg.Host
		list := w.place.list(k)
		c.open(w, list, host+"/", pause(c, ""))
		for _, page := range w.place.links(nil, list) {
			c.open(w, page, host+list, pause(c, ""))
		}
		k++
	}
}

// imitator is a robot whose author has measured people: heavy tails, steps back, several tabs, rests at night.
func imitator(w *world, c *client) {
	w.driven(c, "chrome-150-windows")
	c.until = time.Time{}
	median := 8 + 10*c.rng.Float64()
	c.mind.pause = func(c *client, _ string) time.Duration {
		return seconds(min(max(median*math.Exp(c.rng.NormFloat64()), 1), 600))
	}
	c.mind.back, c.mind.branch, c.mind.pages = 0.15, 0.1, 30
	c.act = stroll
}

func scriptInPage(w *world, c *client) {
	w.driven(c, "chrome-150-windows")
	n := c.number * 300
	c.act = func(w *world, c *client) {
		if c.page == "" {
			c.open(w, "/", "", 0)
		}
		n++
		c.then(planned{path: fmt.Sprintf("/api/item/%d", n), ref: "https://" + w.cfg.Host + "/", dest: destFetch, after: c.between(700*time.Millisecond, 2500*time.Millisecond)})
	}
}

func loginBrowser(w *world, c *client) {
	w.driven(c, "chrome-150-windows")
	pause := pausing(6, 0.3)
	c.act = func(w *world, c *client) {
		c.iCookie, c.session = "", ""
		clear(c.cached)
		c.open(w, "/login", "", pause(c, "")+c.between(0, 40*time.Second))
		c.then(planned{path: "/login?login", ref: "https://" + w.cfg.Host + "/login", dest: destPage, post: true, after: pause(c, "")})
	}
}

// priceMonitor looks at the same things every day, each address at its own set.
func priceMonitor(w *world, c *client) {
	c.browser, c.cookies = w.named("chrome-150-windows"), c.number%2 == 0
	c.at = w.cfg.Begin.Add(c.between(0, 24*time.Hour))
	mine := c.rng.IntN(w.place.items)
	c.act = func(w *world, c *client) {
		var after time.Duration
		if c.count > 0 {
			after = c.between(7*time.Hour, 9*time.Hour)
		}
		c.open(w, w.place.item(mine+c.count%3), "https://www.google.com/", after)
	}
}

// clickedByScript is a browser that goes about like a person, by scripts of a driver.
func clickedByScript(w *world, c *client) {
	w.driven(c, [...]string{"chrome-150-windows", "firefox-144-windows", "chrome-150-mac"}[c.number%3])
	c.scripted = true
	c.mind.pause = pausing(5+12*c.rng.Float64(), 0.7+0.5*c.rng.Float64())
	c.mind.back = 0.2 * c.rng.Float64()
	c.act = roam
}

// intercepted is a browser that goes about like a person, and loads no pictures.
func intercepted(w *world, c *client) {
	w.driven(c, [...]string{"chrome-150-windows", "chrome-150-mac"}[c.number%2])
	c.uncached = true
	c.only = func(d dest) bool { return d != destImage && d != destFont }
	c.mind.pause = pausing(5+12*c.rng.Float64(), 0.7+0.5*c.rng.Float64())
	c.mind.back = 0.2 * c.rng.Float64()
	c.act = func(w *world, c *client) {
		clear(c.cached)
		roam(w, c)
	}
}

// inAnExtension is a language model that does a task in a browser which somebody has used for long: it reads a page as fast as the model does, and takes
// the links that the task needs.
func inAnExtension(w *world, c *client) {
	w.driven(c, "chrome-150-mac")
	c.scripted = true
	mean := 4 + 8*c.rng.Float64()
	c.mind.pause = func(c *client, _ string) time.Duration {
		return seconds(1.5 + mean*c.rng.ExpFloat64()*(0.5+c.rng.Float64()))
	}
	c.mind.back, c.mind.first, c.mind.pages = 0.15, 1.3, 20
	c.act = func(w *world, c *client) {
		if c.visit <= 0 && c.count > 0 {
			c.wait(c.between(5*time.Minute, 40*time.Minute))
			c.count = 0
			return
		}
		stroll(w, c)
	}
}

// sampler is one address of many: twice a day or so it looks at one thing of a list that is its own.
func sampler(w *world, c *client) {
	c.browser, c.cookies = w.named("firefox-144-windows"), c.number%2 == 0
	c.at = w.cfg.Begin.Add(c.between(0, 12*time.Hour))
	first := c.rng.IntN(w.place.items)
	ref := [...]string{"https://www.google.com/", ""}[c.number%4/2]
	c.act = func(w *world, c *client) {
		var after time.Duration
		if c.count > 0 {
			after = c.between(3*time.Hour, 15*time.Hour)
		}
		c.open(w, w.place.item(first+17*c.count), ref, after)
	}
}

// signer signs up again and again, each time with a new profile; the site takes no offence.
func signer(w *world, c *client) {
	w.driven(c, "firefox-144-windows")
	c.act = func(w *world, c *client) {
		c.iCookie, c.session = "", ""
		clear(c.cached)
		c.open(w, "/login", "", c.between(15*time.Second, 3*time.Minute))
		c.then(planned{path: "/login?join", ref: "https://" + w.cfg.Host + "/login", dest: destPage, post: true, after: c.between(5*time.Second, 25*time.Second)})
	}
}
