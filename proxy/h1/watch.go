package h1

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// watch checks a client's socket without reading.
//
// A client that closed its side may have left, or wait half-closed. One that has left resets the connection after a
// write; so bytes written
// after its end without a reset prove that it is there. Until then it has a grace period.
type watch struct {
	rc      syscall.RawConn // nil: no socket
	look    func(fd uintptr)
	events  int16
	revents int16
	err     error

	endedAt      time.Time // end first seen
	endedWritten int64     // bytes written by then
	stays        bool      // accepted bytes after its end
}

// bind creates look once, so that looking does not allocate.
func (w *watch) bind() {
	w.look = func(fd uintptr) {
		w.revents, w.err = pollSocket(int(fd), w.events)
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

// readable reports whether bytes or an end can be read.
func (w *watch) readable() bool {
	ev, ok := w.poll(unix.POLLIN)
	return ok && ev&unix.POLLIN != 0
}

// gone reports whether the client has left. written: bytes sent so far; sending: its end may be a body's.
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
