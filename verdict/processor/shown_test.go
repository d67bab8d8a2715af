package processor

import (
	"math"
	"strconv"
	"testing"
	"time"

	"antirobot/verdict"
	"antirobot/verdict/client"
)

// TestPagesThatScriptsShow: of an application that is loaded once it is seen how long somebody stays on the pages that its script shows, and which are come
// back to. Pages that wait in other tabs and ask for news, and what is sent when a page is left, show nothing of that.
func TestPagesThatScriptsShow(t *testing.T) {
	p, _ := newProcessor(t, nil)
	page := func(i int) string { return "/article/" + strconv.Itoa(i) }
	near := func(name string, of map[string]float32, factor string, want, within float64) {
		t.Helper()
		if got, known := of[factor]; !known || math.Abs(float64(got)-want) > within {
			t.Errorf("%s: %s is %v (%v), want %v", name, factor, got, known, want)
		}
	}
	unknown := func(name string, of map[string]float32) {
		t.Helper()
		if got, known := of["stay_typical"]; known {
			t.Errorf("%s: stays for %v", name, got)
		}
	}
	begin := func(n int) *walk {
		w := &walk{p: p, n: n, at: time.Unix(1.8e9, 0)}
		w.load("/", "", 0)
		return w
	}

	on := begin(1)
	for i := range 20 {
		on.call("/api"+page(i), page(max(i-1, 0))) // before the address changes
		on.call("/api"+page(i)+"/more", page(i))
		on.calls('P', "/api/left", page(max(i-1, 0)))
		on.at = on.at.Add(7 * time.Second)
		on.call("/api/news", page(i))
		on.at = on.at.Add(7 * time.Second)
	}
	of := on.factors()
	near("from page to page", of, "stay_typical", 14, 4)
	near("from page to page", of, "stay_spread", 0, 0.1)

	list := begin(3)
	for i := range 20 {
		list.call("/api"+page(i), page(i))
		list.at = list.at.Add(14 * time.Second)
		list.call("/api/list", "/list")
		list.at = list.at.Add(14 * time.Second)
	}
	of = list.factors()
	near("from a list", of, "stay_typical", 14, 4)

	still := begin(4)
	for range 40 {
		still.call("/api/news", "/")
		still.at = still.at.Add(14 * time.Second)
	}
	unknown("one page that asks for news", still.factors())

	tabs := begin(5)
	tabs.load(page(1), "/", 2*time.Second)
	tabs.load(page(2), "/", 2*time.Second)
	for i := range 40 {
		tabs.call("/api/news", page(1+i%2))
		tabs.at = tabs.at.Add(14 * time.Second)
	}
	unknown("two pages in tabs that ask for news", tabs.factors())

	both := begin(6)
	for i := range 40 {
		both.call("/api/news", page(1+i%2))
		both.at = both.at.Add(14 * time.Second)
	}
	unknown("two pages that a script has shown, in tabs that ask for news", both.factors())
}

// TestPagesThatScriptsShowBesideABalancer: where a balancer gives the answers, so that no type is known, a call is what visitors of several networks take for one.
func TestPagesThatScriptsShowBesideABalancer(t *testing.T) {
	p, _ := newProcessor(t, nil)
	var last *walk
	for n := range 6 {
		last = &walk{p: p, n: n << 8, at: time.Unix(1.8e9, 0)}
		last.load("/", "", 0)
		for i := range 20 {
			e := last.asks('G', "/api/article", "/article/"+strconv.Itoa(i))
			e.Advised, e.Type, e.BytesOut, e.Status, e.PathShape = true, verdict.TypeUnknown, 0, 0, hashPath("/api/")
			p.Process(e)
			last.at = last.at.Add(14 * time.Second)
		}
	}
	if stay, known := last.factors()["stay_typical"]; !known || math.Abs(float64(stay)-14) > 4 {
		t.Errorf("stays for %v (%v)", stay, known)
	}
}

// TestPagesThatAreAskedForAhead: a page that a script, or a browser ahead of its visitor, has asked for is one to be on once its parts name it. What is asked for
// and never shown is none, nor do fonts that a style sheet names show anything.
func TestPagesThatAreAskedForAhead(t *testing.T) {
	p, _ := newProcessor(t, nil)
	page := func(i int) string { return "/article/" + strconv.Itoa(i) }
	fetch := func(w *walk, path, from string) {
		e := w.opens(path, from)
		e.Page = false
		p.Process(e)
	}
	part := func(w *walk, path, from string) {
		e := w.asks('G', path, from)
		e.Type, e.Static, e.Document = verdict.TypePart, true, false
		p.Process(e)
	}
	for n, shown := range []bool{true, false} {
		w := &walk{p: p, n: n, at: time.Unix(1.8e9, 0)}
		w.load(page(0), "", 0)
		for i := range 20 {
			for k := range 3 { // links that the pointer has passed
				fetch(w, page(i+1+k), page(i))
			}
			part(w, "/font.woff2", "/site.css")
			if shown {
				part(w, "/picture"+page(i+1), page(i+1))
			}
			w.at = w.at.Add(14 * time.Second)
		}
		of := w.factors()
		stay, known := of["stay_typical"]
		if known != shown || shown && math.Abs(float64(stay)-14) > 4 || of["stay_short_share"] > 0 {
			t.Errorf("shown %v: stays for %v (%v), %v of them short", shown, stay, known, of["stay_short_share"])
		}
	}
}

// TestFrames: what fills the frames of a page, as browsers say, is no page that somebody opens: it is seen how long they stay on the page around them, also where
// a script in a frame asks for news. Whoever calls everything a frame loads pages.
func TestFrames(t *testing.T) {
	p, _ := newProcessor(t, nil)
	page := func(i int) string { return "/patient/" + strconv.Itoa(i) }
	frame := func(w *walk, path, from string) {
		e := w.opens(path, from)
		e.Headers |= client.InFrame
		p.Process(e)
	}
	clerk, robot := &walk{p: p, n: 1, at: time.Unix(1.8e9, 0)}, &walk{p: p, n: 2, at: time.Unix(1.8e9, 0)}
	for i := range 20 {
		clerk.load(page(i), page(max(i-1, 0)), 14*time.Second)
		frame(clerk, page(i)+"/banner", page(i))
		frame(clerk, page(i)+"/notes", page(i))
		clerk.call("/api/notes", page(i)+"/notes")
		clerk.call("/api/news", page(i))
	}
	of := clerk.factors()
	if stay, known := of["stay_typical"]; !known || math.Abs(float64(stay)-14) > 4 || of["stay_spread"] > 0.1 || of["branch_share"] > 0 {
		t.Errorf("pages with frames: stays for %v (%v), spread %v, branches %v", stay, known, of["stay_spread"], of["branch_share"])
	}
	robot.load("/list", "", 0)
	for i := range 40 {
		robot.at = robot.at.Add(14 * time.Second)
		frame(robot, page(i), "/list")
	}
	if of := robot.factors(); of["stay_typical"] < 10 || of["targets"] < 20 {
		t.Errorf("everything is a frame: stays for %v, %v pages", of["stay_typical"], of["targets"])
	}
}
