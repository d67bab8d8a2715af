// Package captcha issues, renders, checks and spends challenges, and carries the challenged request over them.
//
// It knows nothing of the server: it is given a Request and returns an Answer.
package captcha

// HeaderField is one field of an Answer.
type HeaderField struct {
	Name, Value string
}

// Answer is a complete response of the gateway itself. The caller adds the fields that all own answers carry
// (Cache-Control, X-Request-Id, X-Antirobot-Verdict) only where the Answer does not have them already.
type Answer struct {
	Status int
	Header []HeaderField
	Body   []byte
	// Resend, when set, asks the caller to send this request to the service instead of the body, once, and to return
	// the service's answer with Header added.
	Resend *SavedRequest
	// Outcome is what happened, for events, metrics and logs.
	Outcome Outcome
}

// Outcome is what happened at the captcha.
type Outcome uint8

// The outcomes.
const (
	OutcomeNone Outcome = iota
	OutcomeShown
	OutcomeSolved
	OutcomeFailed
	OutcomeLimited // too many tries or passes: 429
)

// SavedRequest is a request that was challenged and goes on after the right answer.
type SavedRequest struct {
	Method string
	Target string // origin-form
	Header []HeaderField
	Body   []byte
}
