package captcha

import (
	"time"

	"antirobot/captcha/outcomes"
	"antirobot/spravka"
	"antirobot/templates"
)

// state is the result of checking an answer.
type state uint8

const (
	stateSolved state = iota
	stateFailed
	stateExpired // the picture was too old, or the visitor's network changed: a new challenge, not a failure
	stateEmpty   // nothing was answered; spends nothing
	stateUsed    // the key was answered earlier
	stateHas     // … and rightly: the visitor, who pressed twice, brings the pass that it earned
	stateLost    // … and rightly, a moment ago: the visitor, who may not have got it, is given the same pass again
	stateLimited
	stateNext        // one act of several: its next one follows
	stateMoved       // a pass from another network is good here, too
	stateUnmoved     // … is not: its browser has not proved itself
	stateUnavailable // the store is unavailable, and the service then accepts no answer
	stateCount
)

func (s state) String() string {
	return outcomes.Answers[s]
}

// result is a judged answer.
type result struct {
	state  state
	key    key
	opened bool          // key is set
	wait   time.Duration // with stateLimited and stateUnavailable
	early  bool          // with stateLimited: the answer is right, not spent, and can be given again after wait
	took   time.Duration
	next   *key     // with stateNext
	robot  bool     // it was pressed as machines press
	print  [16]byte // of the key pair with which the browser has proved itself; zero: with none
	pass   spravka.Pass
	cookie HeaderField
}

// note copies the result into the answer, for events.
func (r *result) note(a *Response) {
	a.Took, a.Work = r.took, r.opened && !r.key.read()
	switch r.state {
	case stateSolved:
		a.Outcome, a.Pass = OutcomeSolved, r.pass
	case stateFailed, stateUsed:
		a.Outcome = OutcomeFailed
	case stateLimited:
		a.Outcome = OutcomeLimited
	default:
		a.Outcome = OutcomeNone
	}
}

func (r *result) status() int {
	if r.state == stateUnavailable {
		return 503
	}
	return 429
}

// problem is what the next page says. Who fails a check of the browser did nothing wrong.
func (r *result) problem() templates.Problem {
	if r.opened && (r.key.kind == silentCode || r.key.kind == pressCode || r.key.kind == moveCode) || r.state == stateNext {
		return templates.ProblemNone
	}
	switch r.state {
	case stateExpired:
		return templates.ProblemExpired
	case stateEmpty:
		return templates.ProblemEmpty
	case stateUsed:
		return templates.ProblemUsed
	default:
		return templates.ProblemFailed
	}
}

// stay is 1 for a visitor who is not asked again to move a pass.
func (r *result) stay() string {
	if r.opened && r.key.kind == moveCode {
		return "1"
	}
	return ""
}

// statusText is what clients are told: "failed" is known from the original system, "expired" to our own pages and scripts.
func (r *result) statusText() string {
	if r == nil || r.state == stateNext || r.state == stateUnmoved {
		return ""
	}
	if r.state == stateExpired {
		return "expired"
	}
	return "failed"
}

func (r *result) keyOrNil() *key {
	if !r.opened {
		return nil
	}
	return &r.key
}
