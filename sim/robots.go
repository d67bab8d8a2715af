package main

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"antirobot/request"
)

// How many there are of each kind.
const (
	fastClients     = 6
	slowClients     = 6
	spreadAddrs     = 2000
	spreadLength    = 6 * time.Hour
	headlessClients = 5
	liarClients     = 3
	apiClients      = 3
	crawlerClients  = 2
)

// populate makes everybody.
func (w *world) populate() {
	w.made = map[Kind]int{}
	taking := w.cfg.Kinds
	if len(taking) == 0 {
		taking = day()
	}
	add := map[Kind]func(){
		People: w.addPeople, Office: w.addOffice, Mobile: w.addMobile, Fast: w.addFast, Slow: w.addSlow, Spread: w.addSpread,
		Headless: w.addHeadless, Liar: w.addLiars, API: w.addAPI, Crawler: w.addCrawlers,
		Odd: w.addOdd, Evasive: w.addEvasive, Guests: w.addGuests, Agents: w.addAgents, Callers: w.addCallers, Timed: w.addTimed,
	}
	for _, k := range taking {
		add[k]()
	}
	if w.shop != nil {
		w.addHarvesters()
	}
}

// client makes a client of a kind. It has its own random numbers, so that adding a client does not change the others.
func (w *world) client(k Kind) *client {
	n := w.made[k]
	w.made[k]++
	return &client{kind: k, number: n, rng: rand.New(rand.NewPCG(w.cfg.Seed, uint64(hashOf(string(k)))<<32|uint64(n)))} //nolint:gosec // not a secret
}

func (w *world) add(c *client) {
	c.order = len(w.queue)
	w.queue = append(w.queue, c)
}

func (w *world) scaled(n int) int { return max(1, int(float64(n)*w.cfg.Scale+0.5)) }

// tool is a program that sends few fields.
func tool(fields ...string) browser {
	b := browser{family: program, name: "program"}
	for i := 0; i+1 < len(fields); i += 2 {
		b.fields = append(b.fields, request.Field{Name: []byte(fields[i]), Value: []byte(fields[i+1])})
	}
	return b
}

// The programs that scrape, and what they send.
func pythonRequests() browser {
	return tool("User-Agent", "python-requests/2.32.3", "Accept-Encoding", "gzip, deflate", "Accept", "*/*", "Connection", "keep-alive")
}

func goClient() browser { return tool("User-Agent", "Go-http-client/1.1", "Accept-Encoding", "gzip") }

func scrapy() browser {
	return tool("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "Accept-Language", "en",
		"User-Agent", "Scrapy/2.11.2 (+https://scrapy.org)", "Accept-Encoding", "gzip, deflate, br")
}

// borrowed is python-requests with a browser's name.
func borrowed(agent []byte) browser {
	return tool("User-Agent", string(agent), "Accept-Encoding", "gzip, deflate", "Accept", "*/*", "Connection", "keep-alive")
}

// halfBrowser is a program that copies the fields that its author thought of.
func halfBrowser(agent []byte) browser {
	return tool("User-Agent", string(agent), "Accept-Encoding", "gzip, deflate, br",
		"Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "Connection", "keep-alive", "Accept-Language", "en-US,en;q=0.5")
}

func (w *world) named(name string) browser {
	for _, b := range w.fleet {
		if b.name == name {
			return b
		}
	}
	return w.fleet[0]
}

// hosting is an address of a data centre.
func hosting(c *client, third byte) netip.Addr {
	return netip.AddrFrom4([4]byte{185, 199, third, byte(10 + c.number*7)})
}

// robot makes a robot that has a single address.
func (w *world) robot(k Kind, b browser, addr netip.Addr) *client {
	c := w.client(k)
	c.browser = b
	c.at = w.cfg.Begin.Add(c.between(0, time.Minute))
	c.address = fixed(addr)
	c.count = c.rng.IntN(articles)
	return c
}

// peek is which client comes next, to choose its address.
func (w *world) peek(k Kind) *client { return &client{number: w.made[k]} }

func (w *world) addFast() {
	chrome := w.named("chrome-142-mac")
	sets := []browser{
		pythonRequests(), goClient(), scrapy(), borrowed(chrome.value("User-Agent")), halfBrowser(chrome.value("User-Agent")), chrome,
	}
	for i := range fastClients {
		c := w.robot(Fast, sets[i%len(sets)], hosting(w.peek(Fast), 108))
		c.until = w.cfg.Begin.Add(time.Hour)
		c.pace = func(c *client) time.Duration { return c.between(80*time.Millisecond, 120*time.Millisecond) }
		c.act = crawl
		w.add(c)
	}
}

func (w *world) addSlow() {
	chrome, firefox := w.named("chrome-150-windows"), w.named("firefox-144-windows")
	sets := []browser{
		pythonRequests(), borrowed(chrome.value("User-Agent")), halfBrowser(firefox.value("User-Agent")), chrome, firefox, chrome,
	}
	for i := range slowClients {
		c := w.robot(Slow, sets[i%len(sets)], hosting(w.peek(Slow), 109))
		c.cookies = i == slowClients-1
		c.pace = func(c *client) time.Duration { return c.between(20*time.Second, 40*time.Second) }
		c.act = crawl
		w.add(c)
	}
}

// crawl requests one page after another, in order, and none of their parts.
func crawl(w *world, c *client) {
	c.count++
	page := w.place.item(c.count)
	if c.count%10 == 0 {
		page = w.place.list(c.count / 10)
	}
	c.then(planned{path: page, dest: destPage})
	c.at = c.at.Add(c.pace(c))
}

func (w *world) addSpread() {
	n := w.scaled(spreadAddrs)
	set := w.named("chrome-136-windows")
	for i := range n {
		// Households in many networks, five addresses in each.
		addr := netip.AddrFrom4([4]byte{byte(100 + i/5%90), byte(16 + i/450), byte(i / 5 * 37), byte(20 + i%5*31)})
		c := w.robot(Spread, set, addr)
		c.at = w.cfg.Begin.Add(c.between(0, spreadLength))
		c.visit = 4 + c.rng.IntN(5)
		c.count = i * 8
		c.pace = func(c *client) time.Duration { return c.between(2*time.Second, 15*time.Minute) }
		c.act = func(w *world, c *client) {
			if c.visit--; c.visit < 0 {
				c.gone = true
				return
			}
			crawl(w, c)
		}
		w.add(c)
	}
}

func (w *world) addHeadless() {
	for i := range headlessClients {
		name := "chrome-150-mac"
		if i%2 == 1 {
			name = "chrome-150-windows"
		}
		c := w.robot(Headless, w.named(name), hosting(w.peek(Headless), 110))
		c.cookies, c.cached, c.lang = true, map[string]bool{}, []byte("en-US,en;q=0.9")
		c.until = w.cfg.Begin.Add(8 * time.Hour)
		c.act = func(w *world, c *client) {
			page := w.place.item(c.count)
			c.count++
			c.load(w, page)
			c.at = c.at.Add(c.between(3*time.Second, 6*time.Second))
		}
		w.add(c)
	}
}

// load plans a page and its parts, as a browser does that is told where to go.
func (c *client) load(w *world, page string) {
	c.then(planned{path: page, dest: destPage})
	for _, p := range w.place.parts(page) {
		if p.dest < destFetch && c.cached[p.path] {
			continue
		}
		c.cached[p.path] = true
		p.ref, p.after = "https://"+w.cfg.Host+page, c.between(2*time.Millisecond, 50*time.Millisecond)
		c.then(p)
	}
}

const googlebot = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"

func googlebotFields() browser {
	return tool("Connection", "keep-alive", "Accept", "text/html,application/xhtml+xml,application/signed-exchange;v=b3,application/xml;q=0.9,*/*;q=0.8",
		"From", "googlebot(at)googlebot.com", "User-Agent", googlebot, "Accept-Encoding", "gzip, deflate, br")
}

func (w *world) addLiars() {
	for range liarClients {
		c := w.robot(Liar, googlebotFields(), hosting(w.peek(Liar), 111))
		c.until = w.cfg.Begin.Add(6 * time.Hour)
		c.pace = func(c *client) time.Duration { return c.between(time.Second, 3*time.Second) }
		c.then(planned{path: "/robots.txt", dest: destPage})
		c.act = crawl
		w.add(c)
	}
}

// crawlerRange is where the simulated Googlebot comes from: one of the networks that its owner publishes.
const crawlerRange = "66.249.66.0/27"

func (w *world) addCrawlers() {
	for i := range crawlerClients {
		c := w.robot(Crawler, googlebotFields(), netip.AddrFrom4([4]byte{66, 249, 66, byte(1 + i)}))
		c.pace = func(c *client) time.Duration { return c.between(time.Second, 20*time.Second) }
		c.then(planned{path: "/robots.txt", dest: destPage})
		c.act = crawl
		w.add(c)
	}
}

func (w *world) addAPI() {
	for range apiClients {
		c := w.robot(API, pythonRequests(), hosting(w.peek(API), 112))
		c.act = func(_ *world, c *client) {
			c.count++
			c.then(planned{path: fmt.Sprintf("/api/list?page=%d", c.count%50+1), dest: destFetch})
			c.at = c.at.Add(c.between(1900*time.Millisecond, 2100*time.Millisecond))
		}
		w.add(c)
	}
}

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
		c.address = fixed4(84, 17, byte(40+c.number), 19)
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
		c.address = fixed4(byte(24+i%60), byte(30+i/60), byte(i*53), byte(5+i%240))
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
