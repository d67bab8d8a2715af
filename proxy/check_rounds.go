package proxy

import (
	"sync/atomic"
	"time"
)

// roundsFrom is how many challenge calls in a row find a human before that is no coincidence: bans that end between a question and its
// challenge call are rare, and other visitors ask meanwhile.
const roundsFrom = 5

// rounds notices a balancer that sends its requests here without asking about them, as in style full, where the style is verdict: each
// human is led to the same URL again and again, and no question ever comes.
type rounds struct {
	n atomic.Int32 // challenge calls that found a human since a question came, or one that did not
	seldom
}

// end notes that the balancer asks, or that somebody was stopped. Nearly always it only reads.
func (r *rounds) end() {
	if r.n.Load() != 0 {
		r.n.Store(0)
	}
}

// again notes a challenge call that found a human, and reports whether that is to be logged now.
func (r *rounds) again(at time.Time) bool {
	if r.n.Add(1) < roundsFrom {
		return false
	}
	return r.due(at)
}

// isQuestion reports whether a call of style full is a question of style verdict: its path is judged then, not the visitor's.
func (k *checkCall) isQuestion() bool {
	call := &k.x.View
	return string(call.Path) == k.rules.path && (call.Get("X-Forwarded-Uri") != nil || call.Get("X-Original-URI") != nil)
}
