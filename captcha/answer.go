// Package captcha issues, renders, checks and spends challenges, and carries the challenged request through them.
//
// It is independent of the server: it is given a Request and returns an Answer.
//
// Invariants:
//  1. Nothing is stored for an unanswered challenge: everything needed later is sealed into its key.
//  2. The first answer spends a key, right or wrong; a right one durably, and before the pass is made.
//  3. A visitor is sent only to URLs of the service's own hosts or its retpath_hosts, whatever is signed.
//  4. All state per client is bounded and may be forgotten; forgetting always favors the client.
//  5. Keys, answers, cookies and passes are never logged.
package captcha

import (
	"time"

	"antirobot/request"
	"antirobot/spravka"
)

// HeaderField is one field of an Answer.
type HeaderField struct {
	Name, Value string
}

// Response is a complete response of the gateway itself. The caller adds the fields common to all own answers
// (Cache-Control, X-Request-Id, X-Antirobot-Verdict) only where the Answer does not have them already.
type Response struct {
	Status int
	Header []HeaderField
	Body   []byte
	// Resend, if set, asks the caller to send this request to the service once, instead of returning Body, and to return
	// the service's answer with Header added.
	Resend *SavedRequest
	// Outcome is what happened, for events, metrics and logs.
	Outcome Outcome
	// Took is the time from the challenge to its answer, for OutcomeSolved and OutcomeFailed; 0 if unknown.
	Took time.Duration
	// Work reports that the browser did work: neither its duration nor its correctness proves that a person is there.
	Work bool
	// Evidence is what a page says of its browser, for OutcomeEvidence.
	Evidence request.Evidence
	// Pass is the pass that was earned, for OutcomeSolved.
	Pass spravka.Pass
}

// Outcome is the result of a challenge.
type Outcome uint8

// The outcomes.
const (
	OutcomeNone Outcome = iota
	OutcomeShown
	OutcomeSolved
	OutcomeFailed
	OutcomeLimited // too many attempts or passes: 429
	OutcomeEvidence
)

// SavedRequest is a challenged request that continues after the right answer.
type SavedRequest struct {
	Method string
	Target string // origin-form
	Header []HeaderField
	Body   []byte
	// Grant is the decision of the message rules that required the captcha: they are not run again. Empty: something else
	// required it.
	Grant string
}

// Get returns the value of the first field called name, in exactly this spelling; "" if there is none.
func (a *Response) Get(name string) string {
	for _, f := range a.Header {
		if f.Name == name {
			return f.Value
		}
	}
	return ""
}

// set replaces the value of an existing field.
func (a *Response) set(name, value string) {
	for i := range a.Header {
		if a.Header[i].Name == name {
			a.Header[i].Value = value
		}
	}
}

func (a *Response) add(name, value string) {
	a.Header = append(a.Header, HeaderField{name, value})
}
