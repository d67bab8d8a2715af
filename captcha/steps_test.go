package captcha

import (
	"strings"
	"testing"
)

func TestClimb(t *testing.T) {
	f := func(p StepsConfig, least Step, failed, earned int64, want Step) {
		t.Helper()
		if got := newStepRules(p).climb(least, failed, earned); got != want {
			t.Errorf("%+v: from %s, %d failed, %d earned: %s, want %s", p, least, failed, earned, got, want)
		}
	}
	p := defaultSteps()
	p.Top = "dynamic"
	f(p, stepSilent, 0, 19, stepSilent)
	f(p, stepSilent, 0, 20, stepPress)
	f(p, stepSilent, 1, 20, stepDigits)
	f(p, stepSilent, 9, 1000, stepDynamic)
	f(p, stepDigits, 0, 20, stepDynamic)
	p.Top = "press"
	f(p, stepSilent, 5, 0, stepPress)
	f(p, stepDynamic, 5, 0, stepDynamic) // what is asked for is never lowered
}

func TestStepsProblems(t *testing.T) {
	p := StepsConfig{Robot: "puzzle", Unsure: "silent", Top: ""}
	err := p.Validate()
	for _, want := range []string{"robot: ", "top: "} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	d := defaultSteps()
	if err := d.Validate(); err != nil {
		t.Error(err)
	}
}
