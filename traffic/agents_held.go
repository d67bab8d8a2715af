package traffic

import (
	"fmt"
	"math"
	"time"
)

// The behaviour of the held-out agents. Look at the results, and change nothing because of them.

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
