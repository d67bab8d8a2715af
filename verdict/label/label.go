// Package label keeps labels of subjects, human or robot, which operators and services give. Models are trained on them;
// they decide about no request.
//
// Rules:
//  1. An operator's label holds until an operator changes it: no service does, and it is not evicted.
//  2. Services' labels make room when the table is full, the oldest of a few first.
//  3. A label that is not repeated for Config.Keep is forgotten.
package label

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"antirobot/identity"
	"antirobot/verdict/replicate"
)

// Label is the class of a subject.
type Label uint8

// The labels.
const (
	None Label = iota
	Human
	Robot
)

var labelNames = [...]string{"none", "human", "robot"}

func (l Label) String() string {
	if int(l) < len(labelNames) {
		return labelNames[l]
	}
	return "unknown"
}

// Parse reads human or robot.
func Parse(s string) (Label, bool) {
	switch s {
	case "human":
		return Human, true
	case "robot":
		return Robot, true
	}
	return None, false
}

// Source is where a label comes from.
type Source uint8

// The sources. All but the operator are services.
const (
	Nobody Source = iota
	Operator
	Customer // the service knows a customer
	SignedIn
	Paid
	Posted
	Service // without a reason
)

// Sources is how many sources there are.
const Sources = len(sourceNames)

var sourceNames = [...]string{"", "operator", "customer", "signed-in", "paid", "posted", "service"}

func (s Source) String() string {
	if int(s) < len(sourceNames) {
		return sourceNames[s]
	}
	return "unknown"
}

// Field is the header field of a service's answer that labels its visitor. The gateway removes it.
const Field = "X-Antirobot-Label"

// Mark is a label with its source.
type Mark struct {
	Label  Label
	Source Source
}

// ReadField reads the value of Field: customer, signed-in, paid, posted or human for a person, or robot.
func ReadField(value []byte) (Mark, bool) {
	value = bytes.TrimSpace(value)
	if l, ok := Parse(string(value)); ok {
		return Mark{l, Service}, true
	}
	for s := Customer; s < Service; s++ {
		if string(value) == sourceNames[s] {
			return Mark{Human, s}, true
		}
	}
	return Mark{}, false
}

// Entry is a label in the table.
type Entry struct {
	Subject identity.Subject
	Mark
	At     time.Time
	Reason string // of an operator, one line
}

// maxReason bounds the reason of a label, in bytes.
const maxReason = 500

func (e *Entry) code(c *replicate.Codec) {
	replicate.Uint(c, &e.Label)
	replicate.Uint(c, &e.Source)
	c.Time(&e.At)
	c.Text(&e.Reason, maxReason)
	c.Fail(e.Label != Human && e.Label != Robot || e.Source == Nobody || int(e.Source) >= Sources)
}

func key(s identity.Subject) []byte {
	c := replicate.Writer([]byte(prefix), 0)
	c.Subject(&s)
	return c.Bytes()
}

var errRecord = errors.New("malformed label")

// readEntry reads an entry from the store; key is without its prefix.
func readEntry(key, val []byte) (e Entry, err error) {
	k, v := replicate.Reader(key, 0), replicate.Reader(val, 0)
	k.Subject(&e.Subject)
	e.code(v)
	e.At = e.At.UTC()
	if !k.OK() || !v.OK() {
		return Entry{}, errRecord
	}
	return e, nil
}

// Config is the section labels.
type Config struct {
	Keep time.Duration `mapstructure:"keep"` // a label that is not repeated is forgotten after this
	Max  int           `mapstructure:"-"`    // labels at once
}

// DefaultConfig keeps a hundred thousand labels for half a year.
func DefaultConfig() Config { return Config{Max: 100_000, Keep: 180 * 24 * time.Hour} }

// Validate returns every problem at once.
func (c *Config) Validate() error {
	if c.Keep < 24*time.Hour || c.Keep > 10*366*24*time.Hour {
		return fmt.Errorf("keep: %v is not between 24h and 87840h", c.Keep)
	}
	return nil
}
