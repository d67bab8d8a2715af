package h1

import (
	"errors"

	"antirobot/proxy/h1/wire"
	"antirobot/proxy/upstream"
)

// Errors of Forward and ReadBody. Status returns their statuses.
var (
	errNoUpstream      = errors.New("no upstream")                     // unreachable, or all busy
	errUpstreamTimeout = errors.New("upstream did not answer in time") // no head, or a stalled body
	errUpstreamClosed  = errors.New("upstream closed the connection")  // before or within its answer
	ErrBodyTooLarge    = errors.New("request body too large")
	errBodiesBusy      = errors.New("bodies hold too much memory")
	ErrBadBody         = errors.New("request body is no valid chunked")
	ErrBodyLate        = errors.New("request body is not there yet")
	errBodyTimeout     = errors.New("request body did not come in time") // read_timeout or min_body_rate
	ErrClientGone      = errors.New("client left")
	errRevoked         = errors.New("visitor may not read on") // by ForwardOptions.GoOn
	errAnswered        = errors.New("request is answered already")
	errBadField        = errors.New("header field is not valid HTTP") // by the handler
)

// Status is the HTTP status for err; 0: the client is gone, or the answer has begun.
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

func spares(err error) bool {
	for _, of := range []error{ErrClientGone, errRevoked, ErrBodyTooLarge, ErrBadBody, errBodyTimeout} {
		if errors.Is(err, of) {
			return true
		}
	}
	return false
}
