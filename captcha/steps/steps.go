// Package steps knows the ladder of questions that a visitor may be asked, and says which of them is asked of whom.
//
// Rules:
//  1. Each step asks more of a visitor than the one below it, and earns no less.
//  2. A step is chosen from what is known when the question is asked: the suspicion, what the service says about the path,
//     what the address has earned, and the steps that the visitor failed. Nobody is asked for less than the service says.
//  3. An answer to a higher step than the one that was asked for always counts.
package steps

import (
	"errors"
	"fmt"
)

// Step is one step of the ladder; a higher one asks for more. The zero value is no step.
type Step uint8

// The steps.
const (
	None    Step = iota
	Silent       // the browser is checked, and nothing is asked of the person
	Press        // a button is pressed
	Digits       // digits are read from a picture or heard
	Dynamic      // a moving picture is followed, act by act
	count
)

var names = [count]string{"none", "silent", "press", "digits", "dynamic"}

// String returns the step's name in configurations and fields.
func (s Step) String() string {
	if s < count {
		return names[s]
	}
	return "unknown"
}

// Parse returns the step of a name.
func Parse(name string) (Step, bool) {
	for s := Silent; s < count; s++ {
		if names[s] == name {
			return s, true
		}
	}
	return None, false
}

// Policy is a service's choice of steps.
type Policy struct {
	// Robot is the step for who is judged a robot, Unsure for whom the verdict is not sure of.
	Robot  string `mapstructure:"robot"`
	Unsure string `mapstructure:"unsure"`
	// Top is the highest step that the price and failures lead to. What Robot, Unsure or the service itself asks for may be
	// higher.
	Top string `mapstructure:"top"`
	// RaiseAfter is after how many passes of an address within the last hour the next higher step is asked for, and again
	// after as many; 0: never.
	RaiseAfter int64 `mapstructure:"raise_after"`
}

// DefaultPolicy returns the defaults.
func DefaultPolicy() Policy {
	return Policy{Robot: "digits", Unsure: "silent", Top: "dynamic", RaiseAfter: 20}
}

// Validate returns all problems, each with its path below the section.
func (p *Policy) Validate() error {
	var errs []error
	for _, n := range [...]struct{ key, name string }{{"robot", p.Robot}, {"unsure", p.Unsure}, {"top", p.Top}} {
		if _, ok := Parse(n.name); !ok {
			errs = append(errs, fmt.Errorf("%s: %.40q is not silent, press, digits or dynamic", n.key, n.name))
		}
	}
	if p.RaiseAfter < 0 || p.RaiseAfter > 1_000_000 {
		errs = append(errs, fmt.Errorf("raise_after: %d is outside 0 to 1000000", p.RaiseAfter))
	}
	return errors.Join(errs...)
}

// Ladder is a Policy prepared for use. It is immutable and safe for concurrent use.
type Ladder struct {
	robot, unsure, top Step
	raiseAfter         int64
}

// New prepares a policy that Validate has found good.
func New(p Policy) Ladder {
	l := Ladder{raiseAfter: p.RaiseAfter}
	l.robot, _ = Parse(p.Robot)
	l.unsure, _ = Parse(p.Unsure)
	l.top, _ = Parse(p.Top)
	return l
}

// First returns the step for a suspicion: unsure is set for whom the verdict does not call a robot.
func (l Ladder) First(unsure bool) Step {
	if unsure {
		return l.unsure
	}
	return l.robot
}

// Climb returns the step for a visitor who would be asked for least, failed so many steps, and whose address earned so many
// passes within the last hour.
func (l Ladder) Climb(least Step, failed, earned int64) Step {
	up := failed
	if l.raiseAfter > 0 {
		up += earned / l.raiseAfter
	}
	return max(least, Step(min(int64(least)+up, int64(l.top)))) //nolint:gosec // at most the top
}
