package traffic

import (
	"fmt"
	"math"
	"time"
)

// agentSorts are present-day robots. The held-out ones were chosen before anything was tuned.
func agentSorts() []sort {
	return []sort{
		{"log-normal", false, 25, logNormal},              // a browser that pauses log-normally and follows links at random
		{"sitemap", false, 20, sitemap},                   // a browser that opens a list of pages
		{"depth first", false, 20, depthFirst},            // a list, an item, back, the next
		{"app scraper", false, 5, appScraper},             // the app's API, by number
		{"checker", false, 40, checker},                   // tries accounts, from many addresses
		{"service", false, 300, scrapingService},          // a scraping service: each page from another household
		{"watchers", false, 150, watcher},                 // as many households, each looks at an item of its own again and again
		{"samplers", false, 120, sampler},                 // as many again, each with a list of its own, at odd times
		{"signer", false, 15, signer},                     // signs up again and again with a browser
		{"clicked by script", false, 20, clickedByScript}, // a browser whose links are clicked by a script, as WebDriver and extensions do
		{"intercepted", false, 20, intercepted},           // a browser whose requests a driver intercepts, which turns its cache off
		{"assistant", true, 20, assistant},                // a browser driven by a language model
		{"clicker", true, 20, clicker},                    // random clicks at exponential times
		{"breadth first", true, 20, breadthFirst},         // Firefox: a list, all its links in tabs, the next list
		{"imitator", true, 20, imitator},                  // long tails, goes back, rests: the hardest one
		{"in an extension", true, 20, inAnExtension},      // a language model in somebody's own browser, whose extension clicks
		{"script in page", true, 10, scriptInPage},        // a browser with one page, whose console asks for all data
		{"login browser", true, 20, loginBrowser},         // tries accounts with a browser
		{"price monitor", true, 200, priceMonitor},        // two hundred households, a few pages a day from each
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
	c.browser = tool("Accept-Encoding", "gzip", "Connection", "Keep-Alive", "User-Agent", "okhttp/4.12.0")
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
