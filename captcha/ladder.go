package captcha

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"antirobot/bounded"
	"antirobot/captcha/picture"
	"antirobot/identity"
	"antirobot/request"
	"antirobot/spravka"
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

func (s Step) String() string {
	if s < stepCount {
		return stepNames[s]
	}
	return "unknown"
}

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
	// Robot is the step for robots, Unsure for visitors who may be people.
	Robot  string `mapstructure:"robot"`
	Unsure string `mapstructure:"unsure"`
	// Top is the highest step that price and failures lead to; Robot, Unsure and the service's demand may be higher.
	Top string `mapstructure:"top"`
}

func defaultSteps() StepsConfig {
	return StepsConfig{Robot: "digits", Unsure: "silent", Top: "dynamic"}
}

// Validate returns all problems, each with its path below the section.
func (p *StepsConfig) Validate() error {
	var errs []error
	for _, n := range [...]struct{ key, name string }{{"robot", p.Robot}, {"unsure", p.Unsure}, {"top", p.Top}} {
		if _, ok := parseStep(n.name); !ok {
			errs = append(errs, fmt.Errorf("%s: %.40q is not silent, press, digits or dynamic", n.key, n.name))
		}
	}
	return errors.Join(errs...)
}

// raiseAfter is after how many passes of an address within the last hour the step rises, and rises again.
const raiseAfter = 20

type stepRules struct {
	robot, unsure, top Step
}

func newStepRules(p StepsConfig) stepRules {
	var l stepRules
	l.robot, _ = parseStep(p.Robot)
	l.unsure, _ = parseStep(p.Unsure)
	l.top, _ = parseStep(p.Top)
	return l
}

func (l stepRules) first(unsure bool) Step {
	if unsure {
		return l.unsure
	}
	return l.robot
}

// climb raises least by the steps that the visitor failed, and by what the address earned within the last hour.
func (l stepRules) climb(least Step, failed, earned int64) Step {
	up := failed + earned/raiseAfter
	return max(least, Step(min(int64(least)+up, int64(l.top)))) //nolint:gosec // at most the top
}

// checkHashes is the work of a silent check and of a press, in expected computations of SHA-256.
const checkHashes = 20_000

// Percent of a pass's allowance that a step earns; digits and a dynamic puzzle earn all of it. insteadPercent is the
// share for digits in place of a dynamic puzzle.
const (
	silentPercent  = 25
	pressPercent   = 50
	insteadPercent = 50
)

// worthOf returns what an answer to step earns of an allowance: at least 1.
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

func shareOf(step, asked Step) float64 {
	return float64(worthOf(step, asked, whole)) / whole
}

// worth is what a right answer to k earns after e: never less than the floor of all passes.
func (c *Config) worth(k *key, e *earned) uint32 {
	full := c.Pass.AllowanceOf(e.prior)
	return max(worthOf(k.step(), k.asked, full), min(full, c.Pass.Floor()))
}

// checkWork returns the work of a browser check: a quarter more for each pass that the address earned within the last
// hour, up to four times.
func checkWork(earned int64) int64 { return min(checkHashes*(4+earned)/4, 4*checkHashes) }

// question is the choice of the ladder for one challenge.
type question struct {
	step   Step  // the step that is asked for
	move   bool  // first, the browser may prove that a pass from another network is its own
	earned int64 // the passes that the address earned within the last hour, as far as this node remembers
	way    way   // in which digits are presented
}

// level is the difficulty of the digits, 0 to maxLevel.
func (a question) level() uint8 {
	if a.step > stepDigits {
		return maxLevel // in place of a dynamic puzzle
	}
	return uint8(min(a.earned/passesPerLevel, maxLevel)) //nolint:gosec // at most maxLevel
}

const (
	maxLevel       = picture.MaxLevel
	passesPerLevel = 5
)

type climbs struct {
	earned *bounded.Rate // by address
	checks *bounded.Rate // by visitor: the checks of the browser
	let    *bounded.Rate // by address: passes earned by checks because of the network's reading
}

// A pass fades in passFades. A failed check raises its visitor by one step, and so do checksPerStep passed ones, so
// that a browser that loses its passes does not go in circles. A step fades in stepFades.
const (
	passFades     = 3 * time.Minute
	passParts     = 4 // in which a pass is counted: a check of the browser, which earns less than digits, counts less
	stepFades     = 8 * time.Minute
	checksPerStep = 4
	climbsAhead   = 256 // how many are remembered at once

	// Because of its network's reading an address gets as many silent checks a day as a pass is worth, per household,
	// then digits: otherwise a hidden driver would read as much for checks as a solver does for digits.
	letChecks  = 4
	letPresses = 2 // buttons, between the checks and digits
	letFades   = 24 * time.Hour / letChecks
)

func newClimbs(entries int) climbs {
	return climbs{
		earned: bounded.NewRate(passFades/passParts, climbsAhead*passParts, entries),
		checks: bounded.NewRate(stepFades/checksPerStep, climbsAhead, entries),
		let:    bounded.NewRate(letFades, climbsAhead, entries),
	}
}

func (c *climbs) passes(a netip.Addr, at time.Time) int64 {
	return int64(c.earned.Ahead(c.earned.AddrKey(a, 0), at) / passFades)
}

// earn counts the pass, or the share of one, that an address earned by an answer to k. read says that its network's
// reading was the reason for the challenge.
func (c *climbs) earn(k *key, share float64, read bool, at time.Time) {
	if read && k.step() < stepDigits {
		c.let.Take(c.let.AddrKey(k.addr, 0), at)
	}
	of := c.earned.AddrKey(k.addr, 0)
	for range max(1, int(share*passParts)) {
		c.earned.Take(of, at)
	}
}

func (c *climbs) visitorKey(q *Request) uint64 {
	w := q.ID.Winner()
	if w.Kind == identity.KindIP {
		return c.checks.AddrKey(q.ID.Addr, agentOf(q))
	}
	return c.checks.Key(append([]byte{byte(w.Kind)}, w.ID[:]...))
}

func (c *climbs) note(q *Request, passed bool, at time.Time) {
	n := checksPerStep
	if passed {
		n = 1
	}
	key := c.visitorKey(q)
	for range n {
		c.checks.Take(key, at)
	}
}

// least is the lowest step for q: the one that the service requires, if any.
func (q *Request) least() Step {
	if q.Require != stepNone {
		return q.Require
	}
	least := q.Service.ladder.first(q.Unsure)
	if q.Press {
		least = max(least, stepPress)
	}
	return least
}

// ladder chooses the steps that visitors are asked for.
type ladder struct {
	*core
	climbs   climbs
	visitors Visitors
}

func (ld *ladder) ask(q *Request, least Step, at time.Time) question {
	var e earned
	e.levelsOf(q.ID.Addr, ld.visitors)
	earned := int64(float64(ld.climbs.passes(q.ID.Addr, at)) / e.levels[0].places)
	if ld.cfg.TestAnswer != "" {
		earned = 0 // tests of a site solve as often as they like
	}
	if q.Read {
		let := float64(ld.climbs.let.Ahead(ld.climbs.let.AddrKey(q.ID.Addr, 0), at)) / float64(letFades) / e.levels[0].places
		switch {
		case let > letChecks+letPresses-0.5:
			least = max(least, min(stepDigits, q.Service.ladder.top))
		case let > letChecks-0.5:
			least = max(least, min(stepPress, q.Service.ladder.top))
		}
	}
	failed := int64(ld.climbs.checks.Ahead(ld.climbs.visitorKey(q), at) / stepFades)
	return question{step: q.Service.ladder.climb(least, failed, earned), earned: earned}
}

// A service can demand a step: a field of its response names the step that the visitor has to pass. The response is
// withheld, the visitor is challenged, and the request comes again with a field that says what was passed and when. A
// visitor who has just passed the step is not challenged again: then the response stands.

// The fields between gateway and service.
const (
	RequireField = "X-Antirobot-Require" // in the service's answer
	PassedField  = "X-Antirobot-Passed"  // in the request that the service gets
)

// justPassed is how long a passed step satisfies the service.
const justPassed = time.Minute

// ReadRequire reads the value of RequireField: press, digits or dynamic.
func ReadRequire(value []byte) (Step, bool) {
	s, ok := parseStep(string(value))
	return s, ok && s >= stepPress
}

// Requires reports whether the service's responses may demand a step.
func (s *Settings) Requires() bool { return s.require }

// LastPass returns the latest of the passes that the visitor earned in this kind of browser, or nil.
func LastPass(passes []spravka.Pass, v *request.View) *spravka.Pass {
	var last *spravka.Pass
	for i := range passes {
		p := &passes[i]
		if p.Earned && p.Step != 0 && (last == nil || p.Born > last.Born) {
			last = p
		}
	}
	if last == nil || last.Agent != 0 && last.Agent != agentOfView(v) {
		return nil
	}
	return last
}

// Satisfies reports whether a pass was earned just now by step or a step that stands in for it.
func (c *Captcha) Satisfies(p *spravka.Pass, step Step) bool { return satisfies(p, step, c.now()) }

func satisfies(p *spravka.Pass, step Step, now time.Time) bool {
	return p != nil && Step(max(p.Step, p.Asked)) >= step && now.Unix()-p.Born <= int64(justPassed/time.Second)
}

// AppendPassed appends the service's information about a pass: digits;at=1795366800;id=0123456789abcdef, and
// for=dynamic if another step had been required. The id is the same whenever the pass is shown, and reveals nothing
// else.
func AppendPassed(dst []byte, p *spravka.Pass) []byte {
	dst = append(dst, Step(p.Step).String()...)
	dst = strconv.AppendInt(append(dst, ";at="...), p.Born, 10)
	sum := sha256.Sum256(append([]byte("passed\x00"), p.ID[:]...))
	dst = hex.AppendEncode(append(dst, ";id="...), sum[:8])
	if p.Asked != p.Step && p.Asked != 0 {
		dst = append(append(dst, ";for="...), Step(p.Asked).String()...)
	}
	return dst
}
