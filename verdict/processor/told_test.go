package processor

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"antirobot/verdict"
	"antirobot/verdict/client"
)

// TestUntoldIsNotCompared: who keeps no cookie and never says where it comes from may be several visits that run together, and is not
// held to how the site's people read; who leaves out one of the two is.
func TestUntoldIsNotCompared(t *testing.T) {
	p, _ := newProcessor(t, nil)
	r, rng := p.service(0), rand.New(rand.NewPCG(1, 1))
	for i := range 60 {
		at, tr := time.Unix(1.8e9, 0), &trail{}
		for k := range 30 {
			at = at.Add(time.Duration(10 * float64(time.Second) * math.Exp(1.2*rng.NormFloat64())))
			tr.load(&verdict.Event{At: at, Type: verdict.TypeHTML, BytesOut: 10000, Path: uint64(k) * 0x9e3779b97f4a7c15}, true, false, 3)
		}
		e := event(at, i*256, cookie(i))
		e.Claim = client.ParseClaim([]byte(firefox))
		x := tr.traits()
		r.people.norms.vote(e, &x, normNetwork)
	}
	for n, c := range map[int]struct {
		drops, silent bool
		compared      bool
	}{
		1: {false, false, true}, 2: {true, false, true}, 3: {false, true, true}, 4: {true, true, false},
	} {
		var e *verdict.Event
		for k := range 20 { // every ten seconds, from one page to the next
			e = event(time.Unix(1.8e9+int64(10*k), 0), 100_000*n)
			e.Page, e.Type, e.Document, e.BytesOut, e.Method = true, verdict.TypeHTML, true, 20000, 'G'
			e.Path, e.Target = uint64(k+1)*0x9e3779b97f4a7c15, uint64(k+1)
			e.Claim, e.Status = client.ParseClaim([]byte(firefox)), 200
			if c.drops {
				e.Cookies = client.CookieOffered
			}
			if !c.silent {
				e.Referer, e.RefererPath = client.RefererSame, uint32(uint64(k)*0x9e3779b97f4a7c15) //nolint:gosec // part of a hash
			}
			p.Process(e)
		}
		sh, h := p.sessions.lock(e.Subjects[0])
		v := &vector{scene: evidence{e: e, s: *sh.find(h, e.Subjects[0])}}
		sh.mu.Unlock()
		p.fill(&v.scene, r)
		if far, even := v.scene.ranks.far, v.scene.ranks.even; (far == far) != c.compared || (even == even) != c.compared {
			t.Errorf("drops its cookie: %v, says nothing of where it comes from: %v; is compared: %v far, %v even", c.drops, c.silent, far, even)
		}
	}
}
