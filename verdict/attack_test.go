package verdict

import (
	"context"
	"testing"
	"time"

	"antirobot/identity"
	"antirobot/request"
)

// TestAttack: under attack whom the site does not know is asked, a growing share and then all, and it eases off as smoothly; a
// login is not asked, and a pass pays.
func TestAttack(t *testing.T) {
	w := newWorld(t)
	s := service(t)
	share := func() (n int) {
		for i := range 200 {
			id := &identity.Identity{N: 1}
			id.Subjects[0] = identity.Subject{Kind: identity.KindIP, ID: [16]byte{10: 0xff, 11: 0xff, 14: 1, 15: byte(i)}}
			d := new(Decision)
			w.Decide(d, &request.View{At: w.clock.now()}, id, s)
			if d.Verdict == Unsure && d.Cause == CauseAttack && d.Step == StepCheck {
				n++
			} else if d.Verdict != Human {
				t.Fatalf("%s, %s", d.Verdict, d.Cause)
			}
		}
		return n
	}
	f := func(what string, after time.Duration, least, most int) {
		t.Helper()
		w.clock.advance(after)
		if n := share(); n < least || n > most {
			t.Errorf("%s: %d of 200 are asked", what, n)
		}
	}
	turn := func(until time.Time) {
		t.Helper()
		if _, err := w.Attack(context.Background(), until); err != nil {
			t.Fatal(err)
		}
	}
	f("peace", 0, 0, 0)
	turn(w.clock.now().Add(10 * time.Minute))
	f("at once", 0, 0, 0)
	f("half tightened", 30*time.Second, 60, 140)
	turn(time.Time{}) // again, for an hour: goes on from where it is
	f("half tightened still", 0, 60, 140)
	f("tight", 30*time.Second, 200, 200)

	login := &identity.Identity{N: 2}
	login.Subjects[0], login.Subjects[1] = identity.Subject{Kind: identity.KindL, ID: [16]byte{1}}, ip("203.0.113.7")
	d := new(Decision)
	if w.Decide(d, &request.View{At: w.clock.now()}, login, s); d.Verdict != Human {
		t.Errorf("a login is %s", d.Verdict)
	}

	turn(w.clock.now()) // over
	f("easing off", 0, 200, 200)
	f("half eased off", 30*time.Second, 60, 140)
	f("peace again", 30*time.Second, 0, 0)
	if a := w.UnderAttack(); !a.Until.IsZero() || a.Share != 0 {
		t.Errorf("%+v", a)
	}
	turn(w.clock.now().Add(5 * time.Minute))
	f("its end comes by itself", 5*time.Minute, 0, 0)
	if _, err := w.Attack(context.Background(), w.clock.now().Add(8*24*time.Hour)); err == nil {
		t.Error("an attack of eight days is accepted")
	}
}

// TestAttackIsShared: what one node switches, another takes over from the store, and a restart keeps.
func TestAttackIsShared(t *testing.T) {
	w := newWorld(t)
	if _, err := w.Attack(context.Background(), w.clock.now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	want := w.UnderAttack()
	w.Attacks.from.Store(0)
	w.Attacks.until.Store(0)
	if err := w.Attacks.load(context.Background()); err != nil || w.UnderAttack() != want || want.Until.IsZero() {
		t.Errorf("%+v, wanted %+v; %v", w.UnderAttack(), want, err)
	}
}
