package traffic

import "time"

// People whom links from elsewhere lead to single pages, as readers of feeds are: they come for a page or two, go, and come
// back for others.

// chatting opens what the others of a chat recommend: anything on the site, each link by several of them within a day. An
// app does not say where it is from.
func chatting(w *world, c *client) {
	w.guest(c)
	chat, has := c.number/6, 0.3+0.6*c.rng.Float64()
	last := -1
	c.follows("", func() (page string, more bool) {
		n := int(c.at.Sub(w.cfg.Begin)/(2*time.Hour)) + 1000 // a link every two hours
		if n == last || c.rng.Float64() > has {
			return "", false
		}
		last = n
		return w.place.item(hashOf(itemPath(chat*977 + n))), false
	}, 50*time.Minute, 5*time.Hour, 0.2)
}

// gathering reads what a page elsewhere gathers from many sites: every hour it lists another thing of this one, and keeps
// it for a day or two. Some such pages say where they are.
func gathering(w *world, c *client) {
	w.guest(c)
	ref := [...]string{"https://gathered.example/", "", "https://gathered.example/"}[c.number%3]
	latest := -1
	c.follows(ref, func() (page string, more bool) {
		now := int(c.at.Sub(w.cfg.Begin)/time.Hour) + 1000
		if latest < 0 {
			latest = now - 30
		}
		if latest += 1 + c.rng.IntN(6); latest > now {
			latest = now
			return "", false
		}
		return w.place.item(latest * 31), latest < now && c.rng.IntN(3) > 0
	}, 30*time.Minute, 6*time.Hour, 0.15)
}

// scrolling comes from a timeline, inside whose app the site opens: each time for something else, which hardly anybody
// else opens.
func scrolling(w *world, c *client) {
	w.guest(c)
	w.choose(c, func(b *browser) bool { return b.mobile })
	ref := [...]string{"https://t.example/", "", "https://t.example/", "https://m.timeline.example/"}[c.number%4]
	c.follows(ref, func() (page string, more bool) {
		return w.place.item(c.rng.IntN(w.place.items)), c.rng.IntN(8) == 0
	}, 20*time.Minute, 9*time.Hour, 0.25)
}

// follows lets a person open what elsewhere names next, if that has anything, and perhaps more at once; then look around
// from there, seldom, and go for some time.
func (c *client) follows(ref string, next func() (page string, more bool), least, most time.Duration, around float64) {
	page, more := "", false
	c.act = func(w *world, c *client) {
		if c.visit > 0 {
			stroll(w, c)
			return
		}
		after := c.mind.pause(c, "/")
		if c.count > 0 && !more {
			c.wait(c.between(least, most))
			if h := c.at.Hour(); h < 6 || h == 23 {
				c.at = c.at.Add(8 * time.Hour)
			}
			after = 0
		}
		c.count++
		if page, more = next(); page == "" {
			return
		}
		c.open(w, page, ref, after)
		c.trail = append(c.trail[:0], page)
		if c.rng.Float64() < around {
			c.visit, more = 1+c.rng.IntN(3), false
		}
	}
}

// windows reads in private windows: whatever a window has kept, cookies and parts of pages, is gone once it is closed. Most people close it
// at the end of a visit; some have a browser that opens each result of a search in another one, and forgets it with that.
func windows(w *world, c *client) {
	w.guest(c)
	c.cookies = true
	if c.number%3 == 0 {
		w.choose(c, func(b *browser) bool { return b.mobile })
		ref := [...]string{"https://www.google.com/", "https://duckduckgo.com/", ""}[c.rng.IntN(3)]
		c.follows(ref, func() (page string, more bool) {
			c.forgets()
			return w.place.entrance(c.rng), c.rng.IntN(5) < 2
		}, 20*time.Minute, 9*time.Hour, 0.4)
		return
	}
	c.act = func(w *world, c *client) {
		if c.visit == 0 {
			c.forgets()
		}
		stroll(w, c)
	}
}

// forgets drops what the client's browser has kept.
func (c *client) forgets() {
	c.iCookie, c.session = "", ""
	clear(c.cached)
}
