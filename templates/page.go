package templates

import (
	"fmt"
	"html/template"
	"time"
)

// Problem is the problem with the previous answer; it determines the error on the challenge page.
type Problem string

// The problems. Any other value is treated as ProblemFailed.
const (
	ProblemNone    Problem = ""
	ProblemFailed  Problem = "failed"
	ProblemExpired Problem = "expired" // not an error: a new picture, without the word "wrong"
	ProblemEmpty   Problem = "empty"
	ProblemUsed    Problem = "used"
)

// Reason is the reason for a challenge, as far as the page shows it.
type Reason uint8

// The reasons.
const (
	ReasonNetwork Reason = iota // others in the network, or the kind of program
	ReasonPace                  // the visitor's own pace
	ReasonMessage               // the text of a message
	ReasonLoad                  // the service is slow, or under attack
	ReasonService               // the service challenges all visitors here
	reasonCount
)

// String returns the reason's name, as scripts are told it.
func (r Reason) String() string {
	if r < reasonCount {
		return [...]string{"network", "pace", "message", "load", "service"}[r]
	}
	return "unknown"
}

// ChallengePage is what a page with a challenge shows. All strings may be hostile.
type ChallengePage struct {
	Brand     *Brand
	RequestID string
	CheckURL  string // the form's action
	Key       string
	Hidden    []HiddenField // the form's other fields
	ImageURL  string
	AudioURL  string
	// NewURL is the URL of another picture; empty: a button of the form instead, for a page that carries a request.
	NewURL string
	// WorkURL is the script with which the browser can work instead of the visitor; empty: not offered.
	WorkURL string
	// OverURL leads on whoever has passed; with format=json the page asks there whether that is so. Empty: it does not
	// ask.
	OverURL string
	Problem Problem
	Moving  bool // the picture moves, and directions are the answer
	// Still, with Moving, is the same page with digits: what a browser without scripts shows.
	Still  *ChallengePage
	Reason Reason

	CookiesOff   bool   // the browser seems to keep no cookies: shown before anybody solves anything
	CookiesLost  bool   // right answers came, but their cookies did not come back
	FormKept     bool   // the page carries a request
	Written      string // what was written in it, if that is the reason; empty: not shown
	FormTooLarge bool   // the request was too large to be carried
	Limit        string // the limit, such as "64 KB"
	Test         bool   // every challenge asks for the same digits
}

// CheckPage is what a page shows that checks the browser: by itself, or once its button is pressed. All strings may be
// hostile.
type CheckPage struct {
	Brand     *Brand
	RequestID string
	CheckURL  string // the form's action
	Key       string
	Hidden    []HiddenField // the form's other fields
	Work      string        // the task, as JSON
	PartURL   string        // the part of the page that the browser asks for
	Reason    Reason
	Press     bool   // the visitor presses a button
	FormKept  bool   // the page carries a request
	Written   string // what was written in it, if that is the reason; empty: not shown
	OverURL   string // as in ChallengePage
	// DigitsURL is the page for a browser without scripts; empty: only a button of the form leads there.
	DigitsURL string
}

// HiddenField is a hidden field of the form.
type HiddenField struct{ Name, Value string }

// Message is a plain page.
type Message uint8

// The plain pages.
const (
	Blocked Message = iota
	Limited
	BadRequest
	NotFound
	TooLarge
	UpstreamDown
	UpstreamTimeout
	Unavailable
	FormSent
	FormExpired
	GoBack
	Queued
	HeadTooLarge
	Late
	Framed
	messageCount
)

var messageNames = [messageCount]string{
	"blocked", "limited", "bad_request", "not_found", "too_large", "upstream_down", "upstream_timeout", "unavailable",
	"form_sent", "form_expired", "go_back", "queued", "head_too_large", "late", "framed",
}

var messageParts = [...]string{"title", "heading", "text", "help"}

// String returns the prefix of the message's text keys.
func (m Message) String() string {
	if m < messageCount {
		return messageNames[m]
	}
	return "unknown"
}

// MessagePage is what a plain page shows.
type MessagePage struct {
	Message   Message
	Brand     *Brand
	RequestID string
	Retry     string // a link to try again; empty: none
	Tab       string // a link that opens the check in a tab of its own; empty: none
	Sent      bool   // the link leads back to the site: the action has been completed
	Limit     string
	Wait      time.Duration // after it another try makes sense; 0: unknown
	// SwitchURL is where the switch of languages leads, with Hidden as parameters; empty: none.
	SwitchURL string
	Hidden    []HiddenField
	// SendURL is where a form with the fields Hidden tries again; empty: none.
	SendURL string
}

// AppendChallenge appends the page to dst.
func (l *Language) AppendChallenge(dst []byte, p *ChallengePage) ([]byte, error) {
	w := appender{dst}
	if err := l.prints().challenge.Execute(&w, p); err != nil {
		return dst, fmt.Errorf("render challenge in %s: %w", l.Tag, err)
	}
	return w.b, nil
}

// AppendCheck appends the page to dst.
func (l *Language) AppendCheck(dst []byte, p *CheckPage) ([]byte, error) {
	w := appender{dst}
	if err := l.prints().check.Execute(&w, p); err != nil {
		return dst, fmt.Errorf("render check in %s: %w", l.Tag, err)
	}
	return w.b, nil
}

// AppendMessage appends the page to dst.
func (l *Language) AppendMessage(dst []byte, p *MessagePage) ([]byte, error) {
	if p.Message >= messageCount {
		return dst, fmt.Errorf("render message %d in %s: no such message", p.Message, l.Tag)
	}
	w := appender{dst}
	if err := l.prints().messages[p.Message].Execute(&w, p); err != nil {
		return dst, fmt.Errorf("render %s in %s: %w", p.Message, l.Tag, err)
	}
	return w.b, nil
}

type appender struct{ b []byte }

func (a *appender) Write(p []byte) (int, error) {
	a.b = append(a.b, p...)
	return len(p), nil
}

// safe marks HTML that this package made itself.
func safe(s string) template.HTML { return template.HTML(s) }
