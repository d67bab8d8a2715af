package verdict

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"antirobot/identity"
	"antirobot/spravka"
)

// payer requests pages from one banned address after another, with one pass.
type payer struct {
	*world
	s *Settings
	p spravka.Pass
}

// newPayer earns a pass.
func newPayer(t *testing.T, allowance uint32, addrs ...string) *payer {
	w := newWorld(t)
	for _, a := range addrs {
		w.ban(ip(a))
	}
	return &payer{world: w, s: service(t), p: pass(w.now(), 1, allowance, addrs[0])}
}

// get requests a path, which is answered with the given type; as is the User-Agent, empty: that of the browser that
// solved.
func (y *payer) get(addr, path, answer, as string, edit ...func(e *Event)) *Decision {
	v, id := newRequest(y.now(), addr, identity.Subject{Kind: identity.KindSpravka, ID: y.p.ID})
	v.Path = []byte(path)
	v.Target = v.Path
	if as != "" {
		v.Fields[0].Value = []byte(as)
	}
	id.Passes[0], id.NPasses = y.p, 1
	d := &Decision{}
	y.Decide(d, v, id, y.s)
	if d.Verdict != Human {
		return d
	}
	var e Event
	d.Event(&e, v, id, y.s)
	e.Answered(200, []byte(answer), 1000, time.Millisecond)
	for _, f := range edit {
		f(&e)
	}
	y.Delivered(d, &e)
	y.Paths().Learn(&e, y.s.Group, false)
	return d
}

func call(e *Event) { e.Page = false }

// TestPassPaysForDocuments: a page's parts and calls are included, whether or not their paths were known before.
func TestPassPaysForDocuments(t *testing.T) {
	y := newPayer(t, 10, "192.0.2.1")
	for page := range 10 {
		if d := y.get("192.0.2.1", "/page"+string(rune('a'+page)), "text/html", ""); !d.Paid || d.Cost != 1 {
			t.Fatalf("page %d: %v, cost %d", page+1, d.Verdict, d.Cost)
		}
		if page == 9 {
			break // with nothing left, anything not known to be a part is stopped
		}
		for range 30 {
			if d := y.get("192.0.2.1", "/static/x.png", "image/png", ""); d.Verdict != Human || d.Cost != 0 {
				t.Fatalf("a part of page %d: %v, cost %d", page+1, d.Verdict, d.Cost)
			}
		}
		for range 10 {
			if d := y.get("192.0.2.1", "/api/likes", "application/json", "", call); d.Verdict != Human || d.Cost != 0 {
				t.Fatalf("a call of page %d: %v, cost %d", page+1, d.Verdict, d.Cost)
			}
		}
	}
	if d := y.get("192.0.2.1", "/static/x.png", "image/png", ""); d.Verdict != Human {
		t.Error("the last page lacks its picture")
	}
	if d := y.get("192.0.2.1", "/page", "text/html", ""); d.Verdict != Robot {
		t.Error("the eleventh page is not asked")
	}
}

// TestPartsAndCallsHaveALimit: what a unit includes is limited; beyond it, a part or call costs as much as a document.
func TestPartsAndCallsHaveALimit(t *testing.T) {
	for _, f := range []struct {
		name, path, answer string
		is                 func(*Event)
		with               int
	}{
		{"calls", "/api/product", "application/json", call, 16},
		{"parts", "/static/x.png", "image/png", call, 128},
		{"parts that are none", "/a.css", "text/html", func(e *Event) { e.Static, e.Page = true, false }, 0},
		{"calls that are pages", "/a", "text/html", call, 0},
	} {
		y := newPayer(t, 5, "192.0.2.1")
		n := 0
		for y.get("192.0.2.1", f.path, f.answer, "", f.is).Verdict == Human {
			if n++; n > 10_000 {
				break
			}
		}
		if most := 5 + 6*f.with; n > most || n < most-f.with {
			t.Errorf("%s: %d for a pass of five, want about %d", f.name, n, most)
		}
	}
}

// TestPitfall11SoftBinding: using a pass in another browser costs ten; a browser that moves pays for the move, once for
// each place; going back and forth between two networks costs nothing.
func TestPitfall11SoftBinding(t *testing.T) {
	home, away, far := "192.0.2.1", "198.51.100.1", "203.0.113.1"
	y := newPayer(t, 100, home, away, far)
	cost := func(name, addr, as string, want int) {
		t.Helper()
		if d := y.get(addr, "/p", "text/html", as); d.Cost != want {
			t.Errorf("%s: cost %d, want %d", name, d.Cost, want)
		}
	}
	cost("at home", home, "", 1)
	cost("the first page away", away, "", 5)
	for range 5 {
		cost("away", away, "", 1)
		cost("back", home, "", 1)
	}
	cost("another browser at home", home, "python-requests/2.32", 10)
	cost("a stranger", far, "python-requests/2.32", 14)
	cost("the same stranger", far, "python-requests/2.32", 10)
	y.p.ID[0]++
	y.p.Key = spravka.NewID() // where it is a pass, its browser has proved itself
	cost("moved with its browser", away, "", 1)
	y.p.Key = [16]byte{}
	y.p.ID[0]++
	paid := 0 // the same browser in ever new places: the pass was sold
	for i := range 100 {
		a := "10." + string('0'+rune(i/10)) + "." + string('0'+rune(i%10)) + ".1"
		y.ban(ip(a))
		if y.get(a, "/p", "text/html", "").Paid {
			paid++
		}
	}
	if paid != 20 {
		t.Errorf("a pass of a hundred paid for %d pages in as many networks, want 20", paid)
	}
}

// TestPaymentsAtOnceAreExact: parts and calls that arrive together with pages neither take units from them nor add any.
func TestPaymentsAtOnceAreExact(t *testing.T) {
	y := newPayer(t, 100, "192.0.2.1")
	var pages, parts atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 40 {
				if y.get("192.0.2.1", "/p", "text/html", "").Paid {
					pages.Add(1)
				}
				if y.get("192.0.2.1", "/static/x.png", "image/png", "").Paid {
					parts.Add(1)
				}
			}
		})
	}
	wg.Wait()
	a, _ := y.Allowance(y.p.ID)
	if n := pages.Load(); n > 100 || n < 92 || int64(a.Spent) != n {
		t.Errorf("%d pages and %d parts paid, %d units are spent", n, parts.Load(), a.Spent)
	}
}
