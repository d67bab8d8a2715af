//go:build !linux || portable

package h1

import (
	"errors"

	"golang.org/x/sys/unix"
)

const pollEnd = 0x2000

// pollSocket polls without waiting. An end is found by peeking at the next byte, so not behind unread bytes.
func pollSocket(fd int, events int16) (int16, error) {
	p := [1]unix.PollFd{{Fd: int32(fd), Events: events}}
	if events&pollEnd != 0 {
		p[0].Events = events&^pollEnd | unix.POLLIN
	}
	for {
		if _, err := unix.Poll(p[:], 0); err == nil {
			break
		} else if !errors.Is(err, unix.EINTR) {
			return 0, err
		}
	}
	has := p[0].Revents
	if events&pollEnd == 0 || has&(unix.POLLIN|unix.POLLHUP) == 0 {
		return has, nil
	}
	var next [1]byte
	n, _, err := unix.Recvfrom(fd, next[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	switch {
	case n == 0 && err == nil: // some systems report half-closed as hung up
		has = has&^unix.POLLHUP | pollEnd
	case err != nil && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR):
		has |= unix.POLLERR
	}
	return has, nil
}
