package traffic

import (
	"net/netip"
	"time"
)

const (
	drivenClients   = 5
	rotatingAddrs   = 500
	rotatingLength  = 8 * time.Hour
	rotatingLeast   = 3
	rotatingMost    = 6
	drivenNeverRest = 24 * time.Hour
)

// addEvasive makes robots whose author knows what is measured.
func (w *world) addEvasive() {
	// A browser that follows links, thinks as people do, and keeps cookies, in a household; but it never sleeps.
	for range drivenClients {
		c := w.robot(Evasive, w.named("chrome-150-windows"), netip.Addr{})
		c.habit = "driven"
		addr := netip.AddrFrom4([4]byte{84, 17, byte(40 + c.number), 19})
		c.address = func(*client) netip.Addr { return addr }
		c.cookies, c.cached, c.lang = true, map[string]bool{}, []byte(languages[0].text)
		c.until = w.cfg.Begin.Add(drivenNeverRest)
		c.act = func(w *world, c *client) {
			ref := ""
			if c.page != "" {
				ref = "https://" + w.cfg.Host + c.page
			} else {
				c.page = "/"
			}
			c.open(w, w.place.follow(c.page, c.rng), ref, c.think())
		}
		w.add(c)
	}
	// One scraper spread over five hundred households, with another browser's fields at each, forged referers, and no
	// parts.
	for i := range w.scaled(rotatingAddrs) {
		c := w.client(Evasive)
		c.habit = "rotating"
		w.choose(c, func(b *browser) bool { return b.name != "tor-14-mac" })
		addr := netip.AddrFrom4([4]byte{byte(24 + i%60), byte(30 + i/60), byte(i * 53), byte(5 + i%240)})
		c.address = func(*client) netip.Addr { return addr }
		c.at = w.cfg.Begin.Add(c.between(0, rotatingLength))
		c.visit, c.count = rotatingLeast+c.rng.IntN(rotatingMost-rotatingLeast+1), i*8
		c.act = func(w *world, c *client) {
			if c.visit--; c.visit < 0 {
				c.gone = true
				return
			}
			c.count++
			c.then(planned{path: w.place.item(c.count), ref: "https://www.google.com/", dest: destPage})
			c.at = c.at.Add(c.between(5*time.Second, 10*time.Minute))
		}
		w.add(c)
	}
}
