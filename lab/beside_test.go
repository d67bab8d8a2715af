package lab

import (
	"maps"
	"testing"
	"time"

	"antirobot/identity"
	"antirobot/verdict/label"
	"antirobot/verdict/processor"
)

// shadows is what a shadow has counted.
type shadows []processor.Shadowed

func (all shadows) Shadowed(f func(*processor.Shadowed)) (processor.ShadowCount, bool) {
	for i := range all {
		f(&all[i])
	}
	return processor.ShadowCount{Since: now.Add(-time.Hour), Judged: 40, Both: 3, Full: true, Uncounted: true}, all != nil
}

// TestLookBeside: who differs on live traffic is counted in full, with the ground on which each is known to be a person or a robot; what
// could not be judged beside is named.
func TestLookBeside(t *testing.T) {
	nobody := func(identity.Subject) bool { return false }
	if b := LookBeside(shadows(nil), nobody, nil); b != nil {
		t.Errorf("%+v", b)
	}
	rules := "if path is"
	b := LookBeside(shadows{
		{Subject: addr(1), Pages: 7},
		{Subject: addr(2), Pages: 5, Solved: true},
		{Subject: addr(3), Pages: 2, Solved: true, Mark: label.Mark{Label: label.Robot, Source: label.Operator}},
		{Subject: addr(4), Pages: 1, Free: true},
		{Subject: addr(5), Pages: 9, Mark: label.Mark{Label: label.Human, Source: label.Customer}},
	}, func(s identity.Subject) bool { return s == addr(4) }, &Settings{Services: map[string]Service{"shop": {Rules: &rules}}})
	s, f := b.Stopped, b.Free
	if s.Subjects != 4 || s.About != 4 || s.People != 2 || s.Robots != 1 || s.Pages != 23 || s.PeoplePages != 14 || s.RobotPages != 2 || !maps.Equal(s.Grounds, map[string]int{"solved": 1, "customer": 1}) {
		t.Errorf("newly stopped: %+v", s)
	}
	if s.Examples[0].Subject != addr(5).String() || s.Examples[1].Subject != addr(2).String() || s.Examples[3].Ground != "operator" {
		t.Errorf("people are not first: %+v", s.Examples)
	}
	if f.Subjects != 1 || f.People != 1 || f.Grounds["established"] != 1 || b.Both != 3 || b.Judged != 40 {
		t.Errorf("newly free: %+v, of %+v", f, b)
	}
	if len(b.Notes) != 3 {
		t.Errorf("%v", b.Notes)
	}
}
