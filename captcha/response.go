package captcha

import (
	"strconv"
	"time"

	"antirobot/request"
	"antirobot/spravka"
)

// HeaderField is one field of a Response.
type HeaderField struct {
	Name, Value string
}

// Response is a complete response of the gateway itself. The caller adds the fields common to all of them
// (Cache-Control, X-Request-Id, X-Antirobot-Verdict) where it lacks them.
type Response struct {
	Status int
	Header []HeaderField
	Body   []byte
	// Resend, if set, is sent to the service once; its response, with Header added, takes the place of Body.
	Resend *SavedRequest
	// Outcome is for events, metrics and logs.
	Outcome Outcome
	// Took is the time from the challenge to its answer, for OutcomeSolved and OutcomeFailed; 0 if unknown.
	Took time.Duration
	// Work reports that the browser did work: neither its duration nor its correctness proves a person.
	Work bool
	// Evidence is a page's report, for OutcomeEvidence.
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
	// Grant is the decision of the message rules that required the captcha, which are not run again; empty: none.
	Grant string
}

// Get returns the value of the first field with this name, in exactly this spelling; "" if there is none.
func (a *Response) Get(name string) string {
	for _, f := range a.Header {
		if f.Name == name {
			return f.Value
		}
	}
	return ""
}

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

// after sets Retry-After to a wait, rounded up.
func (a *Response) after(wait time.Duration) {
	a.add("Retry-After", strconv.FormatInt(seconds(wait), 10))
}

func seconds(wait time.Duration) int64 { return int64((wait + time.Second - 1) / time.Second) }
