package upstream

import "errors"

// Errors of Get, in addition to the context's. Test with errors.Is.
var (
	errDial = errors.New("dial upstream")
	// errNoUpstream: all addresses were tried, or the Group is closed.
	errNoUpstream = errors.New("no upstream")
	// ErrUnreached: RoundTrip sent nothing of the request.
	ErrUnreached = errors.New("request not sent")
	// ErrBusy: all connections are in use, and the queue is full or slow.
	ErrBusy = errors.New("upstream busy")
)

var errFull = errors.New("connection limit reached")

// errWouldWait ends a Read that must not wait. crypto/tls survives a temporary net.Error.
var errWouldWait error = wouldWait{}

type wouldWait struct{}

func (wouldWait) Error() string   { return "nothing to read" }
func (wouldWait) Timeout() bool   { return true }
func (wouldWait) Temporary() bool { return true }
