package traffic

import (
	"net/netip"
	"time"
)

// People between whom and the site somebody else stands, and robots that resemble them.

// checkerAddr is an address of the service that looks at a link before a person opens it.
func checkerAddr(c *client) netip.Addr {
	return netip.AddrFrom4([4]byte{20, 70 + byte(c.number%2), 15, byte(30 + c.rng.IntN(3))})
}

// checked opens links of a messenger that looks at each of them first with a browser of its own; half of the links are
// never opened by anybody.
func checked(w *world, c *client) {
	w.guest(c)
	looks := w.named("chrome-142-windows")
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
		c.then(planned{path: page, dest: destPage, by: &looks, at: checkerAddr(c)})
		if c.rng.IntN(2) == 0 {
			return
		}
		c.open(w, page, "", c.between(3*time.Second, 90*time.Second))
		c.visit, c.trail = 1+int(c.rng.ExpFloat64()*5), append(c.trail[:0], page)
	}
}

// saver is a telephone whose pages, parts and all, come through the servers of its maker, which save data: each request
// from another of them, without the fields that those don't know.
func saver(w *world, c *client) {
	w.guest(c)
	c.cookies, c.noReferer = false, c.number%2 == 0
	c.relayed(string(c.value("User-Agent")), [4]byte{185, 26, 180, 20}, 8)
}

// relayed makes the pages come through somebody's servers, so many from the first address on: each request from another of
// them, under this User-Agent and without the fields that those don't know.
func (c *client) relayed(agent string, first [4]byte, servers int) {
	c.address = func(c *client) netip.Addr {
		a := first
		a[3] += byte(c.rng.IntN(servers)) //nolint:gosec // some servers of a /24
		return netip.AddrFrom4(a)
	}
	c.browser = without(c.browser, agent, "Sec-Fetch-Dest", "Sec-Fetch-Mode", "Sec-Fetch-Site", "Sec-Fetch-User", "sec-ch-ua", "sec-ch-ua-mobile", "sec-ch-ua-platform")
	c.bare = true
}

// newsletter opens what a mail names: pages that many others open from their mail, too. Now and then a link leads on.
func newsletter(w *world, c *client) {
	w.guest(c)
	c.act = func(w *world, c *client) {
		if c.visit <= 0 {
			c.begins(1, 5)
		}
		c.visit--
		if c.rng.IntN(5) == 0 && c.page != "" {
			c.open(w, c.pick(w, c.page), "https://"+w.cfg.Host+c.page, c.mind.pause(c, "/"))
			return
		}
		day := int(c.at.Sub(w.cfg.Begin)/(24*time.Hour)) + 9
		c.open(w, w.place.item(day*60+c.rng.IntN(25)), "", c.mind.pause(c, "/"))
	}
}

// desk is a terminal at a counter: somebody signs in, reads a little and goes; then it forgets everything.
func desk(w *world, c *client) {
	w.guest(c)
	c.address = fixed(netip.AddrFrom4([4]byte{93, 184, 77, 40}))
	c.mind.pages = 5
	c.act = func(w *world, c *client) {
		if c.visit > 0 {
			stroll(w, c)
			return
		}
		if c.count > 0 {
			c.wait(c.between(time.Minute, 40*time.Minute))
			c.iCookie, c.session = "", ""
		}
		if h := c.at.Hour(); h < 8 || h >= 19 {
			c.at = c.at.Truncate(24 * time.Hour).Add(32*time.Hour + c.between(0, 30*time.Minute))
		}
		c.open(w, "/login", "", 0)
		c.then(planned{path: "/login?in", ref: "https://" + w.cfg.Host + "/login", dest: destPage, post: true, after: c.between(8*time.Second, 40*time.Second)})
		c.page = "/"
		c.visit, c.trail = 1+int(c.rng.ExpFloat64()*c.mind.pages), append(c.trail[:0], "/")
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
