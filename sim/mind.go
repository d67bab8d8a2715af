package main

import (
	"math"
	"math/rand/v2"
	"net/netip"
	"time"
)

// mind is how a visitor moves through a site: how long a page is viewed, and what comes next.
//
// The dwell time of people follows Weibull's distribution with a shape below one, as Liu, White and Dumais found for
// 98.5 % of the pages that they measured ("Understanding web browsing behaviors through Weibull analysis of dwell
// time", SIGIR 2010): most leave at once or stay for long. How often they go back, reload and open several links is of
// the order that Obendorf et al. found ("Web page revisitation revisited", CHI 2007), and differs from person to
// person.
type mind struct {
	pause  func(c *client, page string) time.Duration
	back   float64 // the chance of going back …
	again  float64 // … of loading the page again
	branch float64 // … of opening several of its links
	first  float64 // how strongly the first links of a page are preferred
	pages  float64 // of a visit, on average
	inTabs int     // most links opened at once
	quiet  bool    // going back always requests the page again: pages are not cached

	every time.Duration // a script of each page makes a request this often …
	ask   planned       // … for this …
	most  time.Duration // … and for this long
}

// reader makes the mind of a person; no two are alike.
func reader(c *client) *mind {
	scale := 22 * math.Exp(0.5*c.rng.NormFloat64())
	shape := 0.55 + 0.35*c.rng.Float64()
	bySize := 0.7 * c.rng.Float64()
	m := &mind{
		back: 0.05 + 0.3*c.rng.Float64(), again: 0.03 * c.rng.Float64(), branch: 0.02 + 0.2*c.rng.Float64(), first: 1 + 2*c.rng.Float64(),
		pages: 4 + 14*c.rng.Float64(), inTabs: 2 + c.rng.IntN(4),
	}
	m.pause = func(c *client, page string) time.Duration {
		read := math.Pow(float64(c.sizes(page))/20000, bySize)
		s := scale * read * math.Pow(c.rng.ExpFloat64(), 1/shape)
		return seconds(min(max(s, 0.6), 1500))
	}
	return m
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// stroll plans the next page of a visitor with a mind, or the next visit.
func stroll(w *world, c *client) {
	m := c.mind
	switch {
	case c.visit == 0 && c.count > 0:
		c.rest()
		c.count, c.visit = 0, -1
		return
	case c.visit <= 0:
		c.arrive(w)
		return
	}
	c.visit--
	delay := c.stay(w)
	host := "https://" + w.cfg.Host
	switch chance := c.rng.Float64(); {
	case chance < m.back && len(c.trail) > 1:
		c.trail = c.trail[:len(c.trail)-1]
		c.page = c.trail[len(c.trail)-1]
		if !m.quiet && c.rng.IntN(2) == 0 { // the browser has it in its cache: nothing is requested
			c.wait(delay)
			return
		}
		from := ""
		if n := len(c.trail); n > 1 {
			from = host + c.trail[n-2]
		}
		c.open(w, c.page, from, delay)
	case chance < m.back+m.again:
		c.open(w, c.page, host+c.page, delay)
	case chance < m.back+m.again+m.branch:
		from := c.page
		for range 2 + c.rng.IntN(m.inTabs) {
			c.open(w, c.pick(w, from), host+from, delay)
			delay = c.between(400*time.Millisecond, 4*time.Second)
		}
		c.enter(c.page)
	default:
		next := c.pick(w, c.page)
		c.open(w, next, host+c.page, delay)
		c.enter(next)
	}
}

// arrive begins a visit.
func (c *client) arrive(w *world) {
	c.visit = min(1+int(c.rng.ExpFloat64()*c.mind.pages), 4*longVisit)
	ref := [...]string{"", "https://www.google.com/", "https://www.google.com/", "https://news.example/"}[c.rng.IntN(4)]
	c.trail = c.trail[:0]
	page := w.place.entrance(c.rng)
	c.open(w, page, ref, 0)
	c.enter(page)
}

// enter records where the client is.
func (c *client) enter(page string) {
	if c.trail = append(c.trail, page); len(c.trail) > 50 {
		c.trail = c.trail[1:]
	}
}

// pick is a link of a page, preferring the first ones.
func (c *client) pick(w *world, page string) string {
	var room [64]string
	list := w.place.links(room[:0], page)
	return list[int(math.Pow(c.rng.Float64(), c.mind.first)*float64(len(list)))]
}

// stay is how long the client looks at its page. Meanwhile the page's script may poll.
func (c *client) stay(w *world) time.Duration {
	m := c.mind
	d := m.pause(c, c.page)
	if m.every == 0 {
		return d
	}
	p := m.ask
	p.ref = "https://" + w.cfg.Host + c.page
	for most := min(d, m.most); most > m.every; most -= m.every {
		p.after = m.every
		c.then(p)
		d -= m.every
	}
	return max(d, 0)
}

// sort is a sort of guests or agents.
type sort struct {
	name  string
	n     int
	dress func(w *world, c *client)
}

// addSorts adds the clients of each sort.
func (w *world) addSorts(k Kind, list []sort) {
	for _, s := range list {
		for i := range w.scaled(s.n) {
			c := w.client(k)
			c.rng = rand.New(rand.NewPCG(w.cfg.Seed, uint64(hashOf(s.name))<<32|uint64(i))) //nolint:gosec // not a secret
			c.habit, c.sizes = s.name, w.place.size
			c.cookies, c.cached, c.lang = true, map[string]bool{}, []byte(languages[i%len(languages)].text)
			w.choose(c, func(b *browser) bool { return b.name != "tor-14-mac" })
			c.address = fixed(household24(c))
			c.at = w.cfg.Begin.Add(c.between(0, 10*time.Minute))
			s.dress(w, c)
			w.add(c)
		}
	}
}

// household24 is an address of a household, in a network that nobody else uses.
func household24(c *client) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(31 + c.rng.IntN(140)), byte(c.rng.IntN(256)), byte(c.rng.IntN(256)), byte(1 + c.rng.IntN(254))})
}
