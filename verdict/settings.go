package verdict

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"antirobot/request"
	"antirobot/verdict/ledger"
)

// Limit is one sliding window of the slow half: more than Requests pages within Window earn a ban of length Ban.
type Limit struct {
	Window   time.Duration `mapstructure:"window"`
	Requests int           `mapstructure:"requests"`
	Ban      time.Duration `mapstructure:"ban"`
}

// MaxLimits is how many windows a service may have: a session keeps two counters for each.
const MaxLimits = 4

// Step is how a visitor is challenged (Decision.Step). A pass pays for any of them.
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

// UnsureConfig says which scores a service is unsure about, and what follows from them.
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

// ServiceConfig is the part of a service's section that the verdict and the slow half read. It is inherited default →
// service → path; the code that resolves that calls Service on the result.
type ServiceConfig struct {
	Mode           string  `mapstructure:"mode"`             // enforce, observe or off
	Threshold      float64 `mapstructure:"threshold"`        // a scored ban or judgement must exceed it; 0 to below 1
	Sync           bool    `mapstructure:"sync"`             // ask the judge inline, before the answer
	OnStoreFailure string  `mapstructure:"on_store_failure"` // open or closed
	Limits         []Limit `mapstructure:"limits"`           // pace of pages; an empty list means that nobody is banned for pace
	CallFactor     float64 `mapstructure:"-"`                // multiplies the limits for calls of scripts and apps, counted apart

	Unsure UnsureConfig `mapstructure:"unsure"` // who is neither human nor robot for certain
	// Campaign is what newcomers are asked who arrive as nearly only robots do at present: nothing, check or captcha.
	Campaign string `mapstructure:"campaign"`
	// Quota is the least that visitors meet who have read more than the quota allows: check, press or captcha.
	Quota string     `mapstructure:"quota"`
	When  WhenConfig `mapstructure:"when"` // only then whom the gateway takes for a robot is asked
	// Honeypot marks a path to which no link leads that people see: a client that opens it is banned, and labelled a robot for training.
	Honeypot bool `mapstructure:"honeypot"`
}

// DefaultServiceConfig returns a service without limits of its own: the built-in rules (verdict/proof) say at which pace
// a client is a machine.
func DefaultServiceConfig() ServiceConfig {
	return ServiceConfig{
		Mode:           "enforce",
		Threshold:      0.5,
		OnStoreFailure: "open",
		CallFactor:     4,
		Unsure:         UnsureConfig{Above: 0.3, Then: "nothing"},
		Campaign:       StepCheck.String(),
		Quota:          StepCheck.String(),
	}
}

// Validate returns every problem at once.
func (c *ServiceConfig) Validate() error {
	var errs []error
	if _, ok := parseMode(c.Mode); !ok {
		errs = append(errs, fmt.Errorf("mode: %q is none of enforce, observe, off", c.Mode))
	}
	if math.IsNaN(c.Threshold) || c.Threshold < 0 || c.Threshold >= 1 {
		errs = append(errs, fmt.Errorf("threshold: %v is not in [0, 1)", c.Threshold))
	}
	if _, ok := ledger.ParsePolicy(c.OnStoreFailure); !ok {
		errs = append(errs, fmt.Errorf("on_store_failure: %q is neither open nor closed", c.OnStoreFailure))
	}
	if len(c.Limits) > MaxLimits {
		errs = append(errs, fmt.Errorf("limits: %d windows, at most %d are counted", len(c.Limits), MaxLimits))
	}
	for i, l := range c.Limits {
		if l.Window < time.Second || l.Window > 24*time.Hour {
			errs = append(errs, fmt.Errorf("limits[%d].window: %v is not between 1s and 24h", i, l.Window))
		}
		if l.Requests < 2 || l.Requests > 1_000_000 {
			errs = append(errs, fmt.Errorf("limits[%d].requests: %d is not between 2 and 1000000", i, l.Requests))
		}
		if l.Ban < time.Second || l.Ban > 30*24*time.Hour {
			errs = append(errs, fmt.Errorf("limits[%d].ban: %v is not between 1s and 720h", i, l.Ban))
		}
	}
	if math.IsNaN(c.CallFactor) || c.CallFactor < 1 || c.CallFactor > 1000 {
		errs = append(errs, fmt.Errorf("call_factor: %v is not between 1 and 1000", c.CallFactor))
	}
	if _, ok := parseStep(c.Campaign); !ok {
		errs = append(errs, fmt.Errorf("campaign: %.40q is none of %s", c.Campaign, strings.Join(stepNames[:], ", ")))
	}
	if step, ok := parseStep(c.Quota); !ok || step == StepNothing {
		errs = append(errs, fmt.Errorf("quota: %.40q is none of check, press, captcha", c.Quota))
	}
	errs = append(errs, c.Unsure.validate(), c.When.validate())
	return errors.Join(errs...)
}

// Settings are the settings for judging one request, resolved for its service and path. They are immutable once in use
// and safe for concurrent use.
type Settings struct {
	Name           string // of the service; paths with their own settings share it
	Group          uint32 // of all settings with the name: what is counted per service is counted for them together
	Index          uint16 // of these settings: events carry it, and it keeps its meaning across a reload if the name and path stay
	Mode           Mode
	Threshold      float32
	Sync           bool
	Scorer         Scorer // the inline judge that Sync asks; nil: none
	OnStoreFailure ledger.Policy
	Limits         []Limit // of pages …
	CallFactor     float32 // … and this many times as many calls of scripts and apps; 0: as many
	Unsure         float32 // a score above it and up to the threshold is a doubt …
	Step           Step    // … which leads to this
	Campaign       Step    // what newcomers are asked who arrive like a campaign
	Quota          Step    // the least that visitors meet who have read more than the quota allows
	Rules          Rules   // over requests; nil: none
	Honeypot       bool    // a client that opens the path is a robot
	when           *when   // nil: always
	// Watch means that a request is looked at a second time, or is for one of the gateway's own pages: rules decide,
	// but count nothing.
	Watch bool
}

// Settings returns the settings called name, made from a valid configuration.
func (c *ServiceConfig) Settings(name string, index uint16) (*Settings, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	m, _ := parseMode(c.Mode)
	p, _ := ledger.ParsePolicy(c.OnStoreFailure)
	step, _ := parseStep(c.Unsure.Then)
	campaign, _ := parseStep(c.Campaign)
	quota, _ := parseStep(c.Quota)
	return &Settings{
		Name: name, Group: groupOf(name), Index: index, Mode: m, Threshold: float32(c.Threshold), Sync: c.Sync,
		OnStoreFailure: p, Limits: slices.Clone(c.Limits), CallFactor: float32(c.CallFactor), Unsure: float32(c.Unsure.Above),
		Step: step, Campaign: campaign, Quota: quota, Honeypot: c.Honeypot, when: c.When.prepare(),
	}, nil
}

// groupOf derives a service's number from its name, so that it stays the same across reloads.
func groupOf(name string) uint32 {
	h := request.Hash([]byte(name))
	return uint32(h ^ h>>32) //nolint:gosec // the halves of a hash
}

func parseMode(s string) (Mode, bool) {
	switch s {
	case "enforce":
		return Enforce, true
	case "observe":
		return Observe, true
	case "off":
		return Off, true
	}
	return 0, false
}
