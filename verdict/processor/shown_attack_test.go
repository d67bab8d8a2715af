package processor

import (
	"strconv"
	"testing"
	"time"

	"antirobot/verdict/client"
)

func itemPage(i int) string { return "/item/" + strconv.Itoa(i) }

// item loads one page of a list, as a program that opens them in turn does, or calls that what fills a frame of the page that it comes from.
func (w *walk) item(i int, from string, frame bool) {
	e := w.opens(itemPage(i), from)
	e.Number, e.Series, e.Site = uint32(i), 7, client.SiteSame //nolint:gosec // small
	e.Headers |= client.HasFetchMode
	if frame {
		e.Headers |= client.InFrame
	}
	w.p.Process(e)
}

// items reads 200 pages, one in two seconds, and returns what is seen of that.
func items(p *Processor, n int, read func(w *walk, i int)) map[string]float32 {
	w := &walk{p: p, n: n, at: time.Unix(1.8e9, 0)}
	w.load("/list", "", 0)
	for i := range 200 {
		w.at = w.at.Add(2 * time.Second)
		read(w, i)
	}
	return w.factors()
}

// TestAnnouncedPagesHideNothing: a call that names a page before that is loaded, so that it looks like one that was there already, hides nothing of the load.
func TestAnnouncedPagesHideNothing(t *testing.T) {
	p, _ := newProcessor(t, nil)
	plain := items(p, 1, func(w *walk, i int) { w.item(i, "/list", false) })
	announced := items(p, 2, func(w *walk, i int) {
		w.call("/api/news", itemPage(i))
		w.item(i, "/list", false)
	})
	for _, f := range []string{"count_share", "branch_share", "jump_share", "back_share", "revisit_share", "fan", "unclicked_share", "visits", "visit_pages", "first_share"} {
		was, known := plain[f]
		if got, still := announced[f]; known != still || got < was-0.01 || got > was+0.01 {
			t.Errorf("%s is %v (%v), and %v (%v) where calls go before", f, was, known, got, still)
		}
	}
	back := items(p, 3, func(w *walk, i int) { // pages that it has had
		w.call("/api/news", itemPage(i%4))
		w.item(i%4, "/list", false)
	})
	if got := back["revisit_share"]; got > 1 {
		t.Errorf("%v of the pages were come back to", got)
	}
}

// TestFramesAreAsPeopleHaveThem: where people's pages have no frames, who calls what it reads frames opens pages. Loading a page again makes no room for more.
func TestFramesAreAsPeopleHaveThem(t *testing.T) {
	p, _ := newProcessor(t, nil)
	frames := func(w *walk, i int) {
		if i%9 == 0 {
			w.item(i, "/list", false)
		} else {
			w.item(i, itemPage(i/9*9), true)
		}
	}
	if of := items(p, 1, func(w *walk, i int) {
		if i%9 == 0 {
			w.item(0, "/list", false)
		} else {
			w.item(i, itemPage(0), true)
		}
	}); of["fan"] < 20 {
		t.Errorf("frames of a page that is loaded again and again: %v pages of one", of["fan"])
	}
	people := func(from, own int) {
		for n := range fewVotes {
			w := &walk{p: p, n: 1<<16 + (from+n)<<8, at: time.Unix(1.8e9, 0)}
			for i := range 40 {
				w.load(itemPage(i), "/list", 14*time.Second)
				for k := range own {
					e := w.opens("/frame/"+strconv.Itoa(k), itemPage(i))
					e.Headers |= client.InFrame
					p.Process(e)
				}
			}
		}
	}
	people(0, 0)
	if of := items(p, 2, frames); of["count_share"] < 0.85 {
		t.Errorf("where pages have no frames, numbers are counted up by %v", of["count_share"])
	}
	people(100, 3) // of more networks, as the site has frames now
	people(200, 3)
	if got := p.service(0).people.framesOf.most(); got < 3 || got > 6 {
		t.Errorf("%d frames of a page, people's have three", got)
	}
}
