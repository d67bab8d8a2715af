package h1

import (
	"errors"

	"antirobot/proxy/h1/wire"
	"antirobot/proxy/upstream"
)

// Reasons why Forward or ReadBody failed. Test with errors.Is; Status returns the matching status.
var (
	errNoUpstream      = errors.New("no upstream")                      // none could be reached, or all are busy
	errUpstreamTimeout = errors.New("upstream did not answer in time")  // no head, or a body that stopped coming
	errUpstreamClosed  = errors.New("upstream closed the connection")   // before or within its answer
	ErrBodyTooLarge    = errors.New("request body too large")           // beyond a limit
	errBodiesBusy      = errors.New("bodies hold too much memory")      // in total
	ErrBadBody         = errors.New("request body is no valid chunked") // its framing is broken
	ErrBodyLate        = errors.New("request body is not there yet")
	errBodyTimeout     = errors.New("request body did not come in time") // read_timeout or min_body_rate
	ErrClientGone      = errors.New("client left")                       // nobody is left to answer
	errRevoked         = errors.New("visitor may not read on")           // ForwardOptions.GoOn said so
	errAnswered        = errors.New("request is answered already")       // Reply or Forward after an answer began
	errBadField        = errors.New("header field is not valid HTTP")    // given by the handler
)

// Status is the HTTP status that reports err to a client; 0 if there is nobody to tell or the answer has begun.
func Status(err error) int {
	for _, m := range []struct {
		err    error
		status int
	}{
		{ErrClientGone, 0},
		{errRevoked, 0},
		{errAnswered, 0},
		{ErrBodyTooLarge, 413},
		{errBodiesBusy, 503},
		{ErrBadBody, 400},
		{errBodyTimeout, 408},
		{errUpstreamTimeout, 504},
		{upstream.ErrBusy, 503},
		{errNoUpstream, 502},
		{errUpstreamClosed, 502},
		{wire.ErrBadResponse, 502},
	} {
		if errors.Is(err, m.err) {
			return m.status
		}
	}
	return 500
}

// spares reports whether an exchange ended for a reason that is none of the service's.
func spares(err error) bool {
	for _, of := range []error{ErrClientGone, errRevoked, ErrBodyTooLarge, ErrBadBody, errBodyTimeout} {
		if errors.Is(err, of) {
			return true
		}
	}
	return false
}
