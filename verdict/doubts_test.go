package verdict

import (
	"testing"
	"time"

	"antirobot/identity"
	"antirobot/verdict/bans"
)

// TestDoubtIsTheThirdAnswer: what a doubt leads to is the service's choice; a pass pays for it; it ends, and can be taken
// back; one on an address is not on the cookies behind it.
func TestDoubtIsTheThirdAnswer(t *testing.T) {
	w := newWorld(t)
	browser := sub(identity.KindI, 1)
	then := func(step string) *Settings {
		return service(t, func(c *ServiceConfig) { c.Unsure = UnsureConfig{Above: 0.3, Then: step} })
	}
	group := then("nothing").Group
	w.Doubt(&Doubt{Subject: browser, Group: group, Until: w.now().Add(time.Hour), Score: 0.4, Factors: [bans.MaxFactors]bans.Factor{{Name: "awake", Value: 20, Amount: 2}}})
	w.Doubt(&Doubt{Subject: ip("192.0.2.1"), Group: group, Until: w.now().Add(time.Hour), Score: 0.4})

	f := func(name string, d *Decision, is, told Verdict, step Step) {
		t.Helper()
		if d.Verdict != is || d.Told() != told || d.Step != step || d.Stops() != (is != Human) || (d.Cause == CauseDoubt) != (is == Unsure || d.Paid) {
			t.Errorf("%s: %v for %v, told %v, step %v", name, d.Verdict, d.Cause, d.Told(), d.Step)
		}
	}
	f("nothing", w.ask(then("nothing"), "192.0.2.9", browser), Human, Unsure, StepNothing)
	f("check", w.ask(then("check"), "192.0.2.9", browser), Unsure, Unsure, StepCheck)
	f("captcha", w.ask(then("captcha"), "192.0.2.9", browser), Unsure, Unsure, StepCaptcha)
	f("an address", w.ask(then("check"), "192.0.2.1"), Unsure, Unsure, StepCheck)
	f("a cookie behind it", w.ask(then("check"), "192.0.2.1", sub(identity.KindI, 2)), Human, Human, StepNothing)
	f("a login", w.ask(then("check"), "192.0.2.9", sub(identity.KindL, 1), browser), Human, Human, StepNothing)
	p := pass(w.now(), 1, 3, "192.0.2.1")
	w.Doubt(&Doubt{Subject: identity.Subject{Kind: identity.KindSpravka, ID: p.ID}, Group: group, Until: w.now().Add(time.Hour), Score: 0.4})
	f("a pass", w.askWith(then("check"), &p, "192.0.2.1"), Human, Human, StepCheck)
	careless := service(t, func(c *ServiceConfig) { c.Unsure = UnsureConfig{Above: 0.45, Then: "check"} })
	f("a service that is less strict", w.ask(careless, "192.0.2.9", browser), Human, Human, StepNothing)

	w.Doubt(&Doubt{Subject: browser, Group: group})
	f("taken back", w.ask(then("check"), "192.0.2.9", browser), Human, Human, StepNothing)
	w.doubts.Sweep(w.now().Add(2 * time.Hour).UnixNano())
	if n := w.doubts.Len(); n != 0 {
		t.Errorf("%d are left", n)
	}
}

// TestDoubtIsExplained: an operator who asks why reads what counted.
func TestDoubtIsExplained(t *testing.T) {
	d := Doubt{Subject: sub(identity.KindI, 1), Until: day0, Score: 0.4, Factors: [bans.MaxFactors]bans.Factor{{Name: "awake", Value: 20, Amount: 2}}}
	if s := d.story(); s.Score != 0.4 || s.Factors["awake"] != 20 || s.Amounts["awake"] != 2 {
		t.Errorf("%+v", s)
	}
	if (&Doubt{}).story() != nil {
		t.Error("no doubt has a story")
	}
}
