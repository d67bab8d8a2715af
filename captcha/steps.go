package captcha

import (
	"errors"
	"fmt"
)

// Rules of the ladder:
//  1. Each step asks more of a visitor than the one below it, and earns no less.
//  2. A step is chosen from the suspicion, the service's demand, what the address has earned, and the steps that the
//     visitor failed. No visitor gets a lower step than the service demands.
//  3. An answer to a higher step than the required one always counts.

// Step is one step of the ladder; a higher one asks for more. The zero value is no step.
type Step uint8

// The steps.
const (
	stepNone    Step = iota
	stepSilent       // the browser is checked, and nothing is asked of the person
	stepPress        // a button is pressed
	stepDigits       // digits are read from a picture or heard
	stepDynamic      // a moving picture is followed, act by act
	stepCount
)

var stepNames = [stepCount]string{"none", "silent", "press", "digits", "dynamic"}

// String returns the step's name in configurations and fields.
func (s Step) String() string {
	if s < stepCount {
		return stepNames[s]
	}
	return "unknown"
}

// parseStep returns the step of a name.
func parseStep(name string) (Step, bool) {
	for s := stepSilent; s < stepCount; s++ {
		if stepNames[s] == name {
			return s, true
		}
	}
	return stepNone, false
}

// StepsConfig is a service's choice of steps.
type StepsConfig struct {
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

func defaultSteps() StepsConfig {
	return StepsConfig{Robot: "digits", Unsure: "silent", Top: "dynamic", RaiseAfter: 20}
}

// Validate returns all problems, each with its path below the section.
func (p *StepsConfig) Validate() error {
	var errs []error
	for _, n := range [...]struct{ key, name string }{{"robot", p.Robot}, {"unsure", p.Unsure}, {"top", p.Top}} {
		if _, ok := parseStep(n.name); !ok {
			errs = append(errs, fmt.Errorf("%s: %.40q is not silent, press, digits or dynamic", n.key, n.name))
		}
	}
	if p.RaiseAfter < 0 || p.RaiseAfter > 1_000_000 {
		errs = append(errs, fmt.Errorf("raise_after: %d is outside 0 to 1000000", p.RaiseAfter))
	}
	return errors.Join(errs...)
}

// stepRules is a StepsConfig prepared for use.
type stepRules struct {
	robot, unsure, top Step
	raiseAfter         int64
}

func newStepRules(p StepsConfig) stepRules {
	l := stepRules{raiseAfter: p.RaiseAfter}
	l.robot, _ = parseStep(p.Robot)
	l.unsure, _ = parseStep(p.Unsure)
	l.top, _ = parseStep(p.Top)
	return l
}

// first returns the step for a suspicion: unsure is set for whom the verdict does not call a robot.
func (l stepRules) first(unsure bool) Step {
	if unsure {
		return l.unsure
	}
	return l.robot
}

// climb returns the step for a visitor who would be asked for least, failed so many steps, and whose address earned so many
// passes within the last hour.
func (l stepRules) climb(least Step, failed, earned int64) Step {
	up := failed
	if l.raiseAfter > 0 {
		up += earned / l.raiseAfter
	}
	return max(least, Step(min(int64(least)+up, int64(l.top)))) //nolint:gosec // at most the top
}

// checkHashes is the work of a silent check and of a press, in expected computations of SHA-256.
const checkHashes = 20_000

// Percent of a pass's allowance that a step earns; digits and a dynamic puzzle earn all of it. insteadPercent is the share
// for digits in place of a dynamic puzzle.
const (
	silentPercent  = 25
	pressPercent   = 50
	insteadPercent = 50
)

// worthOf returns what an answer to step earns of an allowance, when asked was asked for: at least 1.
func worthOf(step, asked Step, allowance uint32) uint32 {
	percent := int64(100)
	switch step {
	case stepSilent:
		percent = silentPercent
	case stepPress:
		percent = pressPercent
	}
	if step < asked {
		percent = percent * insteadPercent / 100
	}
	return max(1, uint32(int64(allowance)*percent/100)) //nolint:gosec // a share of it
}

// checkWork returns the work of a browser check: a quarter more for each pass that the address earned within the last hour, up to
// four times.
func checkWork(earned int64) int64 { return min(checkHashes*(4+earned)/4, 4*checkHashes) }
