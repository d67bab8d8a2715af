package verdict

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"antirobot/identity"
	"antirobot/request"
	"antirobot/rules"
)

// RuleAction is what follows from a decision of the rules, the weakest first.
type RuleAction uint8

// The actions.
const (
	RuleNone       RuleAction = iota // nothing: the request passes
	RuleMark                         // it passes, and the service is told in a header
	RuleRobot                        // captcha
	RuleQueue                        // 202: a message waits for a person
	RuleThrottle                     // 429: too fast, come back later
	RuleQuarantine                   // 409 with the reason as JSON
	RuleBlock                        // 403
)

var actionNames = [...]string{"pass", "mark", "captcha", "queue", "throttle", "quarantine", "block"}

// String returns the name that the configuration and metrics use.
func (a RuleAction) String() string { return actionNames[a] }

// Actions is how many actions there are.
const Actions = len(actionNames)

// ParseAction reads the name of an action.
func ParseAction(s string) (RuleAction, bool) {
	for i, name := range actionNames {
		if s == name {
			return RuleAction(i), true
		}
	}
	return 0, false
}

// AnswerConfig says what follows from one decision of the rules.
type AnswerConfig struct {
	Decision string `mapstructure:"decision"`
	Action   string `mapstructure:"action"` // pass, mark, captcha, queue (of messages), throttle, quarantine or block
}

// DefaultAnswers returns answers for the usual decisions.
func DefaultAnswers() []AnswerConfig {
	return []AnswerConfig{
		{"OK", "pass"},
		{rules.Unknown, "pass"},
		{"MARK", "mark"},
		{"SPAM", "captcha"},
		{"FLOOD", "captcha"},
		{"FREQUENT", "captcha"},
		{"CAPTCHA", "captcha"},
		{"THROTTLE", "throttle"},
		{"QUARANTINE", "quarantine"},
		{"INVALID", "block"},
		{"BLOCK", "block"},
	}
}

// MessageAnswers returns answers for the usual decisions about messages, which may wait for a person.
func MessageAnswers() []AnswerConfig {
	return append(DefaultAnswers(), AnswerConfig{"QUEUE", "queue"})
}

// Answers maps decisions to actions. It is immutable.
type Answers struct {
	byDecision map[string]RuleAction
	otherwise  RuleAction
}

// NewAnswers reads a table of answers; otherwise is the action for decisions that are not in it. Errors name the list's
// items as answers[i].
func NewAnswers(table []AnswerConfig, otherwise string) (*Answers, error) {
	a := &Answers{byDecision: make(map[string]RuleAction, len(table))}
	var errs []error
	for i, c := range table {
		action, ok := ParseAction(c.Action)
		if !ok {
			errs = append(errs, fmt.Errorf("answers[%d].action: %w", i, unknownAction(c.Action)))
		}
		if c.Decision == "" {
			errs = append(errs, fmt.Errorf("answers[%d].decision: must be given", i))
		}
		if _, twice := a.byDecision[c.Decision]; twice {
			errs = append(errs, fmt.Errorf("answers[%d].decision: %q occurs twice", i, c.Decision))
		}
		a.byDecision[c.Decision] = action
	}
	var ok bool
	if a.otherwise, ok = ParseAction(otherwise); !ok {
		errs = append(errs, fmt.Errorf("otherwise: %w", unknownAction(otherwise)))
	}
	return a, errors.Join(errs...)
}

func unknownAction(s string) error {
	return fmt.Errorf("%.40q is none of %s", s, strings.Join(actionNames[:], ", "))
}

// Leads says whether some decision leads to an action.
func (a *Answers) Leads(to RuleAction) bool {
	for _, action := range a.byDecision {
		if action == to {
			return true
		}
	}
	return a.otherwise == to
}

// Of returns the action for a decision.
func (a *Answers) Of(decision string) RuleAction {
	if action, ok := a.byDecision[decision]; ok {
		return action
	}
	return a.otherwise
}

// Ruling is what rules said about a request, or about a message in it. It is reused together with its Decision.
type Ruling struct {
	Action   RuleAction
	Decision string         // of the rules; if there is none, it is empty and Failed says why
	Failed   string         // why the rules gave no decision
	Route    string         // for a message: the route that judged it
	Wait     time.Duration  // until the buckets that were empty have a token; 0: none was
	Score    float64        // the sum of the scores of the rules that were FALSE
	Program  *rules.Program // the rules; nil if none were run
	Stop     int            // the statement that decided; -1: none
	Fired    []uint64       // the statements that were FALSE, one bit each
	Trace    string         // line by line, if the route asks for it
	Model    *float64       // for a message: what the model that the rules asked says of it; nil: none was asked
	Opinions []string       // for a message about which the model is not sure: what others say, and what follows
	Granted  bool           // for a message: a captcha was solved for it, and its rules were not run a second time
}

// Take fills r with the outcome of a run; the action is not set.
func (r *Ruling) Take(p *rules.Program, run *rules.Run) {
	*r = Ruling{
		Decision: run.Decision(), Score: run.Score(), Wait: run.Wait(), Program: p, Stop: run.Stop(),
		Fired: run.AppendFired(r.Fired[:0]), Trace: run.Log(),
	}
}

// AppendTags appends the tags that the rules marked, in their order.
func (r *Ruling) AppendTags(dst []string) []string {
	if r.Program == nil {
		return dst
	}
	return r.Program.AppendMarked(dst, r.Fired)
}

// AppendMark appends the ruling in the form sent to the service: SPAM;score=1.5;tags=a,b.
func (r *Ruling) AppendMark(dst []byte) []byte {
	dst = append(dst, r.Decision...)
	if r.Decision == "" {
		dst = append(dst, "FAILED"...)
	}
	if r.Granted {
		dst = append(dst, ";solved"...)
	}
	if r.Score != 0 {
		dst = strconv.AppendFloat(append(dst, ";score="...), r.Score, 'g', 6, 64)
	}
	for i, tag := range r.AppendTags(nil) {
		if i == 0 {
			dst = append(dst, ";tags="...)
		} else {
			dst = append(dst, ',')
		}
		dst = append(dst, tag...)
	}
	return dst
}

// copyFrom makes r a copy that shares nothing that will be overwritten in o.
func (r *Ruling) copyFrom(o *Ruling) {
	fired := r.Fired[:0]
	if o == nil {
		*r = Ruling{Fired: fired}
		return
	}
	*r = *o
	r.Fired = append(fired, o.Fired...)
}

// Why says in words what the rules decided.
func (r *Ruling) Why() string {
	switch {
	case r.Failed != "":
		return r.Failed
	case r.Program == nil || r.Stop < 0:
		return r.Decision
	}
	line, text := r.Program.Line(r.Stop)
	return fmt.Sprintf("line %d: %s", line, text)
}

// Rules are the rules over the requests of a service. Judge fills r; so is the verdict of the steps before it. It waits
// no longer than its configuration allows.
type Rules interface {
	Judge(r *Ruling, v *request.View, id *identity.Identity, s *Settings, so Verdict)
}

// Answer is what is known of the answer to a request, once it has been given.
type Answer struct {
	Status      int    // 0: there was none
	ContentType []byte // empty: unknown
	Bytes       int64  // of the body; -1: unknown
	Took        time.Duration
	Verdict     Verdict // on the request
}

// AnswerRules are Rules that also look at answers: they count, and decide nothing.
type AnswerRules interface {
	Answered(v *request.View, id *identity.Identity, s *Settings, a *Answer)
}

// StoryRules is a Ruling as JSON shows it.
type StoryRules struct {
	Route    string       `json:"route,omitempty"`
	Action   string       `json:"action"`
	Solved   bool         `json:"solved,omitempty"` // a captcha was solved for the message
	Decision string       `json:"decision,omitempty"`
	Line     int          `json:"line,omitempty"` // of the statement that decided
	Rule     string       `json:"rule,omitempty"` // the text of that statement
	Score    float64      `json:"score,omitempty"`
	Tags     []string     `json:"tags,omitempty"`
	Fired    []StoryFired `json:"fired,omitempty"`    // the rules that were FALSE
	Opinions []string     `json:"opinions,omitempty"` // of a message about which the model is not sure
	Error    string       `json:"error,omitempty"`    // why there is no decision
	Trace    string       `json:"trace,omitempty"`
}

// StoryFired is a rule that was FALSE.
type StoryFired struct {
	Line int    `json:"line"`
	Rule string `json:"rule"`
}

// Story returns the ruling as JSON shows it; nil for one that says nothing.
func (r *Ruling) Story() *StoryRules {
	if r.Program == nil && r.Decision == "" && r.Failed == "" {
		return nil
	}
	s := &StoryRules{
		Route: r.Route, Action: r.Action.String(), Decision: r.Decision, Score: r.Score, Tags: r.AppendTags(nil),
		Error: r.Failed, Trace: r.Trace, Solved: r.Granted, Opinions: r.Opinions,
	}
	if r.Program == nil {
		return s
	}
	if r.Stop >= 0 && r.Failed == "" {
		s.Line, s.Rule = r.Program.Line(r.Stop)
	}
	for n := range r.Program.Len() {
		if n/64 < len(r.Fired) && r.Fired[n/64]&(1<<(n%64)) != 0 {
			line, text := r.Program.Line(n)
			s.Fired = append(s.Fired, StoryFired{line, text})
		}
	}
	return s
}
