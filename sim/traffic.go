package main

import (
	"container/heap"
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"time"

	"antirobot/replay"
	"antirobot/request"
)

// Kind is a kind of client.
type Kind string

// The kinds. A client reacts to answers: it keeps cookies or drops them, and follows the redirect to a captcha, which no
// robot but some harvesters solves. A person who is challenged with more than a silent check counts as hurt, and leaves.
const (
	People    Kind = "people"    // at home, over several days: a page, its subresources, time to read; several tabs now and then
	Office    Kind = "office"    // two hundred people behind one address, most with the same browser
	Mobile    Kind = "mobile"    // phones behind the addresses of a carrier, which change every few minutes
	Odd       Kind = "odd"       // people who share one habit with robots
	Guests    Kind = "guests"    // people of many sorts
	Callers   Kind = "callers"   // people whose pages and apps poll all day
	Timed     Kind = "timed"     // people who open pages when real ones did
	Crawler   Kind = "crawler"   // Googlebot
	Fast      Kind = "fast"      // a scraper at ten pages a second
	Slow      Kind = "slow"      // a scraper with a page every 20 to 40 seconds, day and night
	Spread    Kind = "spread"    // one scraper over two thousand addresses
	Headless  Kind = "headless"  // a real browser driven by a program
	Liar      Kind = "liar"      // claims to be Googlebot
	API       Kind = "api"       // requests a JSON list every two seconds
	Evasive   Kind = "evasive"   // a browser that never sleeps, and a scraper with another browser's fields at each address
	Agents    Kind = "agents"    // robots of many sorts
	Harvester Kind = "harvester" // wants every page of a shop, once
)

// day are the kinds of a day, which take part if none are requested.
func day() []Kind {
	return []Kind{People, Office, Mobile, Odd, Guests, Crawler, Fast, Slow, Spread, Headless, Liar, API, Evasive, Agents}
}

// kinds returns all kinds but Harvester, which Config.harvest adds.
func kinds() []Kind { return append(day(), Callers, Timed) }

// robot reports whether clients of the kind should be stopped. A verified crawler is a robot that is welcome.
func (k Kind) robot() bool {
	switch k {
	case Fast, Slow, Spread, Headless, Liar, API, Evasive, Agents, Harvester:
		return true
	}
	return false
}

// Site is the site that everybody visits.
type Site string

// The sites.
const (
	Shop   Site = "shop"   // categories, items and articles; many pictures
	Course Site = "course" // courses of units of pages, and a glossary; long texts
)

// Config says what traffic to generate. The zero value of Kinds means all.
type Config struct {
	Seed   uint64
	Kinds  []Kind
	Begin  time.Time     // when the robots begin; people start WarmUp earlier
	Length time.Duration // from Begin
	WarmUp time.Duration // people only, so that their cookies have an age
	Scale  float64       // of the number of people and addresses; 1 is as described by the package
	Host   string
	Via    Via
	Site   Site
	Hidden bool // robots in browsers pass silent checks, as those do that hide how they are driven

	harvester *harvester // that takes part; nil: none
}

// Via is what stands between the clients and the gateway.
type Via string

// The ways to the gateway.
const (
	Direct Via = ""      // clients connect to it
	Nginx  Via = "nginx" // nginx speaks HTTP/2 with clients and, as it does by default, HTTP/1.0 with the gateway
)

// DefaultConfig is one day, after two days of people only.
func DefaultConfig() Config {
	return Config{
		Seed: 1, Begin: time.Date(2026, 3, 4, 9, 0, 0, 0, time.UTC), Length: 24 * time.Hour, WarmUp: 48 * time.Hour, Scale: 1,
		Host: "shop.example", Site: Shop,
	}
}

// Validate returns what is wrong with the configuration.
func (c *Config) Validate() error {
	for _, k := range c.Kinds {
		if !slices.Contains(kinds(), k) {
			return fmt.Errorf("there is no kind of clients %q; there are %q", k, kinds())
		}
	}
	if c.Length <= 0 || c.Length > 31*24*time.Hour || c.WarmUp < 0 || c.WarmUp > 31*24*time.Hour {
		return fmt.Errorf("length %v and warm-up %v must be within 31 days", c.Length, c.WarmUp)
	}
	if c.Via != Direct && c.Via != Nginx {
		return fmt.Errorf("via %q is not %s", c.Via, Nginx)
	}
	if c.Site != Shop && c.Site != Course {
		return fmt.Errorf("site %q is neither %s nor %s", c.Site, Shop, Course)
	}
	if !(c.Scale > 0 && c.Scale <= 100) {
		return fmt.Errorf("scale %v is not between 0 and 100", c.Scale)
	}
	return nil
}

// Server answers requests; *replay.Gateway implements it. A nil Server lets everybody through.
type Server interface {
	Serve(v *request.View, a *replay.Response) *replay.Served
	Show(v *request.View)
	Answer(v *request.View, body []byte) replay.OwnAnswer
}

// Request is one generated request. It is valid until the function that receives it returns.
type Request struct {
	View    *request.View
	Answer  *replay.Response // of the service
	Kind    Kind
	Client  int    // number of the client among those of its kind, from 0
	Habit   string // of odd people, guests, evasive robots and agents
	Page    bool   // a page, or whatever a program asks for
	Led     bool   // it was stopped, and the client is led back with a name of its own: it requests the same again
	More    bool   // its silent check earned no pass: more is asked for
	Product int    // of the shop, from 1, that a harvester requests; 0: none
	Check   bool   // it was stopped for a silent check, which the client's browser takes before it requests the same again
}

// Each is called for every request, after it was served. s is nil without a Server.
type Each func(r *Request, s *replay.Served) error

// Run generates the traffic, in chronological order.
func Run(ctx context.Context, cfg Config, server Server, each Each) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	fleet, err := browsers()
	if err != nil {
		return err
	}
	w := &world{cfg: cfg, place: newPlace(cfg.Site), server: server, each: each, fleet: fleet, end: cfg.Begin.Add(cfg.Length)}
	if cfg.harvester != nil {
		w.place, w.shop = w.place.withCatalogue(), newShop(*cfg.harvester)
	}
	w.populate()
	heap.Init(&w.queue)
	for n := 0; len(w.queue) > 0; n++ {
		if n%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		c := w.queue[0]
		if c.at.After(w.end) {
			return nil
		}
		if err := c.step(w); err != nil {
			return err
		}
		if c.gone {
			heap.Pop(&w.queue)
		} else {
			heap.Fix(&w.queue, 0)
		}
	}
	return nil
}

// world is the state of a run.
type world struct {
	cfg    Config
	place  *place
	server Server
	each   Each
	fleet  []browser
	end    time.Time
	queue  clientHeap
	shop   *shop // that the harvester empties
	made   map[Kind]int

	view   request.View
	fields []request.Field   // room for those of the next request
	small  map[string][]byte // names of fields in lower case
	answer replay.Response
	req    Request
}

// client is one client of a kind.
type client struct {
	kind   Kind
	number int
	rng    *rand.Rand
	at     time.Time // of its next step
	gone   bool
	order  int
	browser
	address  func(c *client) netip.Addr
	act      func(w *world, c *client) // fills plan, or sets gone
	cookies  bool                      // keeps them
	iCookie  string
	session  string
	cached   map[string]bool
	lang     []byte
	plan     []planned
	room     []planned // in which plans are made
	page     string    // where it is
	from     netip.Addr
	changeAt time.Time
	visit    int       // pages left in this visit
	until    time.Time // end of the client's traffic
	count    int       // pages made
	stops    int       // consecutive
	pace     func(c *client) time.Duration
	sizes    func(page string) int // of pages, in bytes

	habit     string
	mind      *mind    // of guests and agents
	trail     []string // the pages to which the back button leads
	noReferer bool
	scripted  bool              // its links are clicked by a script
	uncached  bool              // wants nothing from a cache
	bare      bool              // only the oldest fields, for parts of pages too
	night     bool              // awake when others sleep
	tabs      int               // how many are opened at once
	only      func(d dest) bool // which parts of a page are requested; nil: all
	warm      bool              // the others are in its cache
	unchecked bool              // its last silent check earned no pass
	nomad     bool              // switches to another address when it is stopped
	probe     string            // the cookie by which the captcha page sees that cookies are kept
	pass      string            // the cookie of the pass that it earned
	reply     string            // the answer to the picture that it reads; empty: it reads none
}

// planned is a request to be made.
type planned struct {
	after time.Duration // after the previous one
	path  string
	ref   string
	from  string // the page that led here, for clients that withhold the Referer
	dest  dest
	post  bool
	scan  bool       // a link scanner requests it, before the person does
	by    *browser   // another browser requests it, without cookies …
	at    netip.Addr // … from here

	product int // of the shop, from 1; 0: another page
}

// step makes the next planned request, or lets the client plan again.
func (c *client) step(w *world) error {
	if len(c.plan) == 0 {
		c.plan = c.room
		c.act(w, c)
		if n := cap(c.plan); n > cap(c.room) && n <= 64 {
			c.room = c.plan[:0]
		}
		if len(c.plan) > 0 {
			c.at = c.at.Add(c.plan[0].after)
		}
		if !c.until.IsZero() && c.at.After(c.until) {
			c.gone = true
		}
		return nil
	}
	p := c.plan[0]
	c.plan = c.plan[1:]
	err := w.serve(c, &p)
	if len(c.plan) > 0 {
		c.at = c.at.Add(c.plan[0].after)
	}
	return err
}

// then plans a request.
func (c *client) then(p planned) { c.plan = append(c.plan, p) }

// wait lets time pass before the next plan.
func (c *client) wait(d time.Duration) { c.at = c.at.Add(d) }

// between returns a uniformly distributed duration between two.
func (c *client) between(a, b time.Duration) time.Duration {
	return a + time.Duration(c.rng.Int64N(int64(b-a)+1))
}

// serve makes one request and lets the client react to the answer.
func (w *world) serve(c *client, p *planned) error {
	if p.dest == destCheck {
		w.check(c, p.path)
		return nil
	}
	v := &w.view
	c.fill(v, p, w.cfg.Host)
	if w.cfg.Via == Nginx {
		w.throughNginx(v)
	}
	w.answer = site(p.path, p.dest, c.rng)
	w.req = Request{View: v, Answer: &w.answer, Kind: c.kind, Client: c.number, Habit: c.habit, Page: p.dest == destPage || c.family == program, Product: p.product}
	if w.shop != nil {
		w.answer.Advised = w.shop.by.check
	}
	if p.dest == destCaptcha { // the gateway's own
		w.server.Show(v)
		return nil
	}
	var s *replay.Served
	if w.server != nil {
		w.answer.Follows = w.mayCheck(c)
		s = w.server.Serve(v, &w.answer)
		c.learn(w, p, s)
	}
	if p.product > 0 && (s == nil || !s.Stopped) {
		w.shop.deliver(p.product - 1)
	}
	if c.cookies && c.session == "" && p.dest == destPage {
		c.session = fmt.Sprintf("sid=%016x", c.rng.Uint64())
	}
	return w.each(&w.req, s)
}

// learn is how a client reacts to an answer. It follows the redirect to a captcha as a separate step.
func (c *client) learn(w *world, p *planned, s *replay.Served) {
	if p.scan || p.by != nil { // somebody else's: the client sees nothing of it
		return
	}
	if len(s.SetCookie) > 0 && c.cookies {
		value, _, _ := strings.Cut(string(s.SetCookie), ";")
		c.iCookie = value
	}
	if !s.Stopped || !s.Decision.Stops() {
		c.stops = 0
		return
	}
	if w.req.Led = len(s.SetCookie) > 0 && c.cookies; w.req.Led {
		p.after = 200 * time.Millisecond
		c.plan = slices.Insert(c.plan, 0, *p)
		return
	}
	if w.req.Check = w.goesOn(c, p, s); w.req.Check {
		return
	}
	c.stops++
	if p.dest == destPage {
		c.plan = c.plan[:0] // no page, no parts
		c.then(planned{after: 200 * time.Millisecond, path: captchaPath, dest: destCaptcha})
	}
	if !c.kind.robot() { // a person is hurt, and leaves
		c.visit = 0
		return
	}
	if c.kind != Harvester && c.stops > givesUpAfter { // even a robot has a programmer
		c.stops = 0
		c.wait(givesUpFor)
	}
}

const (
	captchaPath  = "/showcaptcha"
	givesUpAfter = 50
	givesUpFor   = 10 * time.Minute
)

// clientHeap orders clients by their next step.
type clientHeap []*client

func (h clientHeap) Len() int { return len(h) }

func (h clientHeap) Less(i, k int) bool {
	if c := h[i].at.Compare(h[k].at); c != 0 {
		return c < 0
	}
	return h[i].order < h[k].order
}

func (h clientHeap) Swap(i, k int) { h[i], h[k] = h[k], h[i] }

// Push implements heap.Interface.
func (h *clientHeap) Push(x any) {
	if c, ok := x.(*client); ok {
		*h = append(*h, c)
	}
}

// Pop implements heap.Interface.
func (h *clientHeap) Pop() any {
	old := *h
	n := len(old) - 1
	c := old[n]
	*h = old[:n]
	return c
}
