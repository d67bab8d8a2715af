package traffic

import (
	"net/netip"
	"time"
)

// Campaigns are robots that are spread over many addresses, a few pages from each: a program under one name, one under a name of its own
// at each address, browsers that begin anew with each page, and a program in no hurry. What finds campaigns is tuned on these, and
// not on spread, rotating and the scraping service. They take part only if requested.
const Campaigns Kind = "campaigns"

func campaignSorts() []sort {
	return []sort{
		{"one name", false, 900, oneName},
		{"many names", false, 400, manyNames},
		{"fresh browsers", false, 240, freshBrowsers},
		{"in no hurry", false, 200, inNoHurry},
	}
}

func (w *world) addCampaigns() { w.addSorts(Campaigns, campaignSorts()) }

// leaving makes the client open so many pages with these pauses, and go.
func (c *client) leaving(pages int, pause func() time.Duration, open func(after time.Duration)) {
	c.act = func(*world, *client) {
		if pages--; pages < 0 {
			c.gone = true
			return
		}
		open(pause())
	}
}

func oneName(w *world, c *client) {
	c.browser, c.cookies, c.lang = w.named("firefox-135-windows"), false, nil
	c.at = w.cfg.Begin.Add(c.between(0, 5*time.Hour))
	n := c.rng.IntN(w.place.items)
	c.leaving(2+c.rng.IntN(5), func() time.Duration { return seconds(3 + 150*c.rng.ExpFloat64()) }, func(after time.Duration) {
		n += 1 + c.rng.IntN(3)
		page := w.place.item(n)
		if c.rng.IntN(6) == 0 {
			page = w.place.list(n)
		}
		c.then(planned{path: page, dest: destPage, after: after})
	})
}

func manyNames(w *world, c *client) {
	c.cookies, c.lang = false, []byte("de-DE,de;q=0.9,en-US;q=0.8,en;q=0.7")
	c.address = fixed(netip.AddrFrom4([4]byte{byte(151 + c.rng.IntN(30)), byte(c.rng.IntN(256)), byte(c.rng.IntN(256)), byte(1 + c.rng.IntN(254))}))
	c.at = w.cfg.Begin.Add(c.between(0, 7*time.Hour))
	c.leaving(3+c.rng.IntN(3), func() time.Duration { return c.between(8*time.Second, 7*time.Minute) }, func(after time.Duration) {
		c.then(planned{path: w.place.item(c.rng.IntN(w.place.items)), ref: "https://www.bing.com/", dest: destPage, after: after})
	})
}

func freshBrowsers(w *world, c *client) {
	c.at = w.cfg.Begin.Add(c.between(0, 5*time.Hour))
	c.leaving(2+c.rng.IntN(6), func() time.Duration { return seconds(5 + 240*c.rng.ExpFloat64()) }, func(after time.Duration) {
		c.forgets()
		c.open(w, w.place.item(c.rng.IntN(w.place.items)), "https://duckduckgo.com/", after)
	})
}

func inNoHurry(w *world, c *client) {
	c.browser, c.cookies = w.named("chrome-142-mac"), false
	c.at = w.cfg.Begin.Add(c.between(0, 20*time.Hour))
	c.leaving(4+c.rng.IntN(5), func() time.Duration { return c.between(time.Minute, 40*time.Minute) }, func(after time.Duration) {
		c.then(planned{path: w.place.item(c.rng.IntN(w.place.items)), dest: destPage, after: after})
	})
}
