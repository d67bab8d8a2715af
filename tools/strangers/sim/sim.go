// Package sim simulates the traffic of eight web sites by labelled people and robots. Who wrote it had read nothing of the
// program that it is used to measure, and nothing here may be changed to suit that program: it would be no stranger's any more.
//
// A Site says what is answered (site*.go). A Browser asks for it, with what a browser keeps, sends and loads by itself (browser*.go).
// An Agent moves a browser: people (people*.go), robots (robots*.go), and both that come to one site only (cast_*.go, which
// say who comes to a site, too). Everything drawn comes from the seed (rand.go), so the same seed makes the same log.
package sim

import (
	"fmt"
	"strings"
)

// role is a sort of visitor on one site.
type role struct {
	sort  string
	label int
	n     int
	run   func(*Agent)
}

// build is what a site is made of.
type build struct {
	name string
	site func(seed uint64) *Site
	cast []role
}

// newAgent makes a visitor with a browser, an address and traits of its own.
func newAgent(s *Site, l *Log, who Subject, sort string, i int, seed uint64) *Agent {
	r := newRand(seed, s.Name, sort, i)
	b := &Browser{
		site: s, log: l, r: r, who: who, key: fmt.Sprint(sort, "/", i), C: anyBrowser(r),
		now: s.Start - 3*hour, born: s.Start, cache: map[string]*entry{}, S: map[string]int{},
		spec: map[string]int64{}, Quic: 0.55, RTT: r.logN(0.035, 0.5), BW: r.logN(2.5e6, 0.7),
	}
	b.Addr = home(r)
	if b.C.Mobile && r.p(0.5) {
		b.Addr = cell(r)
		b.RTT *= 1.8
	}
	if r.p(0.3) {
		b.warm, b.icon = r.logN(70, 1), true
	}
	if r.p(0.28) {
		b.NoTrack = true
	}
	a := &Agent{Browser: b, T: traits(r), Index: i, group: hash(seed, s.Name, sort, i/6)}
	if b.C.Mobile && who.Label == 0 && r.p(0.5) { // at home by the house's line, outside by the cell's
		a.places = []string{b.Addr, home(r), cell(r)}
	}
	if r.p(0.06) {
		a.Clock = pick(r, []int{-6, -5, 5, 7, 9})
	}
	return a
}

// play lets the whole cast of a site act.
func (b build) play(seed uint64) (*Log, *Site) {
	s := b.site(seed)
	s.Seed = seed
	l := newLog()
	l.site = s
	var pool []trace
	for _, ro := range b.cast {
		for i := range ro.n {
			a := newAgent(s, l, Subject{ro.label, ro.sort}, ro.sort, i, seed)
			if ro.label == 1 {
				if pool == nil {
					pool = record(s, seed, 7)
				}
				a.pool = &pool
				a.NoTrack, a.warm, a.Driven = false, 0, a.r.p(0.6)
				if a.icon {
					a.icon = false
				}
			}
			ro.run(a)
			a.quit()
		}
	}
	return l, s
}

// Names are the sites that can be simulated.
func Names() []string {
	var names []string
	for _, b := range builds() {
		names = append(names, b.name)
	}
	return names
}

// Play simulates the traffic of a site.
func Play(name string, seed uint64) (*Log, error) {
	for _, b := range builds() {
		if b.name == name {
			l, _ := b.play(seed)
			return l, nil
		}
	}
	return nil, fmt.Errorf("no site %q: there are %s", name, strings.Join(Names(), ", "))
}

// people and robots put roles together.
func people(sort string, n int, f func(*Agent)) role { return role{sort, 0, n, f} }
func robots(sort string, n int, f func(*Agent)) role { return role{sort, 1, n, f} }

// builds are the sites, each with who comes to it.
func builds() []build {
	return []build{
		{"jobs", jobsSite, castJobs()},
		{"comics", comicsSite, castComics()},
		{"shop", shopSite, castShop()},
		{"gov", govSite, castGov()},
		{"ward", wardSite, castWard()},
		{"news", newsSite, castNews()},
		{"wiki", wikiSite, castWiki()},
		{"homes", homesSite, castHomes()},
	}
}
