// Package label keeps what operators and services say of subjects: a person, or a robot. Models are trained on that;
// nobody is let through or stopped by it.
//
// Rules:
//  1. What an operator says holds until an operator says otherwise: no service changes it, and it is not evicted.
//  2. What a service says gives way when the table is full, the oldest of a few first.
//  3. A label that nobody has repeated for Config.Keep is forgotten.
package label

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"antirobot/identity"
)

// Label is what a subject is said to be.
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

// Source is who says so, or on what ground.
type Source uint8

// The sources. All but the operator are words of a service.
const (
	Nobody Source = iota
	Operator
	Customer // the service knows a customer
	SignedIn // somebody has signed in
	Paid
	Posted
	Service // says human or robot, and not why
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

// Field is the field of a service's answer that says what its visitor is. The gateway takes it out.
const Field = "X-Antirobot-Label"

// Mark is a label with its source.
type Mark struct {
	Label  Label
	Source Source
}

// ReadField reads the value of Field: customer, signed-in, paid, posted or human for a person, or robot. false: it is
// none of these.
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

const entryHead = 10 // bytes of an entry before its reason

// maxReason bounds the text that says why, in bytes; the admin API takes no longer one.
const maxReason = 500

func (e *Entry) record() []byte {
	b := append(make([]byte, 0, entryHead+len(e.Reason)), byte(e.Label), byte(e.Source))
	b = binary.BigEndian.AppendUint64(b, uint64(e.At.Unix())) //nolint:gosec // after 1970
	return append(b, e.Reason...)
}

var errRecord = errors.New("malformed label")

// readEntry reads what record has written, under the key of a subject.
func readEntry(key, val []byte) (e Entry, err error) {
	if len(key) != 1+len(e.Subject.ID) || len(val) < entryHead || len(val) > entryHead+maxReason {
		return e, errRecord
	}
	e.Subject = identity.Subject{Kind: identity.Kind(key[0]), ID: [16]byte(key[1:])}
	e.Label, e.Source = Label(val[0]), Source(val[1])
	if e.Label != Human && e.Label != Robot || e.Source == Nobody || int(e.Source) >= Sources {
		return e, errRecord
	}
	e.At = time.Unix(int64(binary.BigEndian.Uint64(val[2:])), 0).UTC() //nolint:gosec // as it was written
	e.Reason = string(val[entryHead:])
	return e, nil
}

// Config is the section labels.
type Config struct {
	Max  int           `mapstructure:"max"`  // labels at once
	Keep time.Duration `mapstructure:"keep"` // one that nobody repeats is forgotten after this
}

// DefaultConfig keeps a hundred thousand labels for half a year.
func DefaultConfig() Config { return Config{Max: 100_000, Keep: 180 * 24 * time.Hour} }

// Validate returns every problem at once.
func (c *Config) Validate() error {
	var errs []error
	if c.Max < 1 || c.Max > 10_000_000 {
		errs = append(errs, fmt.Errorf("max: %d is not between 1 and 10000000", c.Max))
	}
	if c.Keep < 24*time.Hour || c.Keep > 10*366*24*time.Hour {
		errs = append(errs, fmt.Errorf("keep: %v is not between 24h and 87840h", c.Keep))
	}
	return errors.Join(errs...)
}
