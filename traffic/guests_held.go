package traffic

import (
	"fmt"
	"math"
	"net/netip"
	"time"
)

// The behaviour of the held-out guests. Look at the results, and change nothing because of them.

func stranger(w *world, c *client) {
	w.guest(c)
	scale, spread := 9*math.Exp(0.6*c.rng.NormFloat64()), 0.9+0.7*c.rng.Float64()
	c.mind.pause = func(c *client, _ string) time.Duration {
		return seconds(min(max(scale*math.Exp(spread*c.rng.NormFloat64()), 0.4), 2400))
	}
	c.mind.pages, c.mind.first = 3+30*c.rng.Float64(), 1
}

// feedArrival opens articles from a feed reader: nothing shows where they come from.
func feedArrival(w *world, c *client) {
	w.guest(c)
	c.act = func(w *world, c *client) {
		if c.visit <= 0 {
			c.begins(1, 6)
		}
		c.visit--
		ref := ""
		if c.number%3 == 0 {
			ref = "https://reader.example/"
		}
		c.open(w, w.place.item(w.cfg.Begin.Day()*40+c.rng.IntN(40)), ref, c.mind.pause(c, "/"))
	}
}

func beacons(w *world, c *client) {
	w.guest(c)
	c.mind.every, c.mind.most = 12*time.Second, 10*time.Minute
	c.mind.ask = planned{path: "/beacon", dest: destBeacon, post: true}
}

// translated pages come through the translator, their parts directly from the reader.
func translated(w *world, c *client) {
	w.guest(c)
	c.cookies, c.noReferer = false, true
	c.relayed(string(c.value("User-Agent"))+",gzip(gfe)", [4]byte{74, 125, 210, 0}, 12)
}

// archive reads copies of the pages elsewhere, whose parts are loaded from here.
func archive(w *world, c *client) {
	w.guest(c)
	c.act = func(w *world, c *client) {
		if c.visit <= 0 {
			c.begins(2, 8)
			return
		}
		c.visit--
		page := c.pick(w, "/")
		if c.rng.IntN(5) == 0 {
			c.open(w, page, "https://web.archive.org/", c.mind.pause(c, page))
			return
		}
		c.wait(c.mind.pause(c, page))
		for _, p := range w.place.parts(page) {
			p.ref, p.after = "https://web.archive.org/web/2026/https://"+w.cfg.Host+page, c.between(5*time.Millisecond, 60*time.Millisecond)
			c.then(p)
		}
	}
}

// queue waits on a page that reloads itself, and then is in a hurry.
func queue(w *world, c *client) {
	w.guest(c)
	c.at = w.someTime(c, 9, 10).Add(time.Duration(c.number%3) * 24 * time.Hour)
	hurry := c.mind.pause
	c.mind.pause = func(c *client, page string) time.Duration { return hurry(c, page) / 4 }
	c.act = func(w *world, c *client) {
		if c.visit > 0 {
			stroll(w, c)
			return
		}
		if c.count > 0 {
			c.rest()
		}
		id := c.rng.IntN(1e6)
		page := fmt.Sprintf("/queue?place=%d", id)
		ref := ""
		for range 20 + c.rng.IntN(60) {
			c.open(w, page, ref, 20*time.Second)
			ref = "https://" + w.cfg.Host + page
		}
		c.visit, c.trail = 5+c.rng.IntN(10), append(c.trail[:0], "/")
		c.open(w, "/", ref, 2*time.Second)
	}
}

// scannerAddr is the address of a company's link scanner.
func scannerAddr(c *client) netip.Addr {
	return netip.AddrFrom4([4]byte{40, 94, 104, byte(10 + c.number%6)})
}

// scanned opens links from mails, after the scanner has.
func scanned(w *world, c *client) {
	w.guest(c)
	c.act = func(w *world, c *client) {
		if c.visit > 0 {
			stroll(w, c)
			return
		}
		if c.count > 0 {
			c.rest()
		}
		c.count++
		page := w.place.entrance(c.rng)
		c.then(planned{path: page, dest: destPage, scan: true})
		c.open(w, page, "", c.between(2*time.Second, 20*time.Second))
		c.visit, c.trail = 1+int(c.rng.ExpFloat64()*4), append(c.trail[:0], page)
	}
}

// uncached keeps no parts of pages: developers whose tools forbid it, and the people of a company whose proxy does.
func uncached(w *world, c *client) {
	w.guest(c)
	c.cookies = true
	if c.number%2 == 0 {
		c.browser = w.named("chrome-150-windows")
		c.address = fixed(netip.AddrFrom4([4]byte{192, 0, 2, 140}))
	}
	c.act = func(w *world, c *client) {
		clear(c.cached)
		stroll(w, c)
	}
}

// slowReader has pages read aloud.
func slowReader(w *world, c *client) {
	w.guest(c)
	c.mind.pause = func(c *client, page string) time.Duration {
		return seconds(20 + float64(c.sizes(page))/900*math.Exp(0.5*c.rng.NormFloat64()))
	}
	c.mind.branch, c.mind.first = 0.01, 1
}

func researcher(w *world, c *client) {
	w.guest(c)
	c.mind.pages, c.mind.branch = 150, 0.3
}

func comparer(w *world, c *client) {
	w.guest(c)
	c.mind.branch, c.mind.inTabs, c.mind.pages = 0.5, 12, 30
}

// school is a class whose teacher says which pages to open.
func school(w *world, c *client) {
	w.guest(c)
	c.browser = w.named("chrome-150-windows")
	c.address = fixed(netip.AddrFrom4([4]byte{198, 51, 100, 200}))
	c.at = w.someTime(c, 9, 9).Add(c.between(0, 30*time.Second))
	n := 0
	c.act = func(w *world, c *client) {
		if n++; n%25 == 0 {
			c.at = c.at.Truncate(24 * time.Hour).Add(33*time.Hour + c.between(0, 30*time.Second))
			return
		}
		if n%3 == 0 {
			c.open(w, w.place.list(n/3), "", c.mind.pause(c, "/")+time.Minute)
			return
		}
		c.open(w, c.pick(w, c.page), "https://"+w.cfg.Host+c.page, c.mind.pause(c, "/"))
	}
}
