package processor

import (
	"math"
	"strconv"
	"testing"
	"time"

	"antirobot/identity"
	"antirobot/request"
	"antirobot/verdict"
	"antirobot/verdict/client"
)

// walk is a subject's page loads.
type walk struct {
	p    *Processor
	n    int
	at   time.Time
	subs []identity.Subject

	verdict verdict.Verdict // what it is told
}

func hashPath(path string) uint64 { return request.Hash([]byte(path)) }

// load requests a page after some time, coming from another one.
func (w *walk) load(path, from string, after time.Duration) {
	w.at = w.at.Add(after)
	w.p.Process(w.opens(path, from))
}

// opens is a request for a page.
func (w *walk) opens(path, from string) *verdict.Event {
	e := event(w.at, w.n, w.subs...)
	e.Page, e.Type, e.Document, e.BytesOut, e.Method = true, verdict.TypeHTML, true, 20000, 'G'
	e.Path, e.Target = hashPath(path), hashPath(path)
	e.Claim, e.Verdict, e.Mode = client.ParseClaim([]byte(firefox)), w.verdict, verdict.Enforce
	if from != "" {
		e.Referer, e.RefererPath = client.RefererSame, uint32(hashPath(from))
	}
	return e
}

// call asks for data, as the script of a page does.
func (w *walk) call(path, from string) { w.calls('G', path, from) }

// calls is call by another method.
func (w *walk) calls(method byte, path, from string) { w.p.Process(w.asks(method, path, from)) }

// asks is a request for data.
func (w *walk) asks(method byte, path, from string) *verdict.Event {
	e := event(w.at, w.n, w.subs...)
	e.Page, e.Type, e.BytesOut, e.Method = false, verdict.TypeData, 500, method
	e.Path, e.Target, e.Referer, e.RefererPath = hashPath(path), hashPath(path), client.RefererSame, uint32(hashPath(from))
	e.Claim, e.Verdict, e.Mode = client.ParseClaim([]byte(firefox)), w.verdict, verdict.Enforce
	return e
}

func (w *walk) factors() map[string]float32 {
	v, _ := w.p.Session(event(w.at, w.n).Subjects[0], w.at)
	all := map[string]float32{}
	for _, f := range v.Factors {
		all[f.Name] = f.Value
	}
	return all
}

// TestQueryNamesPages: where one path shows all threads of a forum, it is seen how long somebody stays on each of them. A number that only defeats caches
// names no other page.
func TestQueryNamesPages(t *testing.T) {
	p, _ := newProcessor(t, nil)
	for n, c := range []struct {
		number func(i int) uint32
		known  bool
	}{
		{func(i int) uint32 { return uint32(7 * i) }, true}, //nolint:gosec // small
		{func(int) uint32 { return client.StampFrom + 5 }, false},
	} {
		w := &walk{p: p, n: n, at: time.Unix(1.8e9, 0)}
		for i := range 20 {
			w.at = w.at.Add(8 * time.Second)
			e := event(w.at, w.n)
			e.Page, e.Type, e.Document, e.BytesOut, e.Method = true, verdict.TypeHTML, true, 20000, 'G'
			e.Path, e.Target, e.Number = hashPath("/thread"), hashPath("/thread?t="+strconv.Itoa(i)), c.number(i)
			e.Referer, e.RefererPath, e.Claim = client.RefererSame, uint32(e.Path), client.ParseClaim([]byte(firefox))
			p.Process(e)
		}
		if stay, known := w.factors()["stay_typical"]; known != c.known || known && math.Abs(float64(stay-8)) > 4 {
			t.Errorf("%d: stays for %v (%v) on a page", n, stay, known)
		}
	}
}

// TestWay checks what the factors of the way say about four ways through a site.
func TestWay(t *testing.T) {
	p, _ := newProcessor(t, nil)
	near := func(of map[string]float32, name string, want float32) {
		t.Helper()
		if got, known := of[name]; !known || math.Abs(float64(got-want)) > 0.08 {
			t.Errorf("%s is %v (%v), want %v", name, got, known, want)
		}
	}
	page := func(i int) string { return "/item/" + string(rune('a'+i%26)) + string(rune('a'+i/26)) }
	chain := &walk{p: p, n: 1, at: time.Unix(1.8e9, 0)}
	for i := range 30 {
		chain.load(page(i), page(i-1+26*26), 10*time.Second)
	}
	hub := &walk{p: p, n: 2, at: time.Unix(1.8e9, 0)}
	for i := range 30 {
		hub.load("/list", "", 7*time.Second)
		hub.load(page(i), "/list", 7*time.Second)
	}
	tabs := &walk{p: p, n: 3, at: time.Unix(1.8e9, 0)}
	for i := range 20 {
		if i%5 == 0 {
			tabs.load(page(i), page(max(i-1, 0)), time.Minute)
			continue
		}
		tabs.load(page(i), page(i-i%5), time.Second)
	}
	of := hub.factors()
	near(of, "revisit_share", 0.48)
	near(of, "stay_spread", 0)
	near(of, "fan", 30)
	if tabs := tabs.factors(); tabs["branch_share"] < 0.5 {
		t.Errorf("tabs: branch_share %v", tabs["branch_share"])
	} else if tabs["stay_spread"] < 1.5 { // four in five were opened in passing, one second apart
		t.Errorf("tabs: stay_spread %v", tabs["stay_spread"])
	}
	if of := chain.factors(); of["revisit_share"] > 0.1 || of["stay_typical"] < 8 || of["stay_typical"] > 16 {
		t.Errorf("chain: %v", of)
	}
}
