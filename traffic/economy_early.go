package traffic

import (
	"fmt"
	"net/netip"
	"time"
)

// Harvesters that prepare while only people are active.

// earliest is how long before the others some of them begin to prepare, and the people's first morning before that.
const earliest = 54 * time.Hour

// prepare lets a client create what it needs before it begins: at each of the given times it opens a page.
func (w *world) prepare(c *client, parts bool, before ...time.Duration) {
	c.at = w.cfg.Begin.Add(-before[0]).Add(c.between(0, time.Hour))
	c.act = func(w *world, c *client) {
		if len(before) == 0 {
			if c.at.Before(w.cfg.Begin) {
				c.at = w.cfg.Begin.Add(c.between(0, time.Minute))
			}
			c.act = harvest
			return
		}
		if at := w.cfg.Begin.Add(-before[0]); c.at.Before(at) {
			c.at = at.Add(c.between(0, time.Hour))
		}
		before = before[1:]
		if parts {
			c.load(w, "/")
		} else {
			c.then(planned{path: "/", dest: destPage})
		}
	}
}

func aged(w *world, c *client) {
	c.address, c.cookies = fixed(theHousehold), true
	w.prepare(c, false, 26*time.Hour)
}

// agedParts is aged, with the parts of its page.
func agedParts(w *world, c *client) {
	c.address, c.cookies, c.cached = fixed(theHousehold), true, map[string]bool{}
	w.prepare(c, true, 26*time.Hour)
}

func farmed(w *world, c *client) {
	c.address, c.cookies, c.cached = fixed(theHousehold), true, map[string]bool{}
	w.prepare(c, true, 50*time.Hour, 24*time.Hour)
}

// farmedInOffice is farmed, at the address of an office.
func farmedInOffice(w *world, c *client) {
	farmed(w, c)
	inOffice(w, c)
}

// agedInOffice is aged, at the address of an office.
func agedInOffice(w *world, c *client) {
	aged(w, c)
	inOffice(w, c)
}

// established is a household of its own, whose cookie the site has known for two days.
func established(w *world, c *client) {
	household(w, c)
	c.cookies, c.cached = true, map[string]bool{}
	w.prepare(c, true, 50*time.Hour, 24*time.Hour)
}

// fuid invents a fuid that claims to be old.
func fuid(w *world, c *client) {
	c.address, c.cookies = fixed(theHousehold), true
	c.session = fmt.Sprintf("fuid01=%08x%016x", w.cfg.Begin.Add(-90*24*time.Hour).Unix(), c.rng.Uint64())
	w.prepare(c, false, 26*time.Hour)
}

// fuidsOfNet is fuid behind eight addresses of one network, where with a browser cookie for each no more wait than may be established.
func fuidsOfNet(w *world, c *client) {
	fuid(w, c)
	a := theHousehold.As4()
	a[3] += byte(c.number % 8)
	c.address = fixed(netip.AddrFrom4(a))
}

// fuidsMoved is fuid behind eight addresses of as many networks: first shown at one of them, and then used at all.
func fuidsMoved(w *world, c *client) {
	fuid(w, c)
	home := c.number
	c.address = func(c *client) netip.Addr {
		n := home
		if !c.at.Before(w.cfg.Begin) {
			n += c.count
		}
		a := theHousehold.As4()
		a[2] += byte(n % 8)
		return netip.AddrFrom4(a)
	}
}

// campus is farmed, on so many days.
func campus(days int) func(*world, *client) {
	return func(w *world, c *client) {
		c.address, c.cookies, c.cached = fixed(theHousehold), true, map[string]bool{}
		before := make([]time.Duration, days)
		for i := range before {
			before[i] = 2*time.Hour + time.Duration(days-i)*24*time.Hour
		}
		w.prepare(c, true, before...)
	}
}
