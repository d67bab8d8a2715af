package processor

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"antirobot/identity"
	"antirobot/verdict"
	"antirobot/verdict/client"
)

// goes has somebody open a list and what it lists in turn, for times around the typical ones, in seconds; a page that is stopped or not there is none to stay on.
func goes(p *Processor, rng *rand.Rand, n int, at time.Time, pages int, onList, onItem float64, status uint16) *identity.Subject {
	e := event(at, n<<8, cookie(n))
	for i := range pages {
		typical := onList
		e = event(at, n<<8, cookie(n))
		e.Claim, e.Page, e.Type, e.Method, e.Status, e.PathShape = client.ParseClaim([]byte(firefox)), true, verdict.TypeHTML, 'G', 200, 1<<60
		e.Path, e.Target = hashPath(fmt.Sprint("/list", i/2)), hashPath(fmt.Sprint("/list", i/2))
		if i%2 == 1 {
			typical = onItem
			e.Path, e.Target, e.PathShape, e.Status = hashPath(fmt.Sprint("/item/", i)), hashPath(fmt.Sprint("/item/", i)), 2<<60, status
		}
		p.Process(e)
		at = at.Add(time.Duration(typical * math.Exp(0.6*rng.NormFloat64()) * float64(time.Second)))
	}
	return &e.Subjects[0]
}

// TestStayByKind: where people leave a list sooner than what it lists, who does so is told from whom all pages are alike to, from the first visit on; pages that
// nobody could read, as they were not there, are none of a kind.
func TestStayByKind(t *testing.T) {
	p, _ := newProcessor(t, nil)
	rng := rand.New(rand.NewPCG(1, 2))
	at := time.Unix(1.8e9, 0)
	of := func(s *identity.Subject) (is float32, known bool) {
		v, _ := p.Session(*s, at.Add(time.Hour))
		for _, f := range v.Factors {
			if f.Name == "stay_by_kind" {
				return f.Value, true
			}
		}
		return 0, false
	}
	for n := range 40 {
		goes(p, rng, 100+n, at, 12, 6, 40, 200)
	}
	as, is := of(goes(p, rng, 1, at, 24, 6, 40, 200))
	slow, isSlow := of(goes(p, rng, 2, at, 24, 18, 120, 200))
	alike, isAlike := of(goes(p, rng, 3, at, 24, 15, 15, 200))
	if !is || !isSlow || !isAlike || as < 1.2 || slow < 1.2 || alike > -0.4 {
		t.Errorf("as others: %v (%v), slower: %v (%v), all alike: %v (%v)", as, is, slow, isSlow, alike, isAlike)
	}
	if few, known := of(goes(p, rng, 4, at, 5, 6, 40, 200)); known {
		t.Errorf("after five pages it is %v", few)
	}
	if gone, known := of(goes(p, rng, 5, at, 24, 15, 15, 404)); !known || gone < -0.1 {
		t.Errorf("with lists alone it is %v (%v)", gone, known)
	}
}

// TestLinksUnusual: who follows links that others seldom follow is told from who follows those that most do; links to pages that are not there, and calls from
// elsewhere, are none.
func TestLinksUnusual(t *testing.T) {
	p, _ := newProcessor(t, nil)
	rng := rand.New(rand.NewPCG(3, 4))
	at := time.Unix(1.8e9, 0)
	goes := func(n, pages int, liked float64, from client.Referer, status uint16) (is float32, known bool) {
		var e *verdict.Event
		for i := range pages {
			e = event(at, n<<8, cookie(n))
			page, link := i%40, rng.IntN(20)
			if rng.Float64() < liked {
				link = page % 3
			}
			e.Claim, e.Page, e.Type, e.Method, e.Status = client.ParseClaim([]byte(firefox)), true, verdict.TypeHTML, 'G', status
			e.Path = hashPath(fmt.Sprint("/page/", page, "/", link))
			e.Target, e.Referer, e.RefererPath = e.Path, from, uint32(hashPath(fmt.Sprint("/page/", page))) //nolint:gosec // part of a hash
			p.Process(e)
			at = at.Add(time.Duration(5+rng.IntN(20)) * time.Second)
		}
		v, _ := p.Session(e.Subjects[0], at)
		for _, f := range v.Factors {
			if f.Name == "links_unusual" {
				return f.Value, true
			}
		}
		return 0, false
	}
	for n := range 60 {
		goes(100+n, 20, 0.8, client.RefererSame, 200)
	}
	middle := func(first int, liked float64) float32 {
		var all []float32
		for n := range 9 {
			if is, known := goes(first+n, 30, liked, client.RefererSame, 200); known {
				all = append(all, is)
			}
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	if as, random := middle(1000, 0.8), middle(2000, 0); as > 0.5 || random < 1.7 {
		t.Errorf("in the middle as others: %.2f, at random: %.2f", as, random)
	}
	if gone, known := goes(3, 30, 0, client.RefererSame, 404); known {
		t.Errorf("with pages that are not there it is %v", gone)
	}
	if other, known := goes(4, 30, 0, client.RefererForeign, 200); known {
		t.Errorf("from elsewhere it is %v", other)
	}
}
