package processor

import (
	"fmt"
	"math"
	"math/rand/v2"
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
