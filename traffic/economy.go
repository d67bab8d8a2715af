package traffic

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"antirobot/replay"
)

// Harvester robots want every page of a shop, once: what they get in a day shows the economics of the gateway.
const Harvester Kind = "harvester"

// shopPages is how many pages of the shop harvesters want.
const shopPages = 20_000

// Make is a kind of harvester.
type Make struct {
	Name  string  `json:"name"`
	Does  string  `json:"does"`
	Bar   float64 `json:"bar"`                // the largest share of the shop that it may get in a day
	Check bool    `json:"check,omitempty"`    // the gateway advises a balancer: it does not know the answers
	Held  bool    `json:"held_out,omitempty"` // held out: no constant was set by it
	Early bool    `json:"early,omitempty"`    // it prepares while only people are active: takes effect only with a warm-up

	Days   int  `json:"days,omitempty"`   // that it goes on for; 0: one
	Solves bool `json:"solves,omitempty"` // it answers captchas
	Long   bool `json:"long,omitempty"`   // not part of the tests: it takes minutes, or more people than these have

	clients int
	pace    time.Duration // between two requests of a client
	vary    bool          // it is between half as long and half as long again
	parts   bool          // it loads the parts of each page that it does not have yet, as a browser does …
	oneIn   int           // … but only one in so many; 0: all
	fresh   int           // it throws its cookies away after so many pages, and when it is stopped; 0: never
	solves  solves
	ahead   time.Duration // how long people are known at least, where it prepares for longer than others
	// dress equips a client, ask fills in what it requests.
	dress func(w *world, c *client)
	ask   func(c *client, n int) planned
}

// household is the largest share of the shop that one address may get without solving, and crowd that of a network of
// many.
const (
	householdBar = 0.01
	networkBar   = 8 * householdBar
	hundredBar   = 0.10
)

// Makes returns the harvesters by which the budget was set, in the order of the tables.
func Makes() []Make {
	second := 100 * time.Millisecond
	one := func(name, does string, dress func(*world, *client), ask func(*client, int) planned) Make {
		return Make{Name: name, Does: does, Bar: householdBar, clients: 1, pace: second, dress: dress, ask: ask}
	}
	typed := func(name, as string) Make {
		return one("image-"+name, "Sec-Fetch-Dest: image, and answers "+as, oneAddress, func(_ *client, n int) planned {
			return planned{path: productPath(n) + "?as=" + name, dest: destImage}
		})
	}
	network := func(bits int) Make {
		m := one(fmt.Sprintf("ipv6-%d", bits), fmt.Sprintf("another address of its /%d for each page", bits), rotating(bits), pageOf)
		m.Bar = networkBar
		if bits == 64 {
			m.Bar = householdBar
		}
		return m
	}
	list := []Make{
		one("browser", "the fields of Chrome, ten pages a second", oneAddress, pageOf),
		one("patient", "the same at a page in twenty seconds", oneAddress, pageOf),
		one("cors", "Sec-Fetch-Mode: cors: a script, it says; two pages a second", oneAddress, as(destFetch, "")),
		one("cfnetwork", "CFNetwork: an app, it says; two pages a second", app, pageOf),
		typed("vnd.api+json", "application/vnd.api+json"), typed("ld+json", "application/ld+json"), typed("text", "text/plain"),
		typed("csv", "text/csv"), typed("pdf", "application/pdf"), typed("none", "no type"), typed("ranges", "multipart/byteranges"),
		one("css", "/product/1/a.css, which answers with the page", oneAddress, as(destStyle, "/a.css")),
		network(64), network(56), network(48), network(32),
		{Name: "burst", Does: "forty pages at once from an address, then from the next of its /24", Bar: networkBar, clients: 1, pace: time.Millisecond, dress: bursts, ask: pageOf},
		{Name: "jars", Does: "forty cookie jars behind one address", Bar: householdBar, clients: 40, pace: 4 * time.Second, dress: jar, ask: pageOf},
		{Name: "agents", Does: "forty User-Agents behind one address", Bar: householdBar, clients: 40, pace: 4 * time.Second, dress: agents, ask: pageOf},
		{Name: "aged", Does: "forty-one i cookies behind one address, made the day before", Bar: householdBar, Early: true, clients: 41, pace: 4 * time.Second, dress: aged, ask: pageOf},
		{Name: "farm", Does: "forty-one i cookies behind one address, each seen with a page and its parts on two days", Bar: householdBar, Early: true, clients: 41, pace: 4 * time.Second, dress: farmed, ask: pageOf},
		{Name: "farm-office", Does: "twenty of them at the address of an office, beside its people", Bar: householdBar * 1.2, Early: true, clients: 20, pace: 4 * time.Second, dress: farmedInOffice, ask: pageOf},
		{Name: "jars-office", Does: "twenty cookie jars at the address of an office, beside its people, with the browser that most have there; a page in ten to thirty seconds from each", Bar: 1.2 * householdBar, vary: true, clients: 20, pace: 20 * time.Second, dress: jarInOffice, ask: pageOf},
		{Name: "jars-office-parts", Does: "the same, and loads the parts of each page", Bar: networkBar, Long: true, vary: true, parts: true, clients: 20, pace: 20 * time.Second, dress: jarInOffice, ask: pageOf},
		{Name: "jars-office-quarter", Does: "the same, and loads a quarter of the parts", Bar: networkBar, Long: true, vary: true, parts: true, oneIn: 4, clients: 20, pace: 20 * time.Second, dress: jarInOffice, ask: pageOf},
		{Name: "jars-office-fresh", Does: "the same with all parts, and another jar after twelve pages, or when it is stopped", Bar: networkBar, Long: true, vary: true, parts: true, fresh: 12, clients: 20, pace: 20 * time.Second, dress: jarInOffice, ask: pageOf},
		{Name: "aged-office", Does: "a hundred i cookies at the address of an office, made the day before", Bar: 2 * householdBar, Early: true, Long: true, vary: true, clients: 100, pace: 20 * time.Second, dress: agedInOffice, ask: pageOf},
		{Name: "aged-parts", Does: "thirty i cookies behind one address, as many as it may have, made the day before with a page and its parts; a page a minute from each, and its parts", Bar: 2.5 * householdBar, Early: true, Long: true, parts: true, clients: 30, pace: time.Minute, dress: agedParts, ask: pageOf},
		{Name: "campus", Does: "four hundred i cookies behind one address, each seen with a page and its parts on two days; a page in five minutes from each, with its parts", Bar: networkBar, Early: true, Long: true, parts: true, clients: 400, pace: 5 * time.Minute, dress: campus(2), ask: pageOf},
		{Name: "campus-week", Does: "the same, seen on seven days", Bar: networkBar, Early: true, Long: true, parts: true, clients: 400, pace: 5 * time.Minute, ahead: earliest + 5*24*time.Hour, dress: campus(7), ask: pageOf},
		{Name: "fuids", Does: "two hundred invented fuids behind one address, first shown the day before", Bar: householdBar, Early: true, clients: 200, pace: 20 * time.Second, dress: fuid, ask: pageOf},
		{Name: "fuids-net", Does: "as many as count, sixteen behind each of eight addresses of a /24", Bar: networkBar, Early: true, clients: 128, pace: 20 * time.Second, dress: fuidsOfNet, ask: pageOf},
		{Name: "fuids-moved", Does: "two hundred, twenty-five behind each of eight addresses in as many /24s; then each moves on to the next one after every page", Bar: networkBar, Early: true, Long: true, clients: 200, pace: 20 * time.Second, dress: fuidsMoved, ask: pageOf},
		{Name: "households", Does: "a hundred household addresses, a page a minute from each", Bar: hundredBar, clients: 100, pace: time.Minute, dress: household, ask: pageOf},
		{Name: "households-parts", Does: "the same, and loads the parts of each page", Bar: hundredBar, clients: 100, pace: time.Minute, parts: true, dress: household, ask: pageOf},
		{Name: "established", Does: "a hundred households, each seen with a page and its parts on two days, a page a minute from each", Bar: hundredBar, Early: true, Long: true, clients: 100, pace: time.Minute, dress: established, ask: pageOf},
		{Name: "check-image", Does: "check mode: Sec-Fetch-Dest: image", Bar: householdBar, Check: true, clients: 1, pace: second, dress: oneAddress, ask: as(destImage, "")},
		{Name: "check-css", Does: "check mode: /product/1/a.css", Bar: householdBar, Check: true, clients: 1, pace: second, dress: oneAddress, ask: as(destStyle, "/a.css")},
		{Name: "check-cors", Does: "check mode: Sec-Fetch-Mode: cors", Bar: householdBar, Check: true, clients: 1, pace: 450 * time.Millisecond, dress: oneAddress, ask: as(destFetch, "")},
	}
	list[1].pace, list[2].pace, list[3].pace = 20*time.Second, 450*time.Millisecond, 450*time.Millisecond // below every limit
	return list
}

// Harvest is what a harvester got in a day, and what happened to the people beside it.
type Harvest struct {
	Make
	Requests  int     `json:"requests"`
	Delivered int     `json:"delivered"` // different pages of the shop
	Share     float64 `json:"share"`     // of the pages that it would have got from an unprotected shop, for each day
	Solved    int     `json:"solved,omitempty"`
	CPU       float64 `json:"cpu,omitempty"` // seconds of CPU for a page, spent on captchas

	Visits  int `json:"visits"`  // of people, from the time when the harvester begins
	Asked   int `json:"asked"`   // visits in which they met more than that: a button, or digits
	Checked int `json:"checked"` // visits in which they met the silent check
	Stopped int `json:"stopped"` // visits in which they were taken for robots

	Why map[string]int `json:"why,omitempty"` // visits in which they were asked or stopped, by who they are and why
}

// Within reports whether the harvester got no more than its bar allows, and people were left in peace.
func (h *Harvest) Within() bool {
	return h.Share <= h.Bar && h.Stopped == 0 && float64(h.Asked) <= 0.01*float64(h.Visits) && float64(h.Checked) <= 0.03*float64(h.Visits)
}

// harvestGiveUp is how long a harvester with a fixed address rests when it is stopped, and longer each time it is stopped
// again, up to harvestPatience times as long.
const (
	harvestGiveUp   = time.Minute
	harvestPatience = 10
)

// nomadGiveUp is how long a harvester rests that can switch to another address.
const nomadGiveUp = 5 * time.Second

// RunHarvest runs one make alongside the people of cfg.
func RunHarvest(ctx context.Context, cfg Config, m Make, server Server) (Harvest, error) {
	h := Harvest{Make: m}
	cfg.Kinds = []Kind{People, Office, Mobile, Odd, Crawler}
	if m.Held {
		cfg.Seed += heldSeedOfPeople
	}
	cfg.harvest = &shop{make: m, got: make([]bool, shopPages)}
	if m.Days > 0 {
		cfg.Length *= time.Duration(m.Days)
	}
	if m.Early { // it is not older than the site's people
		cfg.WarmUp = max(cfg.WarmUp, earliest, m.ahead)
	}
	visits := map[visitor]*visit{}
	err := Run(ctx, cfg, server, nil, func(r *Request, s *replay.Served) error {
		if r.Kind == Harvester {
			if n := cfg.harvest.asked; n >= 0 {
				h.Requests++
				if s == nil || !s.Stopped {
					cfg.harvest.deliver(n)
				}
			}
			return nil
		}
		if r.Kind == Crawler || r.Led || r.View.At.Before(cfg.Begin) {
			return nil
		}
		h.see(visits, r, s)
		return nil
	})
	h.Delivered = cfg.harvest.n
	h.Share = float64(h.Delivered) / float64(m.unhindered(cfg.Length)*max(m.Days, 1))
	h.Solved = cfg.harvest.solved
	h.CPU = cfg.harvest.cpu().Seconds() / float64(max(h.Delivered, 1))
	return h, err
}

// unhindered is what a make would get if nobody stopped it.
func (m *Make) unhindered(d time.Duration) int {
	return min(shopPages, m.clients*int(d/m.pace))
}

// visitor is one of the people.
type visitor struct {
	kind   Kind
	number int
}

// visit is the current visit of a person.
type visit struct {
	last           time.Time
	asked, stopped bool
	checked        bool
}

// visitPause is the pause after which a person's next request begins another visit.
const visitPause = 30 * time.Minute

func (h *Harvest) see(visits map[visitor]*visit, r *Request, s *replay.Served) {
	who := visitor{r.Kind, r.Client}
	v := visits[who]
	if v == nil {
		v = &visit{}
		visits[who] = v
	}
	if r.View.At.Sub(v.last) > visitPause {
		*v = visit{}
		h.Visits++
	}
	v.last = r.View.At
	switch {
	case s == nil || !s.Stopped:
		return
	case r.Check, s.Checks() && s.Decision.Step.String() == "check" && !r.More: // a page with a button, where no scripts run
		if !v.checked {
			v.checked = true
			h.Checked++
		}
		return
	}
	if s.Asked() && !v.asked {
		v.asked = true
		h.Asked++
		h.why(r, s.Why())
	} else if !s.Asked() && !v.stopped {
		v.stopped = true
		h.Stopped++
		h.why(r, s.Why())
	}
}

func (h *Harvest) why(r *Request, why string) {
	if h.Why == nil {
		h.Why = map[string]int{}
	}
	who := string(r.Kind)
	if r.Habit != "" {
		who += " (" + r.Habit + ")"
	}
	h.Why[who+": "+why]++
}

// shop is what a harvester has got of the shop.
type shop struct {
	make  Make
	next  int // where to look for a missing page
	asked int // the page requested by the current request; -1: none
	got   []bool
	n     int
	paid
}

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
	m := &w.cfg.harvest.make
	for range m.clients {
		c := w.client(Harvester)
		c.browser = w.named("chrome-150-windows")
		c.at = w.cfg.Begin.Add(c.between(0, min(m.pace, time.Minute)))
		m.dress(w, c)
		if c.act == nil {
			c.act = harvest
		}
		w.add(c)
	}
}

// harvest plans the next page of the shop.
func harvest(w *world, c *client) {
	s := w.cfg.harvest
	if c.reply == "" {
		c.at = c.at.Add(c.untilNext(&s.make))
	}
	switch {
	case c.stops == 0:
	case s.make.Solves:
		if wait := c.solve(w); wait > 0 && c.nomad && c.reply == "" {
			c.wait(nomadGiveUp)
			c.count++
			return
		} else if wait > 0 {
			c.wait(wait)
			return
		}
		c.stops = 0
	case c.nomad:
		c.wait(nomadGiveUp)
	default:
		c.wait(harvestGiveUp * time.Duration(min(c.stops, harvestPatience)))
	}
	n, more := s.lacking()
	if !more {
		c.gone = true
		return
	}
	c.count++
	c.renewJar(&s.make)
	if s.make.solves.shared {
		c.pass = s.pass
	}
	p := s.make.ask(c, n)
	p.product = n + 1
	if !s.make.parts {
		c.then(p)
		return
	}
	if c.cached == nil {
		c.cached = map[string]bool{}
	}
	c.load(w, p.path)
	c.plan[0] = p
	c.thin(s.make.oneIn)
}

// untilNext is how long a harvester waits before its next page.
func (c *client) untilNext(m *Make) time.Duration {
	if m.vary {
		return c.between(m.pace/2, m.pace*3/2)
	}
	return m.pace
}
