package captcha

import (
	"strings"
	"testing"
)

func TestStepNames(t *testing.T) {
	for s := stepSilent; s < stepCount; s++ {
		if got, ok := parseStep(s.String()); !ok || got != s {
			t.Errorf("%s: read as %s, %v", s, got, ok)
		}
	}
	for _, name := range []string{"", "none", "stepDigits", "unknown"} {
		if s, ok := parseStep(name); ok {
			t.Errorf("%q is read as %s", name, s)
		}
	}
}

func TestFirstStep(t *testing.T) {
	l := newStepRules(defaultSteps())
	if robot, unsure := l.first(false), l.first(true); robot != stepDigits || unsure != stepSilent {
		t.Errorf("robots are asked for %s, others for %s", robot, unsure)
	}
}

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
	p.RaiseAfter = 0
	f(p, stepDigits, 0, 1_000_000, stepDigits)
	p.Top = "press"
	f(p, stepSilent, 5, 0, stepPress)
	f(p, stepDynamic, 5, 0, stepDynamic) // what is asked for is never lowered
}

func TestStepsProblems(t *testing.T) {
	p := StepsConfig{Robot: "puzzle", Unsure: "silent", Top: "", RaiseAfter: -1}
	err := p.Validate()
	for _, want := range []string{"robot: ", "top: ", "raise_after: "} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	d := defaultSteps()
	if err := d.Validate(); err != nil {
		t.Error(err)
	}
}

func TestStepsWorth(t *testing.T) {
	f := func(step, asked Step, allowance, want uint32) {
		t.Helper()
		if got := worthOf(step, asked, allowance); got != want {
			t.Errorf("%s where %s was asked for earns %d of %d, want %d", step, asked, got, allowance, want)
		}
	}
	f(stepSilent, stepSilent, 100, 25)
	f(stepPress, stepSilent, 100, 50)
	f(stepDigits, stepDigits, 100, 100)
	f(stepDigits, stepSilent, 100, 100)
	f(stepDigits, stepDynamic, 100, 50)
	f(stepDynamic, stepDynamic, 100, 100)
	f(stepSilent, stepSilent, 1, 1)
	if first, later, most := checkWork(0), checkWork(4), checkWork(1000); first != checkHashes ||
		later != 2*checkHashes ||
		most != 4*checkHashes {
		t.Errorf("work: %d, %d, %d", first, later, most)
	}
}
