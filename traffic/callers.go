package traffic

import (
	"fmt"
	"net/netip"
	"time"
)

// Callers are people whose clients call for data, all day: a call centre whose page polls for news every three seconds
// at each of forty desks behind one address, and users of the site's own app, at home and behind a carrier. They take
// part only if requested, and appear in no table.
const Callers Kind = "callers"

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
		c.browser = app1
		if i%2 == 1 {
			c.browser = app2
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
	app1 = tool("Accept", "*/*", "Accept-Language", "en-GB,en;q=0.9", "Accept-Encoding", "gzip, deflate, br", "User-Agent", "Shop/412 CFNetwork/1568.200.51 Darwin/24.1.0")
	app2 = tool("User-Agent", "okhttp/4.12.0", "Accept", "application/json", "Accept-Encoding", "gzip")
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
