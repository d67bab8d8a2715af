package h1

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// watch checks a client's socket without reading from it, so that pipelined bytes stay where they are.
//
// A client that closed its side may have left, or may be waiting for its answer with a half-closed connection: the
// socket looks the same. A client that has left resets the connection when something is written to it; so once bytes
// have been written after the end without a reset, the client is known to be there, and until then it has a grace period.
type watch struct {
	rc      syscall.RawConn // nil if there is no socket to look at
	look    func(fd uintptr)
	events  int16
	revents int16
	err     error

	endedAt      time.Time // when the client's end was first seen
	endedWritten int64     // the bytes that had been written to it by then
	stays        bool      // it accepted bytes after its end
}

// bind creates look once, so that looking allocates nothing.
func (w *watch) bind() {
	w.look = func(fd uintptr) {
		w.revents, w.err = pollSocket(int(fd), w.events) //nolint:gosec // a descriptor is small
	}
}

func (w *watch) reset(nc net.Conn) {
	w.rc, w.endedAt, w.endedWritten, w.stays = nil, time.Time{}, 0, false
	if sc, ok := nc.(syscall.Conn); ok {
		if rc, err := sc.SyscallConn(); err == nil {
			w.rc = rc
		}
	}
}

func (w *watch) poll(events int16) (revents int16, ok bool) {
	if w.rc == nil {
		return 0, true
	}
	w.events, w.revents = events, 0
	if err := w.rc.Control(w.look); err != nil {
		return 0, false // closed under us
	}
	return w.revents, w.err == nil
}

// readable reports whether something can be read: bytes or an end.
func (w *watch) readable() bool {
	ev, ok := w.poll(unix.POLLIN)
	return ok && ev&unix.POLLIN != 0
}

// gone reports whether the client has left. written is what has been sent to it so far; sending says that its own end
// may be the end of a body that is still being read.
func (w *watch) gone(now time.Time, written int64, sending bool, grace time.Duration) bool {
	ev, ok := w.poll(pollEnd)
	switch {
	case !ok || ev&(unix.POLLERR|unix.POLLHUP) != 0:
		return true
	case ev&pollEnd == 0 || sending || w.stays:
		return false
	case w.endedAt.IsZero():
		w.endedAt, w.endedWritten = now, written
		return false
	case written > w.endedWritten:
		w.stays = true
		return false
	}
	return now.Sub(w.endedAt) >= grace
}
