package verdict

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"antirobot/identity"
	"antirobot/request"
	"antirobot/verdict/bans"
)

// TestWhen: who would be asked is asked only while all conditions hold; what an operator has banned is asked always.
func TestWhen(t *testing.T) {
	w := newWorld(t)
	visitor := ip("203.0.113.7")
	decide := func(s *Settings, sub identity.Subject) *Decision {
		addr, _ := sub.Addr()
		v, id := newRequest(w.clock.now(), addr.String())
		v.Path = []byte("/search/1")
		d := new(Decision)
		w.Decide(d, v, id, s)
		return d
	}
	ban := func(sub identity.Subject, source bans.Source) {
		t.Helper()
		b := bans.Ban{Subject: sub, Source: source, Until: w.clock.now().Add(time.Hour), Made: w.clock.now(), Score: 0.9, Threshold: 0.5, Reason: "test"}
		if err := w.Ban(context.Background(), b); err != nil {
			t.Fatal(err)
		}
	}
	ban(visitor, bans.SourceProcessor)
	ban(ip("203.0.113.8"), bans.SourceAPI)
	f := func(what string, edit func(*WhenConfig), sub identity.Subject, want Verdict, waiver Waiver) *Settings {
		t.Helper()
		s := service(t, func(c *ServiceConfig) { edit(&c.When) })
		if d := decide(s, sub); d.Verdict != want || d.Waived != waiver || d.Cause != CauseBan {
			t.Errorf("%s: %s, %s, waived %q", what, d.Verdict, d.Cause, d.Waived)
		} else if waiver != NotWaived && d.Told() != Robot {
			t.Errorf("%s: the service is told %s", what, d.Told())
		}
		return s
	}
	f("no condition", func(*WhenConfig) {}, visitor, Robot, NotWaived)
	f("from elsewhere", func(c *WhenConfig) { c.Networks = []string{"198.51.100.0/24"} }, visitor, Human, WaivedNetwork)
	f("from there", func(c *WhenConfig) { c.Networks = []string{"203.0.113.0/24"} }, visitor, Robot, NotWaived)
	partners := func(c *WhenConfig) { c.Networks = []string{"198.51.100.0/24", "strangers", "partners"} }
	f("from no list", partners, visitor, Human, WaivedNetwork)
	w.lists.named = map[string]netip.Prefix{"partners": netip.MustParsePrefix("203.0.113.0/29")}
	f("from a list that was refreshed", partners, visitor, Robot, NotWaived)
	f("an unknown path", func(c *WhenConfig) { c.Path = time.Second }, visitor, Human, WaivedPath)
	s := f("an idle service", func(c *WhenConfig) { c.Load.Slow = 2 * time.Second }, visitor, Human, WaivedLoad)
	f("the operator's ban", func(c *WhenConfig) { c.Load.Slow = 2 * time.Second }, ip("203.0.113.8"), Robot, NotWaived)

	answers := func(n int, path string, took time.Duration, waiting int64) {
		for range n {
			w.clock.advance(time.Second)
			w.Took(&request.View{At: w.clock.now().Add(-took), Path: []byte(path)}, s, took, waiting)
		}
	}
	answers(20, "/search/2", 3*time.Second, 0) // another path of the same shape
	f("a dear path", func(c *WhenConfig) { c.Path = time.Second }, visitor, Robot, NotWaived)
	f("dearer than that", func(c *WhenConfig) { c.Path = 4 * time.Second }, visitor, Human, WaivedPath)
	f("a busy service", func(c *WhenConfig) { c.Load.Slow = 2 * time.Second }, visitor, Robot, NotWaived)
	if d := decide(s, visitor); !d.Busy {
		t.Error("the visitor is not told that the site is busy")
	}
	f("no queue", func(c *WhenConfig) { c.Load.Queue = 10 }, visitor, Human, WaivedLoad)
	w.clock.advance(time.Minute)
	answers(20, "/", 0, 40)
	f("a long queue", func(c *WhenConfig) { c.Load.Queue = 10 }, visitor, Robot, NotWaived)
	w.clock.advance(5 * time.Minute)
	f("idle again", func(c *WhenConfig) { c.Load.Queue, c.Load.Slow = 10, 2*time.Second }, visitor, Human, WaivedLoad)
}

// TestLoadGrowsSmoothly: between half of a limit and the limit a growing share of addresses is asked, and each stays asked.
func TestLoadGrowsSmoothly(t *testing.T) {
	w := newBusyWorld(t)
	asked := map[int]bool{}
	last := 0
	for _, took := range []time.Duration{900 * time.Millisecond, 1250 * time.Millisecond, 1500 * time.Millisecond, 1750 * time.Millisecond, 2500 * time.Millisecond} {
		for range 60 {
			w.answer(time.Second, took)
		}
		now := w.asked()
		for i := range asked {
			if !now[i] {
				t.Errorf("%d at %v is not asked any more", i, took)
			}
		}
		n := len(now)
		if n < last || took == 900*time.Millisecond && n > 0 || took == 1500*time.Millisecond && (n < 60 || n > 140) || took > 2*time.Second && n != 200 {
			t.Errorf("at %v %d of 200 are asked, before %d", took, n, last)
		}
		asked, last = now, n
	}
}

// TestLoadHasNoStep: however slow an answer is, and however long none came before it, the share of who is asked rises and
// falls by a tenth in a second, and by a tenth with one answer.
func TestLoadHasNoStep(t *testing.T) {
	f := func(what string, gap, took time.Duration, most time.Duration) {
		t.Helper()
		w := newBusyWorld(t)
		for range 100 {
			w.answer(100*time.Millisecond, 10*time.Millisecond)
		}
		const slack = 20 // of 200: addresses are chosen by chance
		follow := func(steps int, step func(), want int) {
			last := len(w.asked())
			begin := w.clock.now()
			for range steps {
				before := w.clock.now()
				step()
				n := len(w.asked())
				tenths := 1 + w.clock.now().Sub(before).Seconds()
				if jump := max(n-last, last-n); float64(jump) > 20*tenths+slack {
					t.Fatalf("%s: %d of 200 are asked, and %v later %d", what, last, w.clock.now().Sub(before), n)
				}
				if last = n; n == want {
					break
				}
			}
			if took := w.clock.now().Sub(begin); last != want || took > most {
				t.Errorf("%s: %d of 200 are asked after %v, want %d within %v", what, last, took, want, most)
			}
		}
		w.clock.advance(18 * time.Second)
		w.answer(0, took)
		if n := len(w.asked()); n > 20+slack {
			t.Errorf("%s: after silence the first slow answer lets %d of 200 be asked", what, n)
		}
		follow(800, func() { w.answer(gap, took) }, 200)
		follow(800, func() { w.clock.advance(100 * time.Millisecond) }, 0)
		follow(800, func() { w.answer(gap, took) }, 200)
		follow(800, func() { w.answer(100*time.Millisecond, 10*time.Millisecond) }, 0)
	}
	f("a little slow", 50*time.Millisecond, 3*time.Second, 40*time.Second)
	f("out of order", 50*time.Millisecond, time.Minute, 80*time.Second)
	f("few answers", 5*time.Second, 9*time.Second, 90*time.Second)
}

// TestLoadKeepsItsTime: who takes long over what a service answered a minute ago makes it look neither idle nor busy.
func TestLoadKeepsItsTime(t *testing.T) {
	w := newBusyWorld(t)
	late := func(took time.Duration) { w.Took(&request.View{At: w.clock.now().Add(-time.Minute)}, w.s, took, 0) }
	for range 100 {
		w.answer(100*time.Millisecond, 10*time.Millisecond)
	}
	for range 100 {
		late(time.Millisecond)
		w.answer(time.Millisecond, 10*time.Second)
	}
	if n := len(w.asked()); n > 0 {
		t.Errorf("a tenth of a second of slow answers lets %d of 200 be asked", n)
	}
	for range 60 {
		w.answer(time.Second, 3*time.Second)
	}
	for range 100 {
		late(time.Millisecond)
		if n := len(w.asked()); n != 200 {
			t.Fatalf("after an answer of a minute ago %d of 200 are asked", n)
		}
	}
}

// busyWorld has a service that asks while it is slower than two seconds.
type busyWorld struct {
	*world
	s *Settings
}

func newBusyWorld(t *testing.T) *busyWorld {
	return &busyWorld{newWorld(t), service(t, func(c *ServiceConfig) { c.When.Load.Slow = 2 * time.Second })}
}

// answer ends a request, some time after the last.
func (w *busyWorld) answer(gap, took time.Duration) {
	w.clock.advance(gap)
	w.Took(&request.View{At: w.clock.now().Add(-took)}, w.s, took, 0)
}

// asked returns which of 200 addresses would be asked.
func (w *busyWorld) asked() map[int]bool {
	asked := map[int]bool{}
	for i := range 200 {
		id := &identity.Identity{N: 1}
		id.Subjects[0] = identity.Subject{Kind: identity.KindIP, ID: [16]byte{10: 0xff, 11: 0xff, 14: 1, 15: byte(i)}}
		if w.waived(&Decision{Cause: CauseJudge}, &request.View{At: w.clock.now()}, id, w.s) == NotWaived {
			asked[i] = true
		}
	}
	return asked
}
