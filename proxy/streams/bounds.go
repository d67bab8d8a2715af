package streams

import (
	"errors"
	"fmt"

	"antirobot/proxy/h1"
)

// HeaderRoom is how large a head the libraries may read, in bytes as they count, 32 more for each field: somewhat more than c allows.
// A head that is a little too large gets an answer of ours, which says what to do, in place of the libraries'.
func HeaderRoom(c *h1.Config) int {
	return int(c.MaxHeaderBytes+c.MaxHeaderBytes/4) + 32*c.MaxHeaderFields
}

// Bounds collects which limits of a front's configuration are out of bounds, each with its key. The zero value has found nothing.
type Bounds struct{ errs []error }

// Within checks one limit.
func (b *Bounds) Within(key string, n, low, high int64) {
	b.Check(n >= low && n <= high, "%s: %d is not within %d and %d", key, n, low, high)
}

// Streams checks the limits that both fronts have: requests at a time, bytes that a connection and one request of it may send
// before they are read, and how many requests may be taken back.
func (b *Bounds) Streams(most int, connWindow, streamWindow int64, resets int) {
	b.Within("max_streams", int64(most), 1, 10_000)
	b.Within("conn_window", connWindow, 64<<10-1, 1<<30)
	b.Within("stream_window", streamWindow, 16<<10, 1<<30)
	b.Within("max_resets", int64(resets), 0, 1<<30)
}

// Check notes what is wrong unless ok.
func (b *Bounds) Check(ok bool, format string, args ...any) {
	if !ok {
		b.errs = append(b.errs, fmt.Errorf(format, args...))
	}
}

// Err is all that was found; nil: nothing.
func (b *Bounds) Err() error { return errors.Join(b.errs...) }
