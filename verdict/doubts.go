package verdict

import (
	"fmt"
	"math"
	"strings"
	"time"

	"antirobot/bounded"
	"antirobot/identity"
	"antirobot/request"
	"antirobot/verdict/bans"
)

// Doubt says that a subject may be a robot: its score is above what people have, and too low for a ban. It is the third
// answer between human and robot. A doubt is a plain value and is kept in memory only. Like a ban it applies to requests
// with its subject, unless they bring a stronger identity that stands for itself; but one on an address applies only to
// requests that bring nothing else.
type Doubt struct {
	Subject identity.Subject
	Group   uint32 // the services it is known at; see Settings.Group
	Until   time.Time
	Score   float32
	Factors [bans.MaxFactors]bans.Factor // what counted most, the strongest first; an empty name ends them
}

// Step is what a doubt leads to. A request that is stopped by it has the verdict Unsure and the cause CauseDoubt, and
// Decision.Step says how the visitor is asked; a pass pays for it as for a captcha.
type Step uint8

// The steps, the mildest first.
const (
	StepNothing Step = iota // the request passes as human; Decision.Doubt says that there is a doubt
	StepCheck               // a check without any interaction; where there is none, the captcha
	StepPress               // a button
	StepCaptcha
)

var stepNames = [...]string{"nothing", "check", "press", "captcha"}

// String returns the name that the configuration uses.
func (s Step) String() string { return stepNames[s] }

// UnsureConfig says whom a service is unsure about, and what that leads to.
type UnsureConfig struct {
	Above float64 `mapstructure:"above"` // a score above it and up to the threshold is a doubt; 0 to 1
	Then  string  `mapstructure:"then"`  // nothing, check or captcha
}

func (c *UnsureConfig) validate() error {
	if math.IsNaN(c.Above) || c.Above < 0 || c.Above > 1 {
		return fmt.Errorf("unsure.above: %v is not between 0 and 1", c.Above)
	}
	if _, ok := parseStep(c.Then); !ok {
		return fmt.Errorf("unsure.then: %.40q is none of %s", c.Then, strings.Join(stepNames[:], ", "))
	}
	return nil
}

func parseStep(name string) (Step, bool) {
	for i, n := range stepNames {
		if n == name {
			return Step(i), true
		}
	}
	return 0, false
}

// doubts is the bounded table of doubts.
type doubts struct {
	*bounded.Expiring[doubtKey, doubted]
}

type doubtKey struct {
	subject identity.Subject
	group   uint32
}

type doubted struct {
	score   float32
	factors [bans.MaxFactors]bans.Factor
}

func newDoubts(most int) doubts { return doubts{bounded.NewExpiring[doubtKey, doubted](most)} }

// put records a doubt or replaces it; one without a time takes it back. It reports whether that changed anything.
func (t doubts) put(d *Doubt) bool {
	k := doubtKey{d.Subject, d.Group}
	if d.Until.IsZero() {
		return t.Remove(k)
	}
	return t.Expiring.Put(k, d.Until, doubted{d.Score, d.Factors})
}

// find sets d to the doubt about a subject at a time.
func (t doubts) find(d *Doubt, sub identity.Subject, group uint32, at int64) bool {
	if t.Len() == 0 {
		return false
	}
	x, until, ok := t.Expiring.Find(doubtKey{sub, group}, at)
	if ok {
		*d = Doubt{Subject: sub, Group: group, Until: until, Score: x.score, Factors: x.factors}
	}
	return ok
}

// Doubt records a doubt from now on; one without a time takes back what was recorded.
func (c *Cacher) Doubt(d *Doubt) {
	if c.doubts.put(d) && c.said.tells() {
		c.said.tell(saidDoubt, c.appendDoubt(nil, d))
	}
}

// doubted looks for a doubt about the request. It sets d.Doubt wherever there is one, and reports whether that stops the
// request. Parts of pages are not stopped: see questioned.
func (c *Cacher) doubted(d *Decision, v *request.View, id *identity.Identity, s *Settings) bool {
	if id.Partner || !c.findDoubt(&d.Doubt, v, id, s) {
		return false
	}
	if !(d.Doubt.Score > s.Unsure) {
		d.Doubt = Doubt{}
		return false
	}
	if s.Step == StepNothing || c.paths.read(c.pathKey(s, v)) == readingPart {
		return false
	}
	d.Step = s.Step
	return true
}

func (c *Cacher) findDoubt(d *Doubt, v *request.View, id *identity.Identity, s *Settings) bool {
	at := v.At.UnixNano()
	for i, sub := range id.Subjects[:id.N] {
		if sub.Kind == identity.KindIP && i > 0 {
			return false
		}
		if c.doubts.find(d, sub, s.Group, at) {
			return true
		}
		if c.standsAlone(sub, v.At) {
			return false
		}
	}
	return false
}

// StoryDoubt is a Doubt as JSON shows it.
type StoryDoubt struct {
	Subject string             `json:"subject"`
	Until   time.Time          `json:"until"`
	Score   float32            `json:"score"`
	Factors map[string]float32 `json:"factors,omitempty"`
	Amounts map[string]float32 `json:"amounts,omitempty"` // what each factor added to the score, in log-odds
}

// Doubtful reports whether there was a doubt about the visitor from which nothing followed (verdict.unsure.then: nothing).
func (s *Story) Doubtful() bool {
	return s.Doubt != nil && s.Pass == nil && s.Verdict == Human.String() && s.Cause == CauseNone.String()
}

// story returns the doubt as JSON shows it; nil if there is none.
func (d *Doubt) story() *StoryDoubt {
	if d.Subject.Kind == identity.KindNone {
		return nil
	}
	b := (&bans.Ban{Factors: d.Factors}).Story()
	return &StoryDoubt{Subject: d.Subject.String(), Until: d.Until.UTC(), Score: d.Score, Factors: b.Factors, Amounts: b.Amounts}
}
