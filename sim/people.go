package main

import (
	"fmt"
	"math"
	"net/netip"
	"time"

	"antirobot/request"
)

// What people do.
const (
	homes        = 300
	officeDesks  = 200
	telephones   = 300
	carrierAddrs = 16
	longVisit    = 60 // at most this many pages in one visit
	keepsCookies = 0.93
)

// languages that browsers ask for, and their frequency in percent.
var languages = [...]struct {
	share int
	text  string
}{
	{40, "en-US,en;q=0.9"},
	{25, "ru-RU,ru;q=0.9,en-US;q=0.8,en;q=0.7"},
	{15, "de-DE,de;q=0.9,en-US;q=0.8,en;q=0.7"},
	{10, "fr-FR,fr;q=0.9,en-US;q=0.8,en;q=0.7"},
	{10, "en-GB,en;q=0.9"},
}

// person makes a client that reads as people do.
func (w *world) person(k Kind) *client {
	c := w.client(k)
	c.cookies = c.rng.Float64() < keepsCookies
	c.cached = map[string]bool{}
	n := c.rng.IntN(100)
	for _, l := range languages {
		if n -= l.share; n < 0 {
			c.lang = []byte(l.text)
			break
		}
	}
	c.act = read
	return c
}

// choose gives the client one of the suitable browsers.
func (w *world) choose(c *client, fits func(b *browser) bool) {
	var list []*browser
	for i := range w.fleet {
		if fits(&w.fleet[i]) {
			list = append(list, &w.fleet[i])
		}
	}
	c.browser = *list[c.rng.IntN(len(list))]
}

func (w *world) addPeople() {
	for range w.scaled(homes) {
		c := w.person(People)
		w.choose(c, func(b *browser) bool { return c.rng.IntN(3) > 0 || b.mobile })
		c.at = w.firstVisit(c, 8, 23)
		c.address = fixed(home(c))
		w.add(c)
	}
}

// home is a household address: IPv4, or for a third of them IPv6 with an interface identifier that changes.
func home(c *client) netip.Addr {
	if c.number%3 == 0 {
		b := [16]byte{0x2a, 0x02, 0x16, 0x98, byte(c.rng.IntN(256)), byte(c.rng.IntN(256)), byte(c.number >> 8), byte(c.number)}
		b[15] = byte(1 + c.rng.IntN(200))
		return netip.AddrFrom16(b)
	}
	return netip.AddrFrom4([4]byte{byte(77 + c.rng.IntN(20)), byte(c.rng.IntN(256)), byte(c.rng.IntN(256)), byte(1 + c.rng.IntN(254))})
}

// officeAddress is the address of all of an office's people.
var officeAddress = netip.AddrFrom4([4]byte{198, 51, 100, 20})

func (w *world) addOffice() {
	for i := range w.scaled(officeDesks) {
		c := w.person(Office)
		w.choose(c, func(b *browser) bool { return b.name == "chrome-150-windows" || i%5 == 0 && !b.mobile })
		c.at = w.someTime(c, 9, 11)
		c.address = fixed(officeAddress)
		w.add(c)
	}
}

func (w *world) addMobile() {
	for range w.scaled(telephones) {
		c := w.person(Mobile)
		w.choose(c, func(b *browser) bool { return b.mobile })
		c.at = w.firstVisit(c, 7, 23)
		c.address = func(c *client) netip.Addr { // a different one of the carrier's now and then
			if c.at.After(c.changeAt) {
				c.from = netip.AddrFrom4([4]byte{203, 0, 113, byte(64 + c.rng.IntN(carrierAddrs))})
				c.changeAt = c.at.Add(c.between(4*time.Minute, 40*time.Minute))
			}
			return c.from
		}
		w.add(c)
	}
}

// someTime is a time between two hours on the first day of the traffic.
func (w *world) someTime(c *client, from, to int) time.Time {
	day := w.cfg.Begin.Add(-w.cfg.WarmUp).Truncate(24 * time.Hour)
	at := day.Add(time.Duration(from) * time.Hour).Add(c.between(0, time.Duration(to-from)*time.Hour))
	if first := w.cfg.Begin.Add(-w.cfg.WarmUp); at.Before(first) {
		at = first.Add(c.between(0, time.Hour))
	}
	return at
}

// firstVisit is when a person comes for the first time: half on the first day, half on any day, so that there are
// newcomers while the robots work.
func (w *world) firstVisit(c *client, from, to int) time.Time {
	at := w.someTime(c, from, to)
	if c.number%2 == 1 {
		at = at.Add(time.Duration(c.rng.IntN(1+int((w.cfg.WarmUp+w.cfg.Length)/(24*time.Hour)))) * 24 * time.Hour)
	}
	return at
}

// read plans the next page of a person, or the next visit.
func read(w *world, c *client) {
	if c.visit == 0 {
		if c.count > 0 {
			c.rest()
			c.count = 0
			c.visit = -1
			return
		}
		c.visit = -1
	}
	if c.visit < 0 { // a new visit begins
		c.visit = min(1+int(c.rng.ExpFloat64()*8), longVisit)
		c.page = ""
		ref := ""
		if c.rng.IntN(2) == 0 {
			ref = "https://www.google.com/"
		}
		c.open(w, w.place.entrance(c.rng), ref, 0)
		return
	}
	next := w.place.follow(c.page, c.rng)
	tabs := 1
	if c.rng.IntN(12) == 0 { // several tabs at once
		tabs = 2 + c.rng.IntN(3) + c.tabs
	}
	ref := "https://" + w.cfg.Host + c.page
	from, delay := c.page, c.think()
	for range tabs {
		c.open(w, next, ref, delay)
		next, delay = w.place.follow(from, c.rng), c.between(300*time.Millisecond, 3*time.Second)
		c.visit--
	}
	c.visit = max(c.visit, 0)
}

// begins begins a visit of so many pages at least, and so many more on average; before each but the first there is a rest.
func (c *client) begins(least int, more float64) {
	if c.count > 0 {
		c.rest()
	}
	c.visit, c.count = least+int(c.rng.ExpFloat64()*more), 1
}

// rest is the time until the next visit: later on the same day, or on another.
func (c *client) rest() {
	pause := c.between(20*time.Minute, 6*time.Hour)
	if c.kind == Office {
		pause = c.between(10*time.Minute, 90*time.Minute)
	}
	c.wait(pause)
	first, last := 7, 24
	if c.kind == Office {
		first, last = 9, 18
	}
	if c.night {
		first, last = 0, 7
	}
	if h := c.at.Hour(); h < first || h >= last {
		day := c.at.Truncate(24 * time.Hour)
		if h >= last {
			day = day.Add(24 * time.Hour)
		}
		c.at = day.Add(time.Duration(first)*time.Hour + c.between(0, 3*time.Hour))
	}
}

// open plans a page, after some time, and those of its parts that are not in the browser's cache.
func (c *client) open(w *world, page, ref string, after time.Duration) {
	c.count++
	c.page = page
	c.then(planned{after: after, path: page, ref: ref, dest: destPage})
	from := "https://" + w.cfg.Host + page
	for i, p := range w.place.parts(page) {
		if p.dest < destFetch && c.cached[p.path] || c.only != nil && !c.only(p.dest) {
			continue
		}
		if p.dest < destFetch {
			c.cached[p.path] = true
		}
		p.ref, p.after = from, c.between(2*time.Millisecond, 60*time.Millisecond)
		if i == 0 {
			p.after = c.between(60*time.Millisecond, 400*time.Millisecond)
		}
		c.then(p)
	}
	if len(c.cached) > 500 {
		clear(c.cached)
	}
}

// think is how long a person looks at a page: a third of a minute in the median, now and then a second or ten minutes.
func (c *client) think() time.Duration {
	seconds := math.Exp(math.Log(18) + 1.1*c.rng.NormFloat64())
	return time.Duration(min(max(seconds, 0.7), 900) * float64(time.Second))
}

// oddPerHabit is how many people there are of each odd habit.
const oddPerHabit = 15

// oddHabits are people whose habits resemble those of robots, each in one or two ways.
func (w *world) oddHabits() map[string]func(c *client) {
	return map[string]func(c *client){
		"private":  func(c *client) { c.cookies, c.noReferer = false, true },
		"tor":      w.tor,
		"text":     w.text,
		"pictures": func(c *client) { c.only = func(d dest) bool { return d != destImage && d != destFont } },
		"cached":   func(c *client) { c.only, c.warm = func(d dest) bool { return d == destFetch }, true },
		"old":      w.old,
		"webview":  w.webview,
		"polling":  func(c *client) { c.act = poll },
		"refresh":  func(c *client) { c.act = refresh },
		"tabs":     func(c *client) { c.tabs = 12 },
		"stripped": w.stripped,
		"night":    func(c *client) { c.night = true },
	}
}

func (w *world) addOdd() {
	habits := w.oddHabits()
	for _, name := range [...]string{
		"private", "tor", "text", "pictures", "cached", "old", "webview", "polling", "refresh", "tabs", "stripped", "night",
	} {
		for range w.scaled(oddPerHabit) {
			c := w.person(Odd)
			c.habit = name
			w.choose(c, func(b *browser) bool { return b.name != "tor-14-mac" })
			c.at = w.firstVisit(c, 7, 23)
			c.address = fixed(home(c))
			habits[name](c)
			w.add(c)
		}
	}
}

// tor is the Tor browser: a few exits for all, no cookies from the last visit.
func (w *world) tor(c *client) {
	c.browser = w.named("tor-14-mac")
	c.cookies, c.lang = false, nil
	exit := netip.AddrFrom4([4]byte{185, 220, 101, byte(30 + c.number%3)})
	c.address = fixed(exit)
}

// text is a terminal browser: pages only.
func (w *world) text(c *client) {
	c.browser = tool("Accept", "text/html, text/plain, text/sgml, */*;q=0.01", "Accept-Encoding", "gzip, bzip2", "Accept-Language", "en",
		"User-Agent", "Lynx/2.9.0dev.12 libwww-FM/2.14 SSL-MM/1.4.1 GNUTLS/3.7.8")
	c.only = func(dest) bool { return false }
}

// old is a browser from before client hints and Sec-Fetch.
func (w *world) old(c *client) {
	b := w.named("firefox-135-mac")
	c.browser = browser{name: "old", family: gecko}
	for _, f := range b.fields {
		switch string(f.Name) {
		case "Sec-Fetch-Dest", "Sec-Fetch-Mode", "Sec-Fetch-Site", "Sec-Fetch-User", "Priority":
			continue
		case "User-Agent":
			f.Value = []byte("Mozilla/5.0 (Windows NT 6.1; Win64; x64; rv:78.0) Gecko/20100101 Firefox/78.0")
		case "Accept-Encoding":
			f.Value = []byte("gzip, deflate, br")
		case "Accept":
			f.Value = []byte("text/html,application/xhtml+xml,application/xml;q=0.9,image/webp,*/*;q=0.8")
		}
		c.fields = append(c.fields, f)
	}
	c.bare = true
}

// webview is the browser inside an app.
func (w *world) webview(c *client) {
	b := w.named("safari-18-ios")
	c.browser = browser{name: "webview", family: webkit, mobile: true}
	for _, f := range b.fields {
		if string(f.Name) == "User-Agent" {
			f.Value = []byte("Mozilla/5.0 (iPhone; CPU iPhone OS 18_4 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148 Instagram 380.0.0.28.110")
		}
		c.fields = append(c.fields, f)
	}
}

// stripped is a browser behind a company's proxy that removes fields it does not know.
func (w *world) stripped(c *client) {
	c.bare = true
	b := c.browser
	c.fields = nil
	for _, f := range b.fields {
		switch string(f.Name) {
		case "User-Agent", "Accept", "Accept-Language", "Accept-Encoding", "Upgrade-Insecure-Requests":
			c.fields = append(c.fields, f)
		}
	}
	c.fields = append(c.fields, request.Field{Name: []byte("Via"), Value: []byte("1.1 proxy.example (squid)")})
	c.address = fixed4(192, 0, 2, 77)
}

// poll reads a page whose script polls every five seconds, for up to an hour.
func poll(w *world, c *client) {
	if c.visit <= 0 {
		if c.count > 0 {
			c.rest()
		}
		c.visit = 1 + c.rng.IntN(700)
		c.open(w, "/shop/1", "https://www.google.com/", 0)
		return
	}
	c.visit--
	c.then(planned{after: c.between(4900*time.Millisecond, 5100*time.Millisecond), path: "/api/news", ref: "https://" + w.cfg.Host + c.page, dest: destFetch})
}

// refresh is a page that is left open all day and reloads itself every minute.
func refresh(w *world, c *client) {
	if c.visit <= 0 {
		if c.count > 0 {
			c.rest()
		}
		c.visit = 60 + c.rng.IntN(400)
		c.open(w, fmt.Sprintf("/shop/%d", 1+c.number%categories), "", 0)
		return
	}
	c.visit--
	ref := ""
	if c.family == chromium {
		ref = "https://" + w.cfg.Host + c.page
	}
	c.open(w, c.page, ref, time.Minute)
}

const (
	callDesks = 40
	appUsers  = 60
)

func (w *world) addCallers() {
	desk := netip.MustParseAddr("198.51.100.77")
	for i := range w.scaled(callDesks) {
		c := w.person(Callers)
		c.habit = "call centre"
		c.cookies = i%2 == 0
		w.choose(c, func(b *browser) bool { return b.name == "chrome-150-windows" })
		c.address = fixed(desk)
		c.at = w.someTime(c, 8, 9)
		c.act = takeCalls
		w.add(c)
	}
	for i := range w.scaled(appUsers) {
		c := w.person(Callers)
		c.habit, c.cookies = "app", false
		c.browser = shopApp
		if i%2 == 1 {
			c.browser = androidApp
		}
		addr := home(c)
		if i%4 == 0 {
			addr = netip.AddrFrom4([4]byte{203, 0, 113, byte(200 + i/4%4)})
		}
		c.address = fixed(addr)
		c.at = w.firstVisit(c, 7, 22)
		c.act = useApp
		w.add(c)
	}
}

// The site's own app, on two kinds of phones.
var (
	shopApp = tool("Accept", "*/*", "Accept-Language", "en-GB,en;q=0.9", "Connection", "keep-alive", "Accept-Encoding", "gzip, deflate, br",
		"User-Agent", "Shop/412 CFNetwork/1568.200.51 Darwin/24.1.0")
	androidApp = tool("Accept-Encoding", "gzip", "Connection", "Keep-Alive", "User-Agent", "okhttp/4.12.0")
)

// takeCalls is a day at a desk: one page, whose script polls for waiting calls every three seconds for eight hours.
func takeCalls(w *world, c *client) {
	if c.visit <= 0 {
		if c.count > 0 {
			day := c.at.Truncate(24 * time.Hour).Add(24 * time.Hour)
			c.at = day.Add(8 * time.Hour).Add(c.between(0, time.Hour))
		}
		c.visit = 8 * 3600 / 3
		c.open(w, "/shop/1", "", 0)
		return
	}
	c.visit--
	c.then(planned{
		after: c.between(2900*time.Millisecond, 3100*time.Millisecond), path: fmt.Sprintf("/api/calls?desk=%d", c.number),
		ref: "https://" + w.cfg.Host + c.page, dest: destFetch,
	})
}

// useApp opens a few screens, each of which makes several calls at once.
func useApp(_ *world, c *client) {
	if c.visit <= 0 {
		if c.count > 0 {
			c.rest()
		}
		c.count++
		c.visit = 2 + c.rng.IntN(25)
		return
	}
	c.visit--
	item := c.rng.IntN(articles)
	think := c.think()
	for _, path := range []string{"/api/item/%d", "/api/price?of=%d", "/api/stock?of=%d", "/api/alike?to=%d"}[:2+c.rng.IntN(3)] {
		c.then(planned{after: think, path: fmt.Sprintf(path, item), dest: destPage})
		think = c.between(5*time.Millisecond, 80*time.Millisecond)
	}
}
