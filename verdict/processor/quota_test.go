package processor

import (
	"fmt"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"antirobot/verdict"
	"antirobot/verdict/client"
)

// untilChecked returns how many events pass before the first excess, most at most, and that excess.
func untilChecked(t *testing.T, most int, every time.Duration, next func(at time.Time, n int) *verdict.Event) (int, verdict.Excess) {
	t.Helper()
	p, b := newProcessor(t, nil)
	at := time.Unix(1.8e9, 0)
	for n := range most {
		p.Process(next(at.Add(time.Duration(n)*every), n))
		if len(b.bans) > 0 {
			t.Fatalf("banned after %d: %+v", n, b.bans[0])
		}
		if len(b.excesses) > 0 {
			return n, b.excesses[0]
		}
	}
	return most, verdict.Excess{}
}

// TestWeights: how many requests a client at one address may make before it is checked.
func TestWeights(t *testing.T) {
	as := func(method byte, kind string, bytes int64, edit func(e *verdict.Event, n int)) func(time.Time, int) *verdict.Event {
		return func(at time.Time, n int) *verdict.Event {
			e := reading(at, n, office)
			e.Method, e.Client = method, 1
			e.Answered(200, []byte(kind), bytes, 0)
			if edit != nil {
				edit(e, n)
			}
			return e
		}
	}
	script := func(e *verdict.Event, _ int) { e.Page = false }
	for _, c := range []struct {
		name        string
		next        func(time.Time, int) *verdict.Event
		least, most int // 3000: it is never checked
	}{
		{"pages", as('G', "text/html", 1000, nil), 15, 100},
		{"pages under other User-Agents", as('G', "text/html", 1000, func(e *verdict.Event, n int) { e.Agent = uint64(n) }), 15, 160},
		{"pages with a cookie each", as('G', "text/html", 1000, func(e *verdict.Event, n int) {
			e.Browser, e.Subjects[1], e.Subjects[0], e.N = uint32(1+n), e.Subjects[0], cookie(n), 2
		}), 15, 160},
		{"pages by POST", as('P', "text/html", 15_000, nil), 15, 100},
		{"pages that claim to be pictures", as('G', "text/html", 1000, func(e *verdict.Event, _ int) { e.Static, e.Page = true, false }), 15, 100},
		{"HTML that acknowledges a form", as('P', "text/html", 200, nil), 3000, 3000},
		{"short answers to writes", as('P', "application/json", 16<<10, script), 3000, 3000},
		{"long answers to writes", as('P', "application/json", 64<<10, script), 15, 60},
		{"calls", as('G', "application/json", 300, script), 500, 1500},
		{"calls with large answers", as('G', "application/json", 64<<10, script), 15, 60},
		{"one call again and again", as('G', "application/json", 300, func(e *verdict.Event, _ int) {
			e.Page, e.Target, e.Path = false, 7, 7
		}), 3000, 3000},
		{"a registry", as('G', "application/json", 300, func(e *verdict.Event, _ int) {
			e.Claim, e.PathShape = client.Claim{Family: client.FamilyLibrary}, 5
		}), 3000, 3000},
		{"an XML partner", as('G', "text/html", 1000, func(e *verdict.Event, _ int) { e.Partner = true }), 3000, 3000},
	} {
		n, x := untilChecked(t, 3000, 500*time.Millisecond, c.next)
		if n < c.least || n > c.most {
			t.Errorf("%s: checked after %d, want %d to %d: %+v", c.name, n, c.least, c.most, x)
		}
	}
}

// TestPollIsNoReading: a page that polls every three seconds for a working day at forty desks of one address, whose browsers
// have loaded its subresources, is not checked.
func TestPollIsNoReading(t *testing.T) {
	const desks = 40
	n, x := untilChecked(t, desks*1200*8, 3*time.Second/desks, func(at time.Time, n int) *verdict.Event {
		desk := 1 + n%desks
		e := reading(at, 7, office)
		e.Method, e.Page, e.Client, e.Browser = 'G', false, uint32(desk), uint32(desk)
		e.Subjects[1], e.Subjects[0], e.N = e.Subjects[0], cookie(desk), 2
		if n < desks {
			return picture(e)
		}
		e.Answered(200, []byte("application/json"), 100, 0)
		return e
	})
	if x.Most > 0 {
		t.Errorf("checked after %d calls: %+v", n, x)
	}
}

// colleagues have twenty people with cookies read pages with their subresources at the office's address.
func colleagues(p *Processor, at time.Time, pages int) {
	for n := range pages {
		for k := range 4 {
			i := 1 + n%20
			e := reading(at.Add(time.Duration(n)*time.Second), 10_000+4*n+k, office)
			e.Client, e.Browser, e.Agent, e.Method = uint32(10+i), uint32(10+i), 5, 'G'
			e.Subjects[1], e.Subjects[0], e.N = e.Subjects[0], cookie(i), 2
			if k > 0 {
				picture(e)
			}
			p.Process(e)
		}
	}
}

// TestRobotInAnOffice: a robot is checked and banned alone at an address at which people read, by pace as by a formula.
func TestRobotInAnOffice(t *testing.T) {
	for _, people := range []int{0, 60} {
		for _, every := range []time.Duration{30 * time.Millisecond, 5 * time.Second} {
			t.Run(fmt.Sprintf("%d pages of people, one of the robot each %v", people, every), func(t *testing.T) {
				p, b := newProcessor(t, nil)
				at := time.Unix(1.8e9, 0)
				colleagues(p, at, people)
				if len(b.bans)+len(b.excesses) > 0 {
					t.Fatalf("people: %+v, %+v", b.bans, b.excesses)
				}
				if every > time.Second {
					p.formula = live(t, card(t, "bias: 3\nfactors: []\n"), metrics.NewSet())
				}
				for n := range 200 {
					e := reading(at.Add(time.Minute+time.Duration(n)*every), n, office)
					e.Client, e.Agent, e.Method = 1, 9, 'G'
					p.Process(e)
				}
				if len(b.bans) == 0 || (people > 0) != (b.bans[0].Only == 1) {
					t.Errorf("bans: %+v", b.bans)
				}
				if len(b.excesses) == 0 {
					t.Error("the robot is not checked")
				}
				for _, x := range b.excesses {
					if x.Client != 1 && !x.New {
						t.Errorf("others are checked: %+v", x)
					}
				}
			})
		}
	}
}
