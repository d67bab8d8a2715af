package traffic

import (
	"fmt"
	"math"
	"net/netip"
	"time"
)

// guestSorts are people of many sorts. The held-out ones were chosen before anything was tuned.
func guestSorts() []sort {
	return []sort{
		{"readers", false, 60, func(w *world, c *client) { w.guest(c) }},
		{"call centre", false, 40, callCentre},      // one address, a page that polls every three seconds
		{"app", false, 25, appUser},                 // the site's own app, which asks for data
		{"blockers", false, 25, blocker(true)},      // no pictures, scripts, referers
		{"html", false, 20, htmlOnly},               // pages only
		{"kiosk", false, 6, kiosk},                  // a browser used by everybody, all day
		{"library", false, 12, library},             // terminals behind one address, reset for each visit
		{"auction", false, 15, auction},             // reloads one page again and again
		{"one page", false, 20, onePage},            // a page that never loads another: its script does that
		{"television", false, 10, television},       // an old Chromium without hints
		{"switchers", false, 20, switcher},          // a VPN, in another country every half hour
		{"shoppers", false, 40, shopper},            // with the times that were measured at a shop
		{"checked", false, 20, checked},             // a messenger's service opens each link first
		{"saver", false, 20, saver},                 // through the servers of a browser that saves data
		{"newsletter", false, 25, newsletter},       // each page from a mail that many others have, too
		{"desk", false, 4, desk},                    // terminals at a counter, reset for each person, who signs in
		{"strangers", true, 60, stranger},           // readers with other habits
		{"blockers bare", true, 25, blocker(false)}, // like blockers, without cookies
		{"feed readers", true, 25, feedArrival},     // each article from outside, without a referer
		{"beacons", true, 20, beacons},              // a page that reports every twelve seconds
		{"translated", true, 20, translated},        // pages through a translation service's addresses
		{"archive", true, 15, archive},              // reads copies elsewhere, whose parts come from here
		{"queue", true, 15, queue},                  // a waiting page that reloads itself, then a hurry
		{"car", true, 10, car},                      // an unknown browser
		{"scanned", true, 20, scanned},              // a company's scanner opens each link first
		{"slow readers", true, 15, slowReader},      // screen readers: long, even pauses
		{"researchers", true, 15, researcher},       // hundreds of pages in a sitting
		{"comparers", true, 20, comparer},           // a dozen tabs from each list
		{"school", true, 30, school},                // a class behind one address, told where to go
		{"chatting", false, 30, chatting},           // links of a chat: a page or two, and back later
		{"gathering", false, 25, gathering},         // what a page elsewhere gathers from many sites
		{"scrolling", false, 25, scrolling},         // a timeline, each time for something else
		{"ticker", false, 20, ticker},               // a page with scores that reloads itself, and quick looks at others
		{"windows", false, 25, windows},             // private windows: nothing is kept once they are closed
		{"by voice", false, 20, byVoice},            // a program that helps them clicks by a script
		{"tools open", false, 12, toolsOpen},        // somebody who looks at what the pages request
		{"by gaze", true, 15, byGaze},               // a program that follows their eyes, and clicks by a script
		{"by switch", true, 15, bySwitch},           // one key for everything, and a mark that walks over the page
		{"uncached", true, 25, uncached},            // keeps no parts of pages: developers, and a proxy that forbids it
	}
}

func (w *world) addGuests() { w.addSorts(Guests, guestSorts()) }

// guest equips a client as a person at home.
func (w *world) guest(c *client) {
	c.mind, c.act = reader(c), stroll
	c.cookies = c.rng.Float64() < keepsCookies
	c.at = w.firstVisit(c, 7, 22)
}

// shopper stays on pages as the customers of a shop did: in the sample of the DIGINETICA data (CIKM Cup 2016) in the
// repository CRIPAC-DIG/SR-GNN, 571 sessions of seven views and more, the logarithm of the time between two views has a
// standard deviation of 0.85 at the median (0.5 to 1.5 for nine in ten), hardly any skew, and hardly any time is below two
// seconds.
func shopper(w *world, c *client) {
	w.guest(c)
	scale, spread := 30*math.Exp(0.6*c.rng.NormFloat64()), 0.85*math.Exp(0.33*c.rng.NormFloat64())
	c.mind.pause = func(c *client, _ string) time.Duration {
		return seconds(min(max(scale*math.Exp(spread*c.rng.NormFloat64()), 1), 1500))
	}
	c.mind.back = 0.2 * c.rng.Float64()
}

func callCentre(w *world, c *client) {
	w.guest(c)
	c.browser = w.named("chrome-150-windows")
	c.address = fixed(netip.AddrFrom4([4]byte{198, 51, 100, 77}))
	c.mind.every, c.mind.most = 3*time.Second, time.Minute
	c.mind.ask = planned{path: "/api/calls?waiting=1", dest: destFetch}
	c.mind.pages = 20
	c.at = w.someTime(c, 9, 11)
}

func appUser(w *world, c *client) {
	w.guest(c)
	if c.number%2 == 0 {
		c.browser = tool("Accept", "*/*", "Accept-Language", "en-GB,en;q=0.9", "Connection", "keep-alive", "Accept-Encoding", "gzip, deflate, br",
			"User-Agent", "Shop/412 CFNetwork/1568.200.51 Darwin/24.1.0")
	} else {
		c.browser = tool("Accept-Encoding", "gzip", "Connection", "Keep-Alive", "User-Agent", "okhttp/4.12.0")
	}
	c.cookies = c.number%3 == 0
	c.act = func(w *world, c *client) {
		if c.visit <= 0 {
			c.begins(3, 12)
			c.then(planned{path: "/api/config", dest: destFetch})
			c.then(planned{path: "/api/list?page=1", dest: destFetch, after: 200 * time.Millisecond})
			return
		}
		c.visit--
		n := popular(c.rng, w.place.items)
		c.then(planned{path: fmt.Sprintf("/api/item/%d", n), dest: destFetch, after: c.mind.pause(c, "/")})
		for i := range 1 + n%4 {
			c.then(planned{path: fmt.Sprintf("/pictures/%d.webp", n*3+i), dest: destImage, after: c.between(20*time.Millisecond, 90*time.Millisecond)})
		}
		if c.rng.IntN(4) == 0 {
			c.then(planned{path: fmt.Sprintf("/api/list?page=%d", 1+c.rng.IntN(5)), dest: destFetch, after: c.between(time.Second, 9*time.Second)})
		}
	}
}

func blocker(cookies bool) func(w *world, c *client) {
	return func(w *world, c *client) {
		w.guest(c)
		c.cookies, c.noReferer = cookies, true
		c.only = func(d dest) bool { return d == destStyle || d == destFont && c.number%2 == 0 }
	}
}

func htmlOnly(w *world, c *client) {
	w.guest(c)
	c.only = func(dest) bool { return false }
}

func kiosk(w *world, c *client) {
	w.guest(c)
	c.at = w.someTime(c, 9, 10)
	c.act = func(w *world, c *client) {
		if c.visit > 0 {
			stroll(w, c)
			return
		}
		if c.rng.IntN(12) == 0 {
			c.rest()
		}
		c.trail, c.visit = c.trail[:0], 1+c.rng.IntN(12)
		c.open(w, "/", "", c.between(70*time.Second, 9*time.Minute)) // it returns to its first page
		c.enter("/")
	}
}

func library(w *world, c *client) {
	w.guest(c)
	c.browser = w.named("firefox-144-windows")
	c.address = fixed(netip.AddrFrom4([4]byte{192, 0, 2, 130}))
	c.act = func(w *world, c *client) {
		if c.visit == 0 { // the next person
			c.forgets()
		}
		stroll(w, c)
	}
}

func auction(w *world, c *client) {
	w.guest(c)
	c.act = func(w *world, c *client) {
		if c.visit > 6 || c.visit <= 0 {
			stroll(w, c)
			return
		}
		page := c.page
		for left := 40 + c.rng.IntN(80); left > 0; left-- {
			c.open(w, page, "https://"+w.cfg.Host+page, c.between(3*time.Second, time.Duration(4+left/4)*time.Second))
		}
		c.visit = 0
	}
}

// ticker follows scores on a page that reloads itself, leaves it for a few others, and comes back.
func ticker(w *world, c *client) {
	w.guest(c)
	every := time.Duration(15+15*c.rng.IntN(4)) * time.Second
	c.act = func(w *world, c *client) {
		if c.visit <= 0 {
			stroll(w, c)
			return
		}
		page := w.place.list(c.number % 5)
		c.open(w, page, "https://"+w.cfg.Host+c.page, c.mind.pause(c, c.page))
		for left := 8 + c.rng.IntN(40); left > 0; left-- {
			c.open(w, page, "https://"+w.cfg.Host+page, every)
		}
		c.enter(page)
		for left := 2 + c.rng.IntN(6); left > 0; left-- {
			from := c.page
			c.open(w, c.pick(w, from), "https://"+w.cfg.Host+from, c.mind.pause(c, from)/2)
			c.enter(c.page)
		}
		c.visit = max(c.visit-4, 0)
	}
}

func onePage(w *world, c *client) {
	w.guest(c)
	c.act = func(w *world, c *client) {
		if c.visit <= 0 {
			stroll(w, c)
			return
		}
		c.visit--
		n := popular(c.rng, w.place.items)
		c.then(planned{path: fmt.Sprintf("/api/item/%d", n), ref: "https://" + w.cfg.Host + c.page, dest: destFetch, after: c.mind.pause(c, c.page)})
		c.then(planned{path: fmt.Sprintf("/pictures/%d.webp", n), ref: "https://" + w.cfg.Host + c.page, dest: destImage, after: c.between(20*time.Millisecond, 90*time.Millisecond)})
	}
}

// without is the browser without certain fields, under another name.
func without(b browser, agent string, names ...string) browser {
	fields := b.fields
	b.fields = nil
next:
	for _, f := range fields {
		for _, n := range names {
			if string(f.Name) == n {
				continue next
			}
		}
		if string(f.Name) == "User-Agent" {
			f.Value = []byte(agent)
		}
		b.fields = append(b.fields, f)
	}
	return b
}

func television(w *world, c *client) {
	w.guest(c)
	c.browser = without(w.named("chrome-142-mac"), "Mozilla/5.0 (SMART-TV; LINUX; Tizen 7.0) AppleWebKit/537.36 (KHTML, like Gecko) 94.0.4606.31/7.0 TV Safari/537.36",
		"sec-ch-ua", "sec-ch-ua-mobile", "sec-ch-ua-platform")
	c.mind.pages = 6
}

func car(w *world, c *client) {
	w.guest(c)
	c.browser = without(w.named("chrome-142-mac"), "Mozilla/5.0 (X11; GNU/Linux) AppleWebKit/537.36 (KHTML, like Gecko) Chromium/120.0.6099.217 Chrome/120.0.6099.217 Safari/537.36 Tesla/2025.14.3",
		"sec-ch-ua", "sec-ch-ua-mobile", "sec-ch-ua-platform")
	c.mind.pages = 6
}

// switcher has a different address, in another country, every half hour.
func switcher(w *world, c *client) {
	w.guest(c)
	c.cookies = true
	c.address = func(c *client) netip.Addr {
		if c.at.After(c.changeAt) {
			c.from = netip.AddrFrom4([4]byte{byte(60 + c.rng.IntN(5)*20), 40, byte(c.rng.IntN(8)), byte(1 + c.rng.IntN(30))})
			c.changeAt = c.at.Add(c.between(15*time.Minute, 45*time.Minute))
		}
		return c.from
	}
}
