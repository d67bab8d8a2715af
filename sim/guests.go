package main

import (
	"fmt"
	"math"
	"net/netip"
	"time"
)

// guestSorts are people of many sorts.
func guestSorts() []sort {
	return []sort{
		{"readers", 60, func(w *world, c *client) { w.guest(c) }},
		{"call centre", 40, callCentre},       // one address, a page that polls every three seconds
		{"app", 25, appUser},                  // the site's own app, which asks for data
		{"blockers", 25, blocker(true)},       // no pictures, scripts, referers
		{"html", 20, htmlOnly},                // pages only
		{"kiosk", 6, kiosk},                   // a browser used by everybody, all day
		{"library", 12, library},              // terminals behind one address, reset for each visit
		{"auction", 15, auction},              // reloads one page again and again
		{"one page", 20, onePage},             // a page that never loads another: its script does that
		{"television", 10, television},        // an old Chromium without hints
		{"switchers", 20, switcher},           // a VPN, in another country every half hour
		{"shoppers", 40, shopper},             // with the times that were measured at a shop
		{"checked", 20, checked},              // a messenger's service opens each link first
		{"saver", 20, saver},                  // through the servers of a browser that saves data
		{"newsletter", 25, newsletter},        // each page from a mail that many others have, too
		{"desk", 4, desk},                     // terminals at a counter, reset for each person, who signs in
		{"strangers", 60, stranger},           // readers with other habits
		{"blockers bare", 25, blocker(false)}, // like blockers, without cookies
		{"feed readers", 25, feedArrival},     // each article from outside, without a referer
		{"beacons", 20, beacons},              // a page that reports every twelve seconds
		{"translated", 20, translated},        // pages through a translation service's addresses
		{"archive", 15, archive},              // reads copies elsewhere, whose parts come from here
		{"queue", 15, queue},                  // a waiting page that reloads itself, then a hurry
		{"car", 10, car},                      // an unknown browser
		{"scanned", 20, scanned},              // a company's scanner opens each link first
		{"slow readers", 15, slowReader},      // screen readers: long, even pauses
		{"researchers", 15, researcher},       // hundreds of pages in a sitting
		{"comparers", 20, comparer},           // a dozen tabs from each list
		{"school", 30, school},                // a class behind one address, told where to go
		{"chatting", 30, chatting},            // links of a chat: a page or two, and back later
		{"gathering", 25, gathering},          // what a page elsewhere gathers from many sites
		{"scrolling", 25, scrolling},          // a timeline, each time for something else
		{"ticker", 20, ticker},                // a page with scores that reloads itself, and quick looks at others
		{"windows", 25, windows},              // private windows: nothing is kept once they are closed
		{"by voice", 20, byVoice},             // a program that helps them clicks by a script
		{"tools open", 12, toolsOpen},         // somebody who looks at what the pages request
		{"by gaze", 15, byGaze},               // a program that follows their eyes, and clicks by a script
		{"by switch", 15, bySwitch},           // one key for everything, and a mark that walks over the page
		{"uncached", 25, uncached},            // keeps no parts of pages: developers, and a proxy that forbids it
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
	c.address = fixed4(198, 51, 100, 77)
	c.mind.every, c.mind.most = 3*time.Second, time.Minute
	c.mind.ask = planned{path: "/api/calls?waiting=1", dest: destFetch}
	c.mind.pages = 20
	c.at = w.someTime(c, 9, 11)
}

func appUser(w *world, c *client) {
	w.guest(c)
	c.browser = [...]browser{shopApp, androidApp}[c.number%2]
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
	c.address = fixed4(192, 0, 2, 130)
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
		c.address = fixed4(192, 0, 2, 140)
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
	c.address = fixed4(198, 51, 100, 200)
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
	c.address = fixed4(93, 184, 77, 40)
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

// byGaze is somebody who looks at a link for long enough: pages take longer, and few are opened.
func byGaze(w *world, c *client) {
	w.guest(c)
	w.choose(c, func(b *browser) bool { return b.family == chromium && !b.mobile })
	c.cookies, c.scripted = true, true
	c.mind.pages = 3 + 6*c.rng.Float64()
	pause := c.mind.pause
	c.mind.pause = func(c *client, page string) time.Duration {
		return pause(c, page) + seconds(4*math.Exp(0.4*c.rng.NormFloat64()))
	}
}

// bySwitch is somebody with one key: a mark walks from link to link at a pace of theirs until they press it.
func bySwitch(w *world, c *client) {
	w.guest(c)
	c.cookies = true
	c.mind.pages = 4 + 8*c.rng.Float64()
	step, pause := 0.8+1.2*c.rng.Float64(), c.mind.pause
	c.mind.pause = func(c *client, page string) time.Duration {
		return pause(c, page) + seconds(step*float64(3+c.rng.IntN(20)))
	}
}
