package traffic

import (
	"fmt"
	"net/netip"
	"time"

	"antirobot/request"
)

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
			addr := home(c)
			c.address = func(*client) netip.Addr { return addr }
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
	c.address = func(*client) netip.Addr { return exit }
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
	addr := netip.AddrFrom4([4]byte{192, 0, 2, 77})
	c.address = func(*client) netip.Addr { return addr }
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
