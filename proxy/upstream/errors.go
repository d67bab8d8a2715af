package upstream

import "errors"

// The errors of Get, besides the context's own. Test with errors.Is.
var (
	// errDial means that an address could not be reached; the cause is wrapped.
	errDial = errors.New("dial upstream")
	// errNoUpstream means that every address was tried, or that the Group is closed. It comes with errDial if none could be
	// reached.
	errNoUpstream = errors.New("no upstream")
	// ErrUnreached means that RoundTrip has sent nothing of the request, for one of the reasons above or below.
	ErrUnreached = errors.New("request not sent")
	// ErrBusy means that all allowed connections are lent, and the queue is full or the wait was too long.
	ErrBusy = errors.New("upstream busy")
)

// errFull means that an address has reached its connection limit.
var errFull = errors.New("connection limit reached")

// errWouldWait ends a Read that must not wait. crypto/tls keeps its state after a temporary net.Error.
var errWouldWait error = wouldWait{}

type wouldWait struct{}

func (wouldWait) Error() string   { return "nothing to read" }
func (wouldWait) Timeout() bool   { return true }
func (wouldWait) Temporary() bool { return true }
