// Package rules reads, compiles and runs the language of rules, in which operators say what happens to a message or to a
// request: statements that check it, mark it with tags, add to its score and decide.
//
// Invariants:
//  1. A Program is immutable and safe for concurrent use; what one run needs is in a Run, which belongs to one goroutine.
//  2. A Program knows nothing of where it runs: attributes, storages, models, logs, counters, lists and formulas are asked
//     through Env. A rule whose part is not there does not compile.
//  3. Control only goes forward, so a run visits each statement at most once; regexps take linear time.
//  4. A rule that is FALSE has found something: it marks and scores. An error of a rule ends the run.
//  5. The table of rules is the only place that knows their names, parameters, defaults and docs.
package rules

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"antirobot/rules/texts"
)

// Kind is the type of an attribute.
type Kind uint8

// The types of attributes. None is the type of what is absent.
const (
	None      Kind = iota
	Text           // Unicode text
	Int            // a whole number
	UniqueInt      // a whole number that identifies somebody
	IP             // an address
)

// String returns the name that configs and docs use.
func (k Kind) String() string {
	switch k {
	case Text:
		return "Text"
	case Int:
		return "Int"
	case UniqueInt:
		return "UniqueInt"
	case IP:
		return "IP"
	default:
		return "None"
	}
}

// Value is a typed value of an attribute. Only the field of its Kind is set. Nothing is coerced: 1212 is not "1212".
type Value struct {
	Kind Kind       `json:"k"`
	Text string     `json:"t,omitempty"` // Text
	Int  int64      `json:"i,omitempty"` // Int, UniqueInt
	IP   netip.Addr `json:"a,omitzero"`  // IP
}

// The codes that a run or a compilation may end with; they are the API's.
const (
	CodeType       = 1005  // wrong type
	CodeProperty   = 2003  // no such property
	CodeLabel      = 2004  // no such label later in the rules
	codeAttribute  = 2006  // the message lacks the attribute
	codeUnexpected = 99000 // anything else
)

// Fault is an error with the code that clients see.
//
//nolint:errname // the word of the wire format
type Fault struct {
	Code int
	Text string
	Line int    // of the statement that failed; 0: none did
	Rule string // that the statement runs; empty: none
	Slow bool   // the rule, or what it asked, took too long
}

// Error returns the text of f.
func (f *Fault) Error() string { return f.Text }

// Faultf returns a Fault.
func Faultf(code int, format string, args ...any) *Fault {
	return &Fault{Code: code, Text: fmt.Sprintf(format, args...)}
}

// Pos is a place in the text of rules. Both numbers begin with 1; columns count code points.
type Pos struct {
	Line, Col int
}

// SyntaxError says what is wrong with the text of rules, and where.
type SyntaxError struct {
	Pos
	Text string
	Hint string // a name that was probably meant; may be empty
}

// Error returns "line L, column C: text; did you mean hint?".
func (e *SyntaxError) Error() string {
	s := fmt.Sprintf("line %d, column %d: %s", e.Line, e.Col, e.Text)
	if e.Hint != "" {
		s += "; did you mean " + e.Hint + "?"
	}
	return s
}

// Part is a part of the surroundings that a rule may need.
type Part uint8

// The parts of Env beside the attributes, which every run has.
const (
	PartStorages Part = 1 << iota
	PartModels
	PartLogs
	PartCounters
	PartLists
	PartFormulas

	PartsAll = PartStorages | PartModels | PartLogs | PartCounters | PartLists | PartFormulas
)

// Env is where a Program runs, for one goroutine at a time. A part that the Program was not compiled with may be nil.
type Env struct {
	Attributes Attributes
	MaxText    int // bytes of a text that a rule reads, a longer one is an error; 0: no bound
	Storages   Storages
	Models     Models
	Logs       Logs
	Counters   CounterSource
	Lists      ListSource
	Places     Places // nil: nothing is known of addresses

	links texts.Reader
}

// Attributes gives what is judged.
type Attributes interface {
	// Attribute returns the value called name, or false. The Value is valid during the run.
	Attribute(name string) (Value, bool)
}

// Storages counts frequencies.
type Storages interface {
	// Frequency adds n to the counter of key in the storage of that name and returns its new value; 0 only reads. The
	// counter lives for window from its first use (0: for ever), and is not extended. key is valid during the call.
	Frequency(ctx context.Context, storage string, key []byte, n int64, window time.Duration) (int64, error)
	// Draw takes a token from the bucket of key, and returns 0, or how long to wait for the next token if there is none.
	Draw(ctx context.Context, storage string, key []byte, b Bucket) (wait time.Duration, err error)
}

// Bucket is a token bucket: full at first, it gets a token every Every, and holds Burst tokens at most.
type Bucket struct {
	Every time.Duration // above zero
	Burst int64         // one or more
}

// Models classifies texts.
type Models interface {
	// Score returns how bad a text looks to a model, 0 to 1.
	Score(ctx context.Context, model, text string) (float64, error)
	Train(ctx context.Context, model, text string, good bool) error
}

// Logs keeps what was judged.
type Logs interface {
	// Put writes an entry with the tags of r, after tag if that is not empty.
	Put(ctx context.Context, log, tag string, r *Run) error
}

// Counter names a windowed counter: the count of one value under a type over the last Period.
type Counter struct {
	Prefix string
	Type   uint16
	Value  Value
	Period time.Duration // ten minutes to a day by ten minutes, or whole days
}

// Marker is what is said of a value that is counted: good or bad.
type Marker uint8

// The markers.
const (
	JudgedGood Marker = iota // by rules or a formula
	JudgedBad
	MarkedSpam // by people
	MarkedGood
)

// CounterSource reads and updates windowed counters.
type CounterSource interface {
	Count(ctx context.Context, c Counter) (uint64, error)
	// Share returns how often the value was judged, and how often as bad; what people said counts as well.
	Share(ctx context.Context, c Counter) (bad, judged uint64, err error)
	Add(ctx context.Context, c Counter, n uint64) error
	// AddPair counts unique once per period of the pair.
	AddPair(ctx context.Context, pair Counter, unique Value) error
	// Mark counts that the value was judged, or marked by people.
	Mark(ctx context.Context, c Counter, as Marker) error
}

// ListSource looks values up.
type ListSource interface {
	// Listed reports whether an address or a subject is in a list of networks.
	Listed(ctx context.Context, list string, v Value) (bool, error)
	// Texts returns the list of texts of that name; nil if there is none, or if it has not been loaded yet.
	Texts(list string) *texts.Set
}

// Places says where addresses are.
type Places interface {
	// Place returns the country of an address, two letters, and its autonomous system; empty and 0 for what is not known.
	Place(addr netip.Addr) (country string, asn uint32)
}

// Formulas gives rules the models that there are.
type Formulas interface {
	// Bind returns the model called name, for factors of these names. It fails for one that is not there, or that needs
	// another factor.
	Bind(name string, factors []string) (Scorer, error)
	Names() []string
}

// Scorer is a model that was bound: the value of factors in the order in which they were named. *formula.Model is.
type Scorer interface {
	Score(x []float32) float32
}

// Limits bound what a text of rules may ask for.
type Limits struct {
	Source     int           // bytes of text
	Statements int           // statements
	Tags       int           // different tags
	Regexp     int           // instructions of all compiled regexps together
	Time       time.Duration // of one run; 0: no limit. Looked at between statements
}

// defaultLimits returns limits that no reasonable rules meet.
func defaultLimits() Limits {
	return Limits{Source: 256 << 10, Statements: 4096, Tags: 1024, Regexp: 50_000, Time: time.Second}
}
