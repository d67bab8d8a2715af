//go:build !race

package processor

import (
	"math"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"antirobot/identity"
	"antirobot/verdict"
	"antirobot/verdict/browsers"
	"antirobot/verdict/client"
	"antirobot/verdict/quota"
)

// town is a site that knows its people: 150 people in as many networks, who each read ten pages in an hour, with three
// parts per page; half of them have the same browser. A tenth of them load no parts and send no referer, and another
// tenth keep no cookies.
type town struct {
	t  *testing.T
	p  *Processor
	at time.Time
}

const (
	townPeople = 150
	townName   = 77 // the browser of half of them
	townShape  = 99
)

func newTown(t *testing.T) (*town, *villager) {
	keeper := &villager{}
	w := &town{t: t, p: newProcessorFor(t, keeper, nil), at: time.Unix(1.8e9, 0).Truncate(3 * time.Hour)}
	w.p.formula = live(t, card(t, "bias: -4\nfactors: []\n"), metrics.NewSet())
	return w, keeper
}

func (w *town) person(n int) [16]byte {
	return [16]byte{10: 0xff, 11: 0xff, 12: 77, 13: byte(n), 14: 1, 15: 9}
}

func (w *town) page(n, i int) *verdict.Event {
	e := reading(w.at, n*1000+i, w.person(n))
	e.Client = uint32(n + 1)
	e.Agent, e.Shape, e.Claim = townName, townShape, client.Claim{Family: client.FamilyChrome, Major: 150}
	if n%2 == 1 {
		e.Agent, e.Shape = uint64(1000+n), uint64(1000+n)
	}
	e.Secure, e.Direct = true, true
	e.Headers = client.HasAcceptLanguage | client.HasAcceptEncoding | client.HasUserAgent
	e.Referer, e.RefererPath = client.RefererSame, uint32(n)
	if n%10 == 1 {
		e.Referer, e.Cookies = client.RefererNone, client.CookieOffered
		return e
	}
	if n%10 == 0 {
		e.Referer = client.RefererNone
	}
	e.Cookies = client.CookieAny | client.CookieOurs
	e.Headers |= client.HasReferer | client.HasCookie | client.HasFetchMode | client.HasFetchSite | client.HasFetchDest | client.HasHints
	e.Browser, e.IAge = uint32(n+1), 100_000
	e.Subjects[1], e.Subjects[0], e.N = e.Subjects[0], cookie(n), 2
	return e
}

// hour lets everybody read for an hour, and calls meanwhile 1500 times.
func (w *town) hour(meanwhile func(step int)) {
	for i := range 10 {
		for n := range townPeople {
			w.at = w.at.Add(2400 * time.Millisecond)
			if meanwhile != nil {
				meanwhile(i*townPeople + n)
			}
			w.p.Process(w.page(n, i))
			if n%10 == 0 {
				continue
			}
			for k := range 3 {
				part := picture(w.page(n, 1_000_000+k))
				part.Method = 'G'
				w.p.Process(part)
			}
			for k := range 3 {
				call := w.page(n, 2_000_000+3*i+k)
				call.Page = false
				call.Answered(200, []byte("application/json"), 300, 0)
				w.p.Process(call)
			}
		}
	}
}

// verdicts are the current scores of the people.
func (w *town) verdicts() (scores [townPeople]float32) {
	r := w.p.service(0)
	for n := range townPeople {
		e := w.page(n, 5)
		sh, h := w.p.sessions.Lock(e.Subjects[0])
		s := sh.Find(h, e.Subjects[0])
		if s == nil {
			w.t.Fatalf("nobody knows %d", n)
		}
		v := &vector{scene: evidence{e: e, s: *s}}
		sh.Unlock()
		w.p.fill(&v.scene, r)
		scores[n] = w.p.formula.Model().Score(v.measure(false))
	}
	return scores
}

// foes is how many addresses an attacker has, each in a network of its own.
const foes = 100

// parted makes nineteen of twenty requests of an address those for parts of a page.
func parted(e *verdict.Event, n int) {
	if n/foes%20 != 0 {
		picture(e).Method = 'G'
	}
}

// foe is the attacker.
func foe(at time.Time, n int) *verdict.Event {
	e := reading(at, 50_000_000+n, [16]byte{10: 0xff, 11: 0xff, 12: 203, 13: byte(n % foes), 15: 66})
	e.Client = uint32(1000 + n%foes)
	e.Secure, e.Direct, e.Agent, e.Shape = true, true, townName, townShape
	e.Claim = client.Claim{Family: client.FamilyChrome, Major: 150}
	e.Headers = client.HasUserAgent
	return e
}

// TestNobodyMovesABaseline floods a site that knows its people with 300,000 requests from a hundred addresses within an
// hour, in the way that would move each of the baselines that people are compared with. Nobody's verdict changes, and
// the baseline stays where it was.
func TestNobodyMovesABaseline(t *testing.T) {
	near := func(a, b, by float32) bool { return math.Abs(float64(a-b)) <= float64(by) }
	calm, _ := newTown(t)
	for range 3 {
		calm.hour(nil)
	}
	quiet := calm.verdicts()
	for name, attack := range map[string]struct {
		flood func(e *verdict.Event, n int)
		holds func(w *town, before, after *baselines) bool
	}{
		"parts of a page: many": {
			parted, func(_ *town, a, b *baselines) bool { return near(a.parts, b.parts, 0.2) },
		},
		"parts of a page: none": {
			func(*verdict.Event, int) {}, func(_ *town, a, b *baselines) bool { return near(a.parts, b.parts, 0.2) },
		},
		"calls in an hour": {
			func(e *verdict.Event, _ int) { e.Page = false; e.Answered(200, []byte("application/json"), 300, 0) },
			func(_ *town, a, b *baselines) bool { return near(a.parts, b.parts, 0.2) },
		},
		"whether the site knows its people": {
			func(*verdict.Event, int) {}, func(w *town, a, b *baselines) bool { return a.settled && b.settled },
		},
		"which fields arrive: none of them": {
			func(e *verdict.Event, _ int) { e.Agent, e.Headers = 0, 0 }, func(_ *town, a, b *baselines) bool { return a.lost == b.lost },
		},
		"which fields arrive: all of them, in a false order": {
			func(e *verdict.Event, _ int) {
				e.Headers, e.Misfits, e.Referer = math.MaxUint32, client.FalseOrder, client.RefererSame
			}, func(_ *town, a, b *baselines) bool { return a.lost == b.lost },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, keeper := newTown(t)
			for range 2 {
				w.hour(nil)
			}
			before := w.baselines()
			each := 200
			if raceEnabled || testing.Short() {
				each = 20
			}
			w.hour(func(step int) {
				for i := range each {
					e := foe(w.at, step*each+i)
					attack.flood(e, step*each+i)
					w.p.Process(e)
				}
			})
			after := w.baselines()
			t.Logf("before %+v, after %+v", before, after)
			if !attack.holds(w, &before, &after) {
				t.Errorf("was %+v, is %+v", before, after)
			}
			for i, score := range w.verdicts() {
				if limit := float32(0.55); (score > limit) != (quiet[i] > limit) {
					t.Errorf("the score of %d is %.2f, without the flood %.2f", i, score, quiet[i])
				}
			}
			for _, b := range keeper.bans {
				if a := b.Subject; a.Kind == identity.KindI || a.ID[12] == 77 {
					t.Errorf("%v is banned: %s", a, b.Reason)
				}
			}
			for _, x := range keeper.excesses {
				cookieless := x.Scope == quota.ScopeNewcomers && x.Client%10 == 2 // they are newcomers like the attackers
				if x.Client != 0 && x.Client <= townPeople && !cookieless || x.Prefix.ID[12] == 77 {
					t.Errorf("people are checked: %+v", x)
				}
			}
		})
	}
}

// baselines are what people are compared with.
type baselines struct {
	parts   float32
	settled bool
	lost    browsers.Lost
}

func (w *town) baselines() baselines {
	r := w.p.service(0)
	e := w.page(0, 5)
	v := &vector{scene: evidence{e: e}}
	w.p.fill(&v.scene, r)
	return baselines{
		parts: r.people.told(), settled: r.people.settled(w.at, knownFrom),
		lost: v.scene.lost,
	}
}
