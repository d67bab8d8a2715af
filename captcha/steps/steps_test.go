package steps

import (
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	for s := Silent; s < count; s++ {
		if got, ok := Parse(s.String()); !ok || got != s {
			t.Errorf("%s: read as %s, %v", s, got, ok)
		}
	}
	for _, name := range []string{"", "none", "Digits", "unknown"} {
		if s, ok := Parse(name); ok {
			t.Errorf("%q is read as %s", name, s)
		}
	}
}

func TestFirst(t *testing.T) {
	l := New(DefaultPolicy())
	if robot, unsure := l.First(false), l.First(true); robot != Digits || unsure != Silent {
		t.Errorf("robots are asked for %s, others for %s", robot, unsure)
	}
}

func TestClimb(t *testing.T) {
	f := func(p Policy, least Step, failed, earned int64, want Step) {
		t.Helper()
		if got := New(p).Climb(least, failed, earned); got != want {
			t.Errorf("%+v: from %s, %d failed, %d earned: %s, want %s", p, least, failed, earned, got, want)
		}
	}
	p := DefaultPolicy()
	p.Top = "dynamic"
	f(p, Silent, 0, 19, Silent)
	f(p, Silent, 0, 20, Press)
	f(p, Silent, 1, 20, Digits)
	f(p, Silent, 9, 1000, Dynamic)
	f(p, Digits, 0, 20, Dynamic)
	p.RaiseAfter = 0
	f(p, Digits, 0, 1_000_000, Digits)
	p.Top = "press"
	f(p, Silent, 5, 0, Press)
	f(p, Dynamic, 5, 0, Dynamic) // what is asked for is never lowered
}

func TestPolicyProblems(t *testing.T) {
	p := Policy{Robot: "puzzle", Unsure: "silent", Top: "", RaiseAfter: -1}
	err := p.Validate()
	for _, want := range []string{"robot: ", "top: ", "raise_after: "} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	d := DefaultPolicy()
	if err := d.Validate(); err != nil {
		t.Error(err)
	}
}

func TestWorth(t *testing.T) {
	c := DefaultConfig()
	f := func(step, asked Step, allowance, want uint32) {
		t.Helper()
		if got := c.Worth(step, asked, allowance); got != want {
			t.Errorf("%s where %s was asked for earns %d of %d, want %d", step, asked, got, allowance, want)
		}
	}
	f(Silent, Silent, 100, 25)
	f(Press, Silent, 100, 50)
	f(Digits, Digits, 100, 100)
	f(Digits, Silent, 100, 100)
	f(Digits, Dynamic, 100, 50)
	f(Dynamic, Dynamic, 100, 100)
	f(Silent, Silent, 1, 1)
	if first, later, most := c.Work(0), c.Work(4), c.Work(1000); first != c.Hashes || later != 2*c.Hashes || most != 4*c.Hashes {
		t.Errorf("work: %d, %d, %d", first, later, most)
	}
}
