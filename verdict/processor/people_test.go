package processor

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"antirobot/identity"
	"antirobot/verdict"
)

// TestStaticIsNotPace: sub-resources don't count, unless they turn out to be documents.
func TestStaticIsNotPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, nil)
		defer g.end()
		if took, banned := g.until(visitor{addr: "192.0.2.1"}, 5*time.Millisecond, 5*time.Second, static); banned {
			t.Errorf("pictures are banned after %v", took)
		}
		_, banned := g.until(visitor{addr: "192.0.2.2"}, 20*time.Millisecond, 5*time.Second, func(e *verdict.Event) {
			e.Static = true
			e.Answered(200, []byte("text/html"), 1000, 0)
		})
		if !banned {
			t.Error("a scraper that calls its pages pictures is not banned")
		}
	})
}

// TestPersonIsNeverBanned: think time, sixty sub-resources per page, an occasional burst of opened tabs, for two hours.
func TestPersonIsNeverBanned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, nil)
		defer g.end()
		rnd := rand.New(rand.NewPCG(1, 2))
		cl := visitor{addr: "192.0.2.1", agent: "Mozilla/5.0 Firefox"}
		from := time.Now()
		for n := 1; time.Since(from) < lasting(2*time.Hour); n++ {
			if n == 30 {
				cl.subs = []identity.Subject{cookie(1)} // the cookie becomes old enough
			}
			tabs := 1
			if n%50 == 0 {
				tabs = 30
			}
			for range tabs {
				if g.send(cl, nil) != verdict.Human {
					t.Fatalf("stopped after %v: %+v", time.Since(from), g.c.Bans(verdict.BanFilter{}))
				}
				for range 60 {
					if g.send(cl, static) != verdict.Human {
						t.Fatalf("stopped after %v", time.Since(from))
					}
				}
				synctest.Wait()
			}
			time.Sleep(time.Second + time.Duration(rnd.ExpFloat64()*float64(8*time.Second)))
		}
	})
}

// TestPitfall22OfficeIsNotBanned: two hundred people behind one address, on the third day; then one of them runs a
// robot with its cookie, and another without one.
func TestPitfall22OfficeIsNotBanned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, nil)
		defer g.end()
		const people, addr = 200, "203.0.113.9"
		person := func(n int) visitor {
			return visitor{addr: addr, subs: []identity.Subject{cookie(n)}, agent: fmt.Sprintf("Mozilla/5.0 Firefox/%d.0", 100+n%20)}
		}
		for range 2 {
			for n := range people {
				g.send(person(n), nil)
				time.Sleep(time.Second)
			}
			time.Sleep(24 * time.Hour)
		}
		rnd := rand.New(rand.NewPCG(3, 4))
		work := func(d time.Duration, busy func(step int)) (stopped map[int]bool) {
			stopped = map[int]bool{}
			from := time.Now()
			for step := 0; time.Since(from) < d; step++ {
				// Each opens a page every ten seconds: twenty pages a second behind the address.
				n := 1 + rnd.IntN(people-1)
				if g.send(person(n), nil) != verdict.Human {
					stopped[n] = true
				}
				if busy != nil {
					busy(step)
				}
				synctest.Wait()
				time.Sleep(time.Duration(rnd.ExpFloat64() * float64(50*time.Millisecond)))
			}
			return stopped
		}
		if s := work(lasting(30*time.Minute), nil); len(s) > 0 {
			t.Errorf("%d colleagues stopped in ordinary work", len(s))
		}
		robot := verdict.Human
		s := work(lasting(10*time.Minute), func(int) { robot = g.send(person(0), nil); g.send(person(0), nil) })
		if robot != verdict.Robot {
			t.Error("the robot with a cookie is not banned")
		}
		if len(s) > 0 {
			t.Errorf("%d colleagues stopped for a robot with its own cookie", len(s))
		}
		// Without a cookie the address itself is banned; established visitors carry on.
		for range 6000 {
			g.send(visitor{addr: addr, agent: firefoxAgent}, nil)
			synctest.Wait()
			time.Sleep(time.Millisecond)
		}
		if g.send(visitor{addr: addr, agent: firefoxAgent}, nil) != verdict.Robot {
			t.Error("the robot without a cookie is not banned")
		}
		if s := work(time.Minute, nil); len(s) > people-1-30 {
			t.Errorf("%d of %d colleagues stopped; those who are established go on", len(s), people)
		}
		login := visitor{addr: addr, subs: []identity.Subject{{Kind: identity.KindL, ID: [16]byte{7}}}}
		if g.send(login, nil) != verdict.Human {
			t.Error("a colleague who is logged in is stopped")
		}
	})
}

// TestPitfall22RobotIsBannedAlone: in an office where nobody is established yet, a robot that carries on with its
// banned cookie does not get the address banned as well.
func TestPitfall22RobotIsBannedAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, nil)
		defer g.end()
		stopped := 0
		for n := range 6000 {
			g.send(visitor{addr: "203.0.113.9", subs: []identity.Subject{cookie(0)}}, nil)
			if n%50 == 0 && g.send(visitor{addr: "203.0.113.9", subs: []identity.Subject{cookie(1 + n/50%20)}}, nil) != verdict.Human {
				stopped++
			}
			synctest.Wait()
			time.Sleep(5 * time.Millisecond)
		}
		if stopped > 0 {
			t.Errorf("%d requests of colleagues stopped", stopped)
		}
	})
}

// TestPitfall23WhatIsNoPace: white-listed, blocked and demanded requests, and those in mode off, get nobody banned.
func TestPitfall23WhatIsNoPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, nil)
		defer g.end()
		for i, edit := range []func(*verdict.Event){
			func(e *verdict.Event) { e.Cause = verdict.CauseWhite },
			func(e *verdict.Event) { e.Cause, e.Verdict = verdict.CauseBlockList, verdict.Blocked },
			func(e *verdict.Event) { e.Cause = verdict.CauseOff },
			func(e *verdict.Event) { e.Cause, e.Verdict = verdict.CauseDemand, verdict.Robot },
			func(e *verdict.Event) { e.Kind = verdict.EventShown },
		} {
			if _, banned := g.until(visitor{addr: "192.0.2.1"}, 10*time.Millisecond, 3*time.Second, edit); banned {
				t.Errorf("case %d is banned", i)
			}
		}
	})
}

// TestFirstTwoRequestsNeverBan: even with the smallest limit that can be configured.
func TestFirstTwoRequestsNeverBan(t *testing.T) {
	for _, sync := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			g := newGateway(t, func(c *verdict.ServiceConfig) {
				c.Limits = []verdict.Limit{{Window: time.Second, Requests: 2, Ban: time.Minute}}
				c.Sync = sync
			})
			defer g.end()
			for n := range 300 {
				for i := range 2 {
					if v := g.send(visitor{addr: "192.0.2.1", subs: []identity.Subject{cookie(n)}}, nil); v != verdict.Human {
						t.Fatalf("request %d of subject %d: %v", i+1, n, v)
					}
					synctest.Wait()
				}
				time.Sleep(time.Second)
			}
		})
	}
}

// TestHarvestersThatAreKnownDoNotSpeakForPages: established visitors who load no parts, most of those that the site knows, do
// not make it a site without parts; where hardly anybody loads any, it is one.
func TestHarvestersThatAreKnownDoNotSpeakForPages(t *testing.T) {
	at := time.Unix(1.8e9, 0).Unix()
	for loads, want := range map[uint64]bool{8: true, 1: false} {
		var p people
		for n := range uint64(24) {
			v := vote{network: n*2 + 1, at: at, established: true}
			if n < loads {
				v.value = 6
			}
			p.vote(v)
		}
		if usual, has := p.usual(); has != want || has && usual != 6 {
			t.Errorf("%d of 24 load parts: %v, %v", loads, usual, has)
		}
	}
}

// TestSitesKeepTheirParts: a hundred harvesters that the site knows and that load no parts don't take the parts from its pages
// within hours, nor ever while eight networks that are known load them.
func TestSitesKeepTheirParts(t *testing.T) {
	at := time.Unix(1.8e9, 0).Unix()
	var p people
	for n := range uint64(12) { // new to the site
		p.vote(vote{network: n*2 + 1, at: at, value: 6})
	}
	for n := range uint64(100) {
		p.vote(vote{network: 1000 + n*2 + 1, at: at + 60, established: true})
	}
	if usual, has := p.usual(); !has || usual != 6 {
		t.Errorf("within a minute: %v, %v", usual, has)
	}
	p.vote(vote{network: 1001, at: at + halfDay, established: true})
	if _, has := p.usual(); has {
		t.Error("hardly anybody loads parts for half a day, and there are some")
	}
	for n := range uint64(40) {
		p.vote(vote{network: n*2 + 1, at: at + halfDay, established: true, value: 6})
	}
	if usual, has := p.usual(); !has || usual != 6 {
		t.Errorf("known people load them, and there are none: %v", usual)
	}
}
