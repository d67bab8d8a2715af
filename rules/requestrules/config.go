package requestrules

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"antirobot/rules"
	"antirobot/verdict"
)

// ServiceConfig is the rules over requests of a service, inherited default → service → path.
type ServiceConfig struct {
	Text string `mapstructure:"text"` // empty: none, or those of File
	File string `mapstructure:"file"`
	// After runs when the answer has been given: it counts, and decides nothing.
	After string `mapstructure:"after"`
	// Answers maps decisions to actions; Otherwise is the action for all other decisions.
	Answers   []verdict.AnswerConfig `mapstructure:"answers"`
	Otherwise string                 `mapstructure:"otherwise"`
	OnError   string                 `mapstructure:"on_error"` // if the rules fail or take too long
	Time      time.Duration          `mapstructure:"time"`
	MaxInput  int                    `mapstructure:"max_input"` // of a value that a rule reads
}

// DefaultServiceConfig returns no rules, and answers for the usual decisions.
func DefaultServiceConfig() ServiceConfig {
	return ServiceConfig{
		Answers: verdict.DefaultAnswers(), Otherwise: "captcha", OnError: "captcha", Time: 20 * time.Millisecond,
		MaxInput: 8 << 10,
	}
}

// Validate returns all problems that do not depend on the rules' file and the lists.
func (c *ServiceConfig) Validate() error {
	answers, err := verdict.NewAnswers(c.Answers, c.Otherwise)
	errs := []error{err}
	failed, ok := verdict.ParseAction(c.OnError)
	if !ok {
		errs = append(errs, fmt.Errorf("on_error: %.40q is not an action", c.OnError))
	}
	if answers.Leads(verdict.RuleQueue) || failed == verdict.RuleQueue {
		errs = append(errs, errors.New("answers: queue is an action of message routes: requests do not wait for a "+
			"person"))
	}
	if c.Time < 100*time.Microsecond || c.Time > 10*time.Second {
		errs = append(errs, fmt.Errorf("time: %v is not between 100µs and 10s", c.Time))
	}
	if c.MaxInput < 64 || c.MaxInput > 1<<20 {
		errs = append(errs, fmt.Errorf("max_input: %d is not between 64 and 1048576", c.MaxInput))
	}
	switch {
	case c.Text != "" && c.File != "":
		errs = append(errs, errors.New("file: give one of text and file"))
	case c.Text != "":
		_, err := rules.Compile(c.Text, c.options(&Names{}, nil))
		errs = append(errs, inText(err))
	}
	if _, err := c.compileAfter(&Names{}, nil); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Names are what rules may name: nil Lists are unknown, and without Formulas any name compiles.
type Names struct {
	Lists    []rules.List
	Formulas rules.Formulas
	Places   bool
}

func inText(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("text: %w", err)
}

// Check compiles the rules with the existing names.
func (c *ServiceConfig) Check(names *Names) error {
	_, err := c.compile(names, nil)
	_, after := c.compileAfter(names, nil)
	return errors.Join(err, after)
}

func (c *ServiceConfig) compileAfter(names *Names, now func() time.Time) (*rules.Program, error) {
	if c.After == "" {
		return nil, nil //nolint:nilnil // no rules are no error
	}
	o := c.options(names, now)
	o.Attributes = func(name string) bool { return KnownAttribute(name) || slices.Contains(answerAttributes[:], name) }
	o.Elsewhere = c.scripts(c.Text)
	p, err := rules.Compile(c.After, o)
	if err != nil {
		return nil, fmt.Errorf("after: %w", err)
	}
	return p, nil
}

func (c *ServiceConfig) scripts(text string) []*rules.Script {
	if s, err := rules.Parse(text); err == nil {
		return []*rules.Script{s}
	}
	return nil
}

// Warnings returns probable mistakes.
func (c *ServiceConfig) Warnings(names *Names) []string {
	var out []string
	if p, err := c.compile(names, nil); err == nil && p != nil {
		for _, w := range p.Warnings() {
			out = append(out, w.Error())
		}
	}
	if p, err := c.compileAfter(names, nil); err == nil && p != nil {
		for _, w := range p.Warnings() {
			out = append(out, "after: "+w.Error())
		}
	}
	return out
}

// Parts are available to rules for requests: there is no message to log or learn.
const Parts = rules.PartStorages | rules.PartCounters | rules.PartLists | rules.PartFormulas

func (c *ServiceConfig) options(names *Names, now func() time.Time) rules.Options {
	o := rules.DefaultOptions()
	o.Parts, o.Now, o.Lists, o.Formulas = Parts, now, names.Lists, names.Formulas
	o.Time = c.Time
	o.Places = names.Places
	o.Attributes, o.Storages = KnownAttribute, []string{storageMemory, storageKept}
	return o
}

func (c *ServiceConfig) compile(names *Names, now func() time.Time) (*rules.Program, error) {
	o := c.options(names, now)
	o.Elsewhere = c.scripts(c.After)
	if c.Text == "" && c.File == "" && c.After != "" {
		return rules.Compile("stop as "+rules.Unknown, o) // for rules over answers only
	}
	if c.Text != "" {
		p, err := rules.Compile(c.Text, o)
		return p, inText(err)
	}
	if c.File == "" {
		return nil, nil //nolint:nilnil // no rules are no error
	}
	text, err := os.ReadFile(c.File)
	if err != nil {
		return nil, fmt.Errorf("file: %w", err)
	}
	p, err := rules.Compile(string(text), o)
	var wrong *rules.SyntaxError
	if errors.As(err, &wrong) {
		return nil, fmt.Errorf("file: %s: %w", c.File, wrong)
	}
	return p, err
}
