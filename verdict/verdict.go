// Package verdict decides, for every request and from memory alone, whether a human or a robot asks.
//
// The decision, first match wins (a table of tests holds it):
//  1. the operator's own block entry: Blocked
//  2. white list: Human; never an event that is judged, never banned, never challenged
//  3. a block entry of a fetched list, or a blocking rule: Blocked
//  4. a ban entry of a list, a live ban, a rule, or the inline judge says robot: a solved pass with allowance left pays
//     one request and the answer is Human; otherwise Robot
//  5. Human
//
// Nothing here waits for the store or takes a lock that all requests share.
package verdict

import (
	"time"

	"antirobot/identity"
)

// Verdict is the answer to who asks.
type Verdict uint8

// The verdicts.
const (
	Human Verdict = iota
	Robot
	Blocked
)

func (v Verdict) String() string {
	switch v {
	case Human:
		return "human"
	case Robot:
		return "robot"
	default:
		return "blocked"
	}
}

// Cause is the step of the decision that spoke.
type Cause uint8

// The causes, in the order of the decision.
const (
	CauseNone      Cause = iota // nothing spoke: human
	CauseOwnBlock               // the operator's own block entry
	CauseWhite                  // a white list, or a verified crawler
	CauseBlockList              // a block entry of a fetched list
	CauseRule                   // a rule
	CauseBanList                // a ban entry of a list
	CauseBan                    // a live ban
	CauseJudge                  // the inline judge
	CauseDemand                 // the client asked for the captcha (test query of the XML interface)
	CauseOff                    // the service's mode is off: nothing was looked up
)

// Mode is what a service does with a verdict.
type Mode uint8

// The modes.
const (
	Enforce Mode = iota
	Observe      // decides, logs and counts, lets everything through
	Off
)

// Event is what the slow half learns of one request: a plain value, no pointers into the connection.
type Event struct {
	At       time.Time
	Service  uint16 // index of the service in the present configuration
	Verdict  Verdict
	Cause    Cause
	Paid     bool                // a pass paid for the request
	Static   bool                // a sub-resource by path or Sec-Fetch-Dest: does not count as pace
	Subjects [6]identity.Subject // all verified identities, the winner first, the address last
	N        uint8
	Status   uint16 // of the answer; 0 if the client left first
	BytesOut uint64
	Took     time.Duration // from head to the last byte
	Method   uint8         // first letter of the method
	Path     uint64        // hash of the raw path
	Agent    uint64        // hash of User-Agent; 0 if absent
	Kind     EventKind
}

// EventKind tells requests from what happened at the captcha.
type EventKind uint8

// The kinds of events.
const (
	EventRequest EventKind = iota
	EventShown             // a challenge was shown
	EventSolved
	EventFailed
)

// Sink takes events off the request's path. Offer never blocks and never allocates; false means that the event was
// shed (and counted by the sink). The Event is copied.
type Sink interface {
	Offer(e *Event) bool
}
