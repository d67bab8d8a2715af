package traffic

import (
	"math"
	"time"
)

// What a page is opened by shows in its request: Chromium and Firefox send Sec-Fetch-User with a link that somebody has clicked or pressed Enter on, also if a
// driver does so by events of its input (chromedp, puppeteer, playwright and WebDriver, which say so of scripts in their own name, too), and none with one that a
// script clicks, as WebDriver's scripts and those of extensions do. Whoever intercepts requests with playwright has the cache turned off, and Pragma
// in each request. So it was seen with Chromium 156, Firefox 153, playwright 1, puppeteer and Selenium.

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

// byVoice is somebody who says which link to click: an extension of the browser clicks it.
func byVoice(w *world, c *client) {
	w.guest(c)
	w.choose(c, func(b *browser) bool { return b.family != webkit && b.name != "tor-14-mac" })
	c.scripted = true
	pause := c.mind.pause
	c.mind.pause = func(c *client, page string) (d time.Duration) { // it takes a while to be understood
		return pause(c, page) + seconds(2+math.Exp(0.6*c.rng.NormFloat64()))
	}
}

// toolsOpen is somebody whose browser keeps nothing while its tools for developers are open.
func toolsOpen(w *world, c *client) {
	w.guest(c)
	w.choose(c, func(b *browser) bool { return b.family == chromium && !b.mobile })
	c.cookies, c.uncached = true, true
	c.act = func(w *world, c *client) {
		clear(c.cached)
		stroll(w, c)
	}
}
