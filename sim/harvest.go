package main

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"time"
)

// harvester is a robot that wants every page of a shop, once, within a day.
type harvester struct {
	name    string
	bar     float64 // the largest share that it may get of the pages it would get unhindered; 0: none is promised
	clients int
	pace    time.Duration // between two requests of a client
	vary    bool          // pace is between half as long and half as long again

	subresources bool // it loads those of each page that it does not have yet, as a browser does
	oneIn        int  // but only one in so many; 0: all

	check  bool          // the gateway advises a balancer: it does not know the answers
	early  bool          // it prepares while only people are active: takes effect only with a warm-up
	digits time.Duration // in which it reads the picture of a captcha; 0: it answers none

	dress func(w *world, c *client)      // equips a client
	ask   func(c *client, n int) planned // requests page n
}

// shopPages is how many pages of the shop harvesters want.
const shopPages = 20_000

// The largest shares of the shop that one address, a network and a hundred households may get without solving.
const (
	addressBar = 0.01
	networkBar = 0.08
	hundredBar = 0.10
)

// fast is the pace of ten pages a second; unlimited stays below every limit of requests for data.
const (
	fast      = 100 * time.Millisecond
	unlimited = 450 * time.Millisecond
)

// harvesters returns all, those that answer captchas last.
func harvesters() []harvester {
	one := func(name string, pace time.Duration, dress func(*world, *client), ask func(*client, int) planned) harvester {
		return harvester{name: name, bar: addressBar, clients: 1, pace: pace, dress: dress, ask: ask}
	}
	several := func(name string, bar float64, clients int, pace time.Duration, dress func(*world, *client)) harvester {
		return harvester{name: name, bar: bar, clients: clients, pace: pace, dress: dress, ask: pageOf}
	}
	network := func(bits int, bar float64) harvester {
		return several(fmt.Sprintf("ipv6-%d", bits), bar, 1, fast, rotating(bits)) // another address of it for each page
	}
	with := func(h harvester, edit func(h *harvester)) harvester { edit(&h); return h }
	early := func(h *harvester) { h.early = true }
	checked := func(h *harvester) { h.check = true }
	typedText := func(_ *client, n int) planned { return planned{path: productPath(n) + "?as=text", dest: destImage} }
	item := func(d dest) func(*client, int) planned {
		return func(_ *client, n int) planned { return planned{path: fmt.Sprintf("/api/item/%d", n+1), dest: d} }
	}
	list := []harvester{
		one("browser", fast, oneAddress, pageOf),
		one("patient", 20*time.Second, oneAddress, pageOf),
		one("cors", unlimited, oneAddress, as(destFetch, "")),
		one("cfnetwork", unlimited, app, pageOf),
		one("image-text", fast, oneAddress, typedText), // says that it wants an image, and gets text
		one("css", fast, oneAddress, as(destStyle, "/a.css")),
		one("curl", time.Second/4, curl, item(destPage)),
		one("app", time.Second, app, item(destPage)),
		one("style", 3*time.Second, oneAddress, func(_ *client, n int) planned {
			return planned{path: productPath(n), dest: destStyle, ref: "https://shop.example" + productPath(n+1)}
		}),
		with(one("script", time.Second, oneAddress, item(destFetch)), func(h *harvester) { h.bar = 0 }),
		with(one("check-image", fast, oneAddress, as(destImage, "")), checked),
		with(one("check-cors", unlimited, oneAddress, as(destFetch, "")), checked),
		network(64, addressBar), network(48, networkBar), network(32, networkBar),
		several("burst", networkBar, 1, time.Millisecond, bursts),
		several("net", 0, 60, 5*time.Minute, ofNet),
		several("street", 0, 40, 2*time.Minute, ofStreet),
		several("jars", addressBar, 40, 4*time.Second, jar),
		several("agents", addressBar, 40, 4*time.Second, renamed),
		with(several("jars-office", 1.2*addressBar, 20, 20*time.Second, jarInOffice), func(h *harvester) { h.vary = true }),
		with(several("jars-office-quarter", 0, 20, 20*time.Second, jarInOffice), func(h *harvester) {
			h.vary, h.subresources, h.oneIn = true, true, 4
		}),
		with(several("aged", 0, 41, 4*time.Second, aged), early),
		with(several("farm", 0, 41, 4*time.Second, farmed), early),
		with(several("farm-office", 0, 20, 4*time.Second, farmedInOffice), early),
		with(several("campus", 0, 400, 5*time.Minute, farmed), func(h *harvester) { h.early, h.subresources = true, true }),
		with(several("fuids", 0, 200, 20*time.Second, fuid), early),
		with(several("fuids-net", 0, 128, 20*time.Second, fuidsOfNet), early),
		several("households", hundredBar, 100, time.Minute, household),
		with(several("households-parts", 0, 100, time.Minute, household), func(h *harvester) { h.subresources = true }),
	}
	solver := func(h harvester, digits time.Duration, subresources bool) harvester {
		h.bar, h.digits, h.subresources = 0, digits, subresources
		return h
	}
	return append(list,
		solver(one("solver-browser", fast, oneAddress, pageOf), time.Millisecond, false),
		solver(several("solver-parts", 0, 2, 5*time.Second, jar), 8*time.Second, true),
		solver(one("solver-colleague", fast, inOffice, pageOf), time.Millisecond, false),
		solver(several("solver-ipv6-32", 0, 1, fast, rotating(32)), time.Millisecond, false),
		solver(several("solver-100-slow", 0, 100, time.Minute, household), 8*time.Second, false),
		solver(several("solver-100-parts", 0, 100, time.Minute, household), 8*time.Second, true),
	)
}

// unhindered is how many pages it would get of an unprotected shop.
func (h *harvester) unhindered(d time.Duration) int { return min(shopPages, h.clients*int(d/h.pace)) }

// How long a harvester rests when it is stopped: with a fixed address longer each time, up to mostRests times as long.
const (
	harvesterRest = time.Minute
	mostRests     = 10
	nomadRest     = 5 * time.Second
)

// shop is what the harvester has got of the shop.
type shop struct {
	by   harvester
	next int // where to look for a missing page
	got  []bool
	n    int
}

func newShop(by harvester) *shop { return &shop{by: by, got: make([]bool, shopPages)} }

func (s *shop) deliver(n int) {
	if !s.got[n] {
		s.got[n] = true
		s.n++
	}
}

// lacking returns a page that it does not have yet, a different one each time; false when it has all.
func (s *shop) lacking() (int, bool) {
	if s.n == len(s.got) {
		return 0, false
	}
	for s.got[s.next] {
		s.next = (s.next + 1) % len(s.got)
	}
	n := s.next
	s.next = (s.next + 1) % len(s.got)
	return n, true
}

func productPath(n int) string { return "/product/" + strconv.Itoa(n+1) }

func pageOf(_ *client, n int) planned { return planned{path: productPath(n), dest: destPage} }

// as requests a page as if it were something else.
func as(d dest, suffix string) func(*client, int) planned {
	return func(_ *client, n int) planned { return planned{path: productPath(n) + suffix, dest: d} }
}

func (w *world) addHarvesters() {
	h := &w.shop.by
	for range h.clients {
		c := w.client(Harvester)
		c.browser = w.named("chrome-150-windows")
		c.at = w.cfg.Begin.Add(c.between(0, min(h.pace, time.Minute)))
		h.dress(w, c)
		if c.act == nil {
			c.act = harvest
		}
		w.add(c)
	}
}

// harvest plans the next page of the shop.
func harvest(w *world, c *client) {
	s := w.shop
	h := &s.by
	if c.reply == "" {
		pace := h.pace
		if h.vary {
			pace = c.between(h.pace/2, h.pace*3/2)
		}
		c.wait(pace)
	}
	switch {
	case c.stops == 0:
	case h.digits > 0:
		if wait := c.solve(w); wait > 0 && c.nomad && c.reply == "" {
			c.wait(nomadRest)
			c.count++
			return
		} else if wait > 0 {
			c.wait(wait)
			return
		}
		c.stops = 0
	case c.nomad:
		c.wait(nomadRest)
	default:
		c.wait(harvesterRest * time.Duration(min(c.stops, mostRests)))
	}
	n, more := s.lacking()
	if !more {
		c.gone = true
		return
	}
	c.count++
	p := h.ask(c, n)
	p.product = n + 1
	if !h.subresources {
		c.then(p)
		return
	}
	if c.cached == nil {
		c.cached = map[string]bool{}
	}
	c.load(w, p.path)
	c.plan[0] = p
	part := 0
	c.plan = slices.DeleteFunc(c.plan, func(planned) bool {
		part++
		return h.oneIn > 0 && part > 1 && (part+c.count)%h.oneIn != 0
	})
}

// earliest is how long before Config.Begin some harvesters begin to prepare, and the people's first morning before that.
const earliest = 54 * time.Hour

// prepare lets a client earn cookies before it begins: at each of the given times it opens a page.
func (w *world) prepare(c *client, subresources bool, before ...time.Duration) {
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
		if subresources {
			c.load(w, "/")
		} else {
			c.then(planned{path: "/", dest: destPage})
		}
	}
}

func fixed(a netip.Addr) func(*client) netip.Addr { return func(*client) netip.Addr { return a } }

func fixed4(a, b, c, d byte) func(*client) netip.Addr {
	return fixed(netip.AddrFrom4([4]byte{a, b, c, d}))
}

// theHousehold is where harvesters with one address are.
var theHousehold = netip.AddrFrom4([4]byte{93, 184, 40, 7})

func oneAddress(_ *world, c *client) { c.address = fixed(theHousehold) }

func app(_ *world, c *client) {
	c.address, c.browser = fixed(theHousehold), shopApp
}

func curl(_ *world, c *client) {
	c.address = fixed(theHousehold)
	c.browser = tool("User-Agent", "curl/8.5.0", "Accept", "*/*")
}

// rotating gives each request another address of a single network.
func rotating(bits int) func(*world, *client) {
	return func(_ *world, c *client) {
		c.nomad = bits < 64
		c.address = func(c *client) netip.Addr {
			b := [16]byte{0x2a, 0x05, 0xd0, 0x14, 0x00, 0x20, 0x31, 0x40}
			n := uint64(c.count) * 0x9e3779b97f4a7c15 // spread over the network
			for bit := bits; bit < 128; bit++ {
				mask := byte(0x80 >> (bit % 8))
				b[bit/8] &^= mask
				if n>>(63-(bit-bits)%64)&1 == 1 {
					b[bit/8] |= mask
				}
			}
			return netip.AddrFrom16(b)
		}
	}
}

// bursts requests forty pages from one address of a /24, and continues from the next.
func bursts(_ *world, c *client) {
	c.nomad = true
	c.address = func(c *client) netip.Addr { return netip.AddrFrom4([4]byte{93, 184, 41, byte(c.count / 40 % 256)}) }
}

// jar is a browser that keeps cookies.
func jar(_ *world, c *client) { c.address, c.cookies = fixed(theHousehold), true }

// jarInOffice is a jar at the address of an office, with the browser that most have there.
func jarInOffice(_ *world, c *client) { c.address, c.cookies = fixed(officeAddress), true }

func inOffice(_ *world, c *client) { c.address = fixed(officeAddress) }

// renamed has a User-Agent of its own.
func renamed(w *world, c *client) {
	c.address = fixed(theHousehold)
	c.browser = without(c.browser, fmt.Sprintf("%s Build/%d", c.value("User-Agent"), c.number))
}

// household is an address of its own, in a network of its own.
func household(_ *world, c *client) {
	c.address = fixed4(byte(31+c.number%50), byte(17+c.number/50), byte(c.number*53), 44)
}

// ofNet is an address of a /24, ofStreet a household of an IPv6 /40.
func ofNet(_ *world, c *client) { c.address = fixed4(93, 185, 7, byte(20+c.number)) }

func ofStreet(_ *world, c *client) {
	c.address = fixed(netip.AddrFrom16([16]byte{0x2a, 0x0c, 0x11, 0x20, 0x40, byte(c.number), 0, 0x31, 15: 1}))
}

// aged has a cookie that is a day old, farmed one that was seen with a page and its subresources on two days.
func aged(w *world, c *client) {
	jar(w, c)
	w.prepare(c, false, 26*time.Hour)
}

func farmed(w *world, c *client) {
	jar(w, c)
	c.cached = map[string]bool{}
	w.prepare(c, true, 50*time.Hour, 26*time.Hour)
}

func farmedInOffice(w *world, c *client) {
	farmed(w, c)
	c.address = fixed(officeAddress)
}

// fuid invents a fuid that claims to be old.
func fuid(w *world, c *client) {
	aged(w, c)
	c.session = fmt.Sprintf("fuid01=%08x%016x", w.cfg.Begin.Add(-90*24*time.Hour).Unix(), c.rng.Uint64())
}

// fuidsOfNet is fuid behind eight addresses of one network.
func fuidsOfNet(w *world, c *client) {
	fuid(w, c)
	a := theHousehold.As4()
	a[3] += byte(c.number % 8)
	c.address = fixed(netip.AddrFrom4(a))
}
