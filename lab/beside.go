package lab

import (
	"time"

	"antirobot/identity"
	"antirobot/verdict/label"
	"antirobot/verdict/processor"
)

// Beside is what settings that judge beside those in force have counted on live traffic: all of it, where a rehearsal has a sample.
type Beside struct {
	Since   time.Time `json:"since"`  // it began, or the settings in force last changed, or the gateway was started
	Model   string    `json:"model"`  // the version of the model that judges beside
	Judged  int64     `json:"judged"` // evaluations, each made twice
	Both    int       `json:"stopped_by_both"`
	Stopped Group     `json:"newly_stopped"`
	Free    Group     `json:"newly_free"`
	Notes   []string  `json:"notes"`
}

// Shadows is what counts it. *processor.Processor is it.
type Shadows interface {
	Shadowed(f func(s *processor.Shadowed)) (processor.ShadowCount, bool)
}

// LookBeside returns what was counted until now, for the settings that are looked at; nil if nothing judges beside.
func LookBeside(d Shadows, established func(identity.Subject) bool, looked *Settings) *Beside {
	b := &Beside{Notes: []string{}}
	b.Stopped.Grounds, b.Free.Grounds = map[string]int{}, map[string]int{}
	c, ok := d.Shadowed(func(s *processor.Shadowed) {
		of := subject{name: s.Subject.String(), kind: s.Subject.Kind, score: s.Score, told: true}
		of.known(s, established)
		group := &b.Stopped
		if s.Free {
			group = &b.Free
		}
		group.add(&of, float64(s.Pages), 1)
	})
	if !ok {
		return nil
	}
	b.Since, b.Model, b.Judged, b.Both = c.Since.UTC(), c.Model, c.Judged, c.Both
	b.Stopped.sort()
	b.Free.sort()
	if c.Full {
		b.Notes = append(b.Notes, "beside-"+noteFull)
	}
	if looked != nil && looked.judgesMore() {
		b.Notes = append(b.Notes, "beside-"+noteRules)
	}
	if c.Uncounted {
		b.Notes = append(b.Notes, "beside-"+noteWindow)
	}
	return b
}

// judgesMore reports whether the settings change what is not judged beside: rules, and doubts.
func (s *Settings) judgesMore() bool {
	for _, c := range s.Services {
		if c.Rules != nil || c.Unsure != nil {
			return true
		}
	}
	return false
}

// known says on which ground a subject is known to be a person, or a robot: what an operator or a service says of it comes first.
func (s *subject) known(of *processor.Shadowed, established func(identity.Subject) bool) {
	switch {
	case of.Mark.Label == label.Robot:
		s.robot, s.ground = true, of.Mark.Source.String()
	case of.Mark.Label == label.Human:
		s.person, s.ground = true, of.Mark.Source.String()
	case s.kind.SignedIn():
		s.person, s.ground = true, "signed-in"
	case established(of.Subject):
		s.person, s.ground = true, "established"
	case of.Solved:
		s.person, s.ground = true, "solved"
	}
}
