package processor

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"antirobot/identity"
	"antirobot/verdict"
	"antirobot/verdict/client"
)

// leaf is how somebody goes through numbered pages.
type leaf struct {
	path   string
	from   int // the first number
	by     int // what is added each time
	linked bool
	home   bool // … but always names the same page, which it has left
	steady bool // on each for as long
	told   bool // scripts of the pages say so, with numbers of their own
}

func (l leaf) read(w *walk, pages int) {
	for i, n := 0, l.from; i < pages; i, n = i+1, n+l.by {
		after := 6 * time.Second
		if !l.steady {
			after = time.Duration(1+i*7%40) * time.Second
		}
		w.at = w.at.Add(after)
		e := event(w.at, w.n, w.subs...)
		e.Page, e.Document, e.BytesOut, e.Method, e.Type = true, true, 20000, 'G', 1
		path := fmt.Sprint(l.path, n)
		e.Path, e.Target, e.Series, e.Number = hashPath(path), hashPath(path), uint32(hashPath(l.path)), uint32(n) //nolint:gosec // part of a hash; small
		e.Claim = client.ParseClaim([]byte(firefox))
		if l.linked && i > 0 {
			e.Referer, e.RefererPath = client.RefererSame, uint32(hashPath(fmt.Sprint(l.path, n-l.by))) //nolint:gosec // part of a hash
		}
		if l.home {
			e.RefererPath = uint32(hashPath("/")) //nolint:gosec // part of a hash
		}
		w.p.Process(e)
		if l.told {
			e = event(w.at.Add(time.Second), w.n, w.subs...)
			e.Page, e.Document, e.Type, e.BytesOut, e.Method, e.Referer = false, false, verdict.TypeData, 40, 'P', client.RefererSame
			e.RefererPath = uint32(hashPath(path)) //nolint:gosec // part of a hash
			e.Path, e.Target, e.Series, e.Number = hashPath("/count"), hashPath(fmt.Sprint("/count?r=", 7919*i)), 7, uint32(7919*i)
			e.Claim = client.ParseClaim([]byte(firefox))
			w.p.Process(e)
		}
	}
}

// TestTurnsPages: who turns the pages of a series, forwards or backwards, is neither even nor counts, whatever scripts ask for in between: nobody reads a picture for long. Who opens numbered pages that no page has
// led to, pages of a list of everything, or every second one, does both.
func TestTurnsPages(t *testing.T) {
	p, _ := newProcessor(t, nil)
	for n, c := range []struct {
		name string
		leaf
		turned bool
	}{
		{"pictures", leaf{path: "/gallery/", from: 1, by: 1, linked: true, steady: true}, true},
		{"pictures from the last to the first", leaf{path: "/gallery/", from: 40, by: -1, linked: true, steady: true}, true},
		{"pictures that are counted", leaf{path: "/gallery/", from: 1, by: 1, linked: true, steady: true, told: true}, true},
		{"without a link", leaf{path: "/gallery/", from: 1, by: 1, steady: true}, false},
		{"all items", leaf{path: "/item/", from: 4000, by: 1, linked: true, steady: true}, false},
		{"with a page that it does not come from", leaf{path: "/gallery/", from: 1, by: 1, linked: true, home: true, steady: true}, false},
		{"every second picture", leaf{path: "/gallery/", from: 1, by: 2, linked: true, steady: true}, false},
	} {
		w := &walk{p: p, n: 10 + n, at: time.Unix(1.8e9, 0), subs: []identity.Subject{cookie(10 + n)}}
		c.read(w, 30)
		v, _ := p.Session(cookie(10+n), w.at)
		is := map[string]float32{}
		for _, f := range v.Factors {
			is[f.Name] = f.Value
		}
		_, gaps := is["gap_spread"]
		_, stays := is["stay_spread"]
		if gaps == c.turned || stays == c.turned || (is["step_share"] < 0.1) != c.turned || (is["count_share"] < 0.1) != c.turned {
			t.Errorf("%s: gap_spread known %v, stay_spread known %v, step_share %v, count_share %v", c.name, gaps, stays, is["step_share"], is["count_share"])
		}
	}
	reads := &walk{p: p, n: 30, at: time.Unix(1.8e9, 0), subs: []identity.Subject{cookie(30)}}
	for i := range 8 { // each series for longer than a picture, and what it is reached by
		reads.load("/list", "", 20*time.Second)
		leaf{path: fmt.Sprint("/gallery/", i, "/"), from: 1, by: 1, linked: true, steady: true}.read(reads, 12)
	}
	v, _ := p.Session(cookie(30), reads.at)
	for _, f := range v.Factors {
		if f.Name == "stay_typical" && f.Value < 7 {
			t.Errorf("who leaves a list for series of pictures stays for %v s", f.Value)
		}
	}
}

// TestTurnsMostly: of somebody who turns pages nearly all the time the few pages that are left otherwise say nothing.
func TestTurnsMostly(t *testing.T) {
	p, _ := newProcessor(t, nil)
	for n, pages := range []int{8, 2} {
		w := &walk{p: p, n: 60 + n, at: time.Unix(1.8e9, 0), subs: []identity.Subject{cookie(60 + n)}}
		for i := range 10 {
			w.load("/list", "", 7*time.Second)
			leaf{path: fmt.Sprint("/book/", i, "/"), from: 1, by: 1, linked: true, steady: true}.read(w, pages)
		}
		v, _ := p.Session(cookie(60+n), w.at)
		known := slices.ContainsFunc(v.Factors, func(f FactorView) bool { return f.Name == "stay_spread" })
		if known != (pages == 2) {
			t.Errorf("%d pages of each book: stay_spread known %v", pages, known)
		}
	}
}

// TestBrokenLinkIsNoProbe: a page whose name is one that scanners look for, and that is not there, says something about who asks for it only if
// no page of the site that it has opened has led to it.
func TestBrokenLinkIsNoProbe(t *testing.T) {
	p, _ := newProcessor(t, nil)
	for n, from := range []string{"/quiz/attempt.php", "/elsewhere", ""} {
		w := &walk{p: p, n: 50 + n, at: time.Unix(1.8e9, 0)}
		for range 6 {
			w.load("/quiz/attempt.php", "", 9*time.Second)
			w.at = w.at.Add(time.Second)
			e := event(w.at, w.n, w.subs...)
			e.Page, e.Document, e.Status, e.Method, e.PathKind = true, true, 404, 'G', client.PathProbe
			e.Path, e.Target = hashPath("/quiz/review.php"), hashPath("/quiz/review.php")
			if e.Claim = client.ParseClaim([]byte(firefox)); from != "" {
				e.Referer, e.RefererPath = client.RefererSame, uint32(hashPath(from)) //nolint:gosec // part of a hash
			}
			p.Process(e)
		}
		if got := w.factors()["probes"]; got != [...]float32{0, 6, 6}[n] {
			t.Errorf("from %q: %v probes", from, got)
		}
	}
}
