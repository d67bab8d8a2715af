// Package rules reads, compiles and runs the language in which operators judge messages and requests.
//
// Invariants:
//  1. A Program is immutable and safe for concurrent use; a Run belongs to one goroutine.
//  2. A Program reaches its surroundings only through Env. A rule without its part does not compile.
//  3. Control only goes forward, and regexps take linear time.
//  4. A rule that is FALSE marks and scores. An error of a rule ends the run.
//  5. Only the table of rules knows names, parameters, defaults and docs.
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

// The types of attributes; None is absent.
const (
	None Kind = iota
	Text
	Int
	UniqueInt // an identifying number
	IP
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

// Value is a typed value; only the field of its Kind is set. Nothing is coerced: 1212 is not "1212".
type Value struct {
	Kind Kind       `json:"k"`
	Text string     `json:"t,omitempty"`
	Int  int64      `json:"i,omitempty"`
	IP   netip.Addr `json:"a,omitzero"`
}

// The codes of the API that a run or a compilation may end with.
const (
	CodeType       = 1005
	CodeProperty   = 2003
	CodeLabel      = 2004
	codeAttribute  = 2006
	codeUnexpected = 99000
)

// Fault is an error with the code that clients see.
//
//nolint:errname // the word of the wire format
type Fault struct {
	Code int
	Text string
	Line int    // of the failed statement; 0: none
	Rule string // of the statement; empty: none
	Slow bool   // the rule, or its source, took too long
}

// Error returns the text of f.
func (f *Fault) Error() string { return f.Text }

// Faultf returns a Fault.
func Faultf(code int, format string, args ...any) *Fault {
	return &Fault{Code: code, Text: fmt.Sprintf(format, args...)}
}

// Pos is a place in the text of rules. Lines and columns (code points) begin with 1.
type Pos struct {
	Line, Col int
}

// SyntaxError is an error in the text of rules.
type SyntaxError struct {
	Pos
	Text string
	Hint string // a name that was probably meant
}

// Error returns "line L, column C: text; did you mean hint?".
func (e *SyntaxError) Error() string {
	s := fmt.Sprintf("line %d, column %d: %s", e.Line, e.Col, e.Text)
	if e.Hint != "" {
		s += "; did you mean " + e.Hint + "?"
	}
	return s
}

// Part is a part of Env that a rule may need.
type Part uint8

// The parts; every Env has attributes.
const (
	PartStorages Part = 1 << iota
	PartModels
	PartLogs
	PartCounters
	PartLists
	PartFormulas

	PartsAll = PartStorages | PartModels | PartLogs | PartCounters | PartLists | PartFormulas
)

// Env is where a Program runs, for one goroutine at a time. Parts that the Program was not compiled with may be
// nil.
type Env struct {
	Attributes Attributes
	MaxText    int // bytes of a text that a rule may read; 0: no bound
	Storages   Storages
	Models     Models
	Logs       Logs
	Counters   CounterSource
	Lists      ListSource
	Places     Places // may be nil

	links texts.Reader
}

// Attributes returns the attributes that are judged.
type Attributes interface {
	// Attribute returns a value that is valid during the run.
	Attribute(name string) (Value, bool)
}

// Storages counts frequencies.
type Storages interface {
	// Frequency adds n to a counter and returns it; 0 only reads. The counter lives for window from its first use
	// (0: for ever). key is valid during the call.
	Frequency(ctx context.Context, storage string, key []byte, n int64, window time.Duration) (int64, error)
	// Draw takes a token and returns 0, or the time until the next token.
	Draw(ctx context.Context, storage string, key []byte, b Bucket) (wait time.Duration, err error)
}

// Bucket gets a token every Every and holds Burst at most; it is full at first.
type Bucket struct {
	Every time.Duration
	Burst int64
}

// Models classifies texts.
type Models interface {
	// Score returns how bad a text looks, 0 to 1.
	Score(ctx context.Context, model, text string) (float64, error)
	Train(ctx context.Context, model, text string, good bool) error
}

// Logs keeps what was judged.
type Logs interface {
	// Put writes an entry with the tags of r, after tag if that is not empty.
	Put(ctx context.Context, log, tag string, r *Run) error
}

// Counter names a windowed counter of one value over the last Period.
type Counter struct {
	Prefix string
	Type   uint16
	Value  Value
	Period time.Duration // ten minutes to a day by ten minutes, or whole days
}

// CounterOp is what a rule does with a counter.
type CounterOp uint8

// The operations.
const (
	CountRead  CounterOp = iota // returns the count
	CountShare                  // returns the bad judgements of the value, and all judgements
	CountAdd                    // adds N
	CountPair                   // adds one to the counter of Unique, once per period for each value paired with it
	CountMark                   // counts a judgement of the value
)

// Reads reports whether the operation changes nothing.
func (o CounterOp) Reads() bool { return o <= CountShare }

// CounterUse is an operation on a counter. N and Unique belong to their operations.
type CounterUse struct {
	Op CounterOp
	Counter
	N      uint64
	Unique Value
	As     Marker
}

// Marker is a judgement of a counted value.
type Marker uint8

// The markers: JudgedGood and JudgedBad by rules, MarkedSpam and MarkedGood by people.
const (
	JudgedGood Marker = iota
	JudgedBad
	MarkedSpam
	MarkedGood
)

// CounterSource reads and updates windowed counters.
type CounterSource interface {
	// Count performs u and returns what its operation returns; of is for CountShare only.
	Count(ctx context.Context, u CounterUse) (n, of uint64, err error)
}

// ListSource looks values up.
type ListSource interface {
	// Listed looks an address or a subject up in a list of networks.
	Listed(ctx context.Context, list string, v Value) (bool, error)
	// Texts returns a list of texts; nil if there is none yet.
	Texts(list string) *texts.Set
}

// Places locates addresses.
type Places interface {
	// Place returns a two-letter country and an autonomous system; empty and 0 if unknown.
	Place(addr netip.Addr) (country string, asn uint32)
}

// Formulas gives rules the named models.
type Formulas interface {
	// Bind returns a model for factors of these names. It fails if the model is unknown or needs another factor.
	Bind(name string, factors []string) (Scorer, error)
	Names() []string
}

// Scorer is a bound model; x has its factors in order.
type Scorer interface {
	Score(x []float32) float32
}

// Bounds of a text of rules.
const (
	maxSource     = 256 << 10 // bytes
	maxStatements = 4096
	maxTags       = 1024   // different ones
	maxRegexps    = 50_000 // instructions of all compiled regexps
)
