package sim

import (
	"math"
	"sort"
	"strings"
)

// Traits are what makes one person differ from another; they are drawn once.
type Traits struct {
	Slow     float64 // multiplies pauses; spread between people
	SD       float64 // spread within the person
	Glance   float64 // share of pages only glanced at
	K        float64 // Weibull shape of interest, below 1: negative ageing
	WPM      float64
	Pace     float64 // seconds a screen when scrolling
	Tabs     float64
	Depth    float64
	Distract float64
	Shift    float64 // hours later than others
	Stay     float64 // pages of a usual visit
}

// Agent is somebody or something with a browser.
type Agent struct {
	*Browser
	T      Traits
	Index  int
	Clock  int // hours the own zone is ahead of the site's
	pool   *[]trace
	group  uint64
	places []string
}

type trace struct {
	steps []step
	c     *Client
}

func traits(r *Rand) Traits {
	return Traits{
		Slow: r.logN(1, 0.45), SD: r.u(0.45, 0.95), Glance: r.u(0.05, 0.45), K: r.u(0.6, 0.95),
		WPM: r.logN(235, 0.28), Pace: r.logN(4.5, 0.5), Tabs: r.u(0, 0.4), Depth: r.u(0.3, 0.98),
		Distract: r.logN(0.02, 0.7), Shift: r.NormFloat64() * 1.3, Stay: r.logN(7, 0.6),
	}
}

// dwell is how long this person stays with the page.
func (a *Agent) dwell(interest float64) float64 {
	p, t, r := a.page(), a.T, a.r
	var s float64
	switch {
	case p.Status >= 400:
		s = r.logN(3.2*math.Sqrt(t.Slow), 0.6)
	case r.p(t.Glance / max(0.3, interest)):
		s = r.logN(2.6*math.Sqrt(t.Slow), 0.55)
	default:
		full := float64(p.Words) / t.WPM * 60
		s = min(1.7, r.weib(t.K, 0.42*interest))*full + r.logN(3*t.Slow, t.SD)
	}
	if r.p(t.Distract) {
		s += r.logN(70, 1.3)
	}
	return max(0.6, s)
}

// read looks at the page as far as it holds the person.
func (a *Agent) read(interest float64) {
	d := a.dwell(interest)
	if a.site.Preview != nil && !a.C.Mobile && !a.NoJS && !a.Bare && d > 4 && a.r.p(0.3) {
		for range a.r.n(1, 3) { // the pointer rests on a link
			a.look(d*a.r.u(0.1, 0.3), 1+d*0.2/a.T.Pace)
			if l, ok := a.choose(a.of("related")); ok {
				a.call("GET", a.site.Preview(l.URL), "fetch")
			}
		}
		d *= 0.6
	}
	if a.site.Hover == "prefetch" && !a.C.Mobile && a.r.p(0.25) {
		for range a.r.n(1, 3) { // the pointer passes over links that are not clicked
			a.look(d*a.r.u(0.05, 0.25), 1+d*0.2/a.T.Pace)
			if l, ok := a.choose(a.of("item", "related")); ok {
				a.hover(l, 1)
			}
		}
		d *= 0.7
	}
	a.look(d, 1+min(a.page().Height*a.T.Depth*a.r.u(0.6, 1.4), d/a.T.Pace))
}

// of gives the links of some kinds that are on the page.
func (a *Agent) of(kinds ...string) []Link {
	var out []Link
	for _, l := range a.page().Links {
		for _, k := range kinds {
			if l.Kind == k {
				out = append(out, l)
			}
		}
	}
	return out
}

// choose takes one of the links as people do: what they saw, the upper ones
// more often, the interesting ones more often.
func (a *Agent) choose(ls []Link) (Link, bool) {
	if len(ls) == 0 {
		return Link{}, false
	}
	seen := max(1, a.page().depth) + 0.7
	w := make([]float64, len(ls))
	any := false
	for i, l := range ls {
		if l.Pos <= seen {
			w[i], any = (0.2+l.Pop)*math.Exp(-l.Pos/4), true
		}
	}
	if !any {
		return ls[0], true
	}
	return ls[a.r.weighted(w)], true
}

// follow clicks one of the links of these kinds.
func (a *Agent) follow(kinds ...string) bool {
	l, ok := a.choose(a.of(kinds...))
	if !ok {
		return false
	}
	a.click(l)
	return true
}

// uniform clicks any of the links, as most programs do.
func (a *Agent) uniform(kinds ...string) bool {
	ls := a.of(kinds...)
	if len(ls) == 0 {
		return false
	}
	a.click(pick(a.r, ls))
	return true
}

// popular is an item that people come for: recent ones and lasting favourites.
func (a *Agent) popular() int {
	n := a.site.count(a.now)
	if a.r.p(0.55) {
		return n - 1 - a.r.zipf(min(n, 400), 1.1)
	}
	return hn(n, a.site.Name, "fav", a.r.zipf(200, 1))
}

func (a *Agent) term() string { return a.site.Terms[a.r.zipf(len(a.site.Terms), 0.8)] }

// arrive opens the site the way people come to it.
func (a *Agent) arrive(how string) {
	s := a.site
	switch how {
	case "search", "social", "mail":
		a.goTo(s.Item(a.popular()), external(a.r, how))
	case "list":
		a.goTo(s.List(a.r.zipf(s.Lists, 0.8), 1), external(a.r, "search"))
	default:
		a.goTo(s.Home, "")
	}
}

func (a *Agent) come() {
	if a.who.Label == 0 && a.r.p(0.02) && !a.site.Soft { // an old bookmark
		u := strings.TrimSuffix(a.site.Item(a.popular()), "/")
		a.goTo(u[:len(u)-1]+"~"+word(1, a.now), "")
		a.look(a.r.logN(4, 0.6), 1)
		a.open(a.site.Home, "", "none")
		return
	}
	a.arrive([]string{"search", "social", "mail", "list", "home"}[a.r.weighted([]float64{40, 8, 5, 17, 30})])
}

// find types a query; suggestions are fetched while typing.
func (a *Agent) find(q string) {
	s := a.site
	if s.Search == nil {
		return
	}
	if s.Suggest != nil && !a.NoJS && !a.Bare && len(q) > 3 {
		last := 0
		for i := 3; i <= len(q); i += a.r.n(1, 3) {
			a.wait(a.r.logN(0.35, 0.4))
			a.call("GET", s.Suggest(q[:i]), "json")
			last = i
		}
		a.wait(a.r.logN(0.15*float64(len(q)-last)+0.7, 0.4))
	} else {
		a.wait(a.r.logN(0.28*float64(len(q))+1, 0.35))
	}
	if a.page().URL == "" {
		a.goTo(s.Search(q), "")
		return
	}
	a.click(Link{URL: s.Search(q), Kind: "form"})
}

// Hours of the day by what kind of people come.
var (
	publicHours  = []float64{2, 1, .6, .4, .4, .7, 2, 4, 5, 5.5, 6, 6, 6.5, 6, 5.5, 5.5, 6, 6.5, 7, 8, 9, 9, 7, 4}
	workHours    = []float64{.1, .05, .05, .05, .1, .4, 1.5, 5, 9, 10, 10, 9, 6, 8, 9, 9, 7, 4, 2, 1, .8, .7, .4, .2}
	eveningHours = []float64{3, 1.5, .6, .3, .2, .3, 1, 2, 2, 1.5, 1.5, 2, 3, 2, 2, 2, 3, 5, 7, 9, 11, 12, 10, 6}
	nightHours   = []float64{9, 10, 9, 8, 5, 3, 1, .5, .5, .5, .5, .5, .5, .5, .5, .5, .5, .7, 1, 1, 2, 3, 5, 8}
	flatHours    = []float64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}
)

// at is a time of the log: day d, hour h in the site's zone.
func (a *Agent) at(d int, h float64) int64 {
	return a.site.Start + int64(d)*day + int64(h*float64(hour))
}

func (a *Agent) end() int64 { return a.site.Start + int64(a.site.Days)*day }

// visits holds sessions spread over the days of the log.
func (a *Agent) visits(perDay float64, hours []float64, f func()) {
	total := perDay * (float64(a.site.Days) + 0.1)
	n := int(total)
	if a.r.p(total - float64(n)) {
		n++
	}
	n = max(1, n)
	var starts []int64
	for range n {
		h := float64(a.r.weighted(hours)) + a.r.Float64() + a.T.Shift - float64(a.Clock)
		d, h := a.r.n(0, a.site.Days-1), math.Mod(h+48, 24)
		if h > 22.5 && len(starts) > 0 && a.r.p(1/float64(a.site.Days+1)) { // still there when the log begins
			d = -1
		}
		starts = append(starts, a.at(d, h))
	}
	sort.Slice(starts, func(i, j int) bool { return starts[i] < starts[j] })
	for _, t := range starts {
		a.begin(max(t, a.now+int64(a.r.logN(900, 1)*1000)), f)
	}
}

// begin holds one session from a time on.
func (a *Agent) begin(t int64, f func()) {
	if t >= a.end() {
		return
	}
	if t > a.now {
		a.sleep(float64(t-a.now) / 1000)
	}
	for _, p := range a.places {
		if p == a.Addr && !a.ByAddr {
			a.Addr = pick(a.r, a.places)
			break
		}
	}
	f()
	if a.C.Mobile && a.r.p(0.5) && a.tab != nil { // a phone is just put away
		a.goodbye(a.tab)
		a.tab.hidden = true
		if len(a.tabs) > 6 {
			a.quit()
		}
		return
	}
	a.quit()
}

// enough says whether the visit ends after so many pages; the more pages, the
// likelier one more.
func (a *Agent) enough(pages int) bool {
	return a.r.p(1/a.T.Stay*math.Pow(float64(pages+1), -0.15)*1.3) || a.now > a.end()
}
