//go:build linux && !portable

package h1

import (
	"errors"

	"golang.org/x/sys/unix"
)

const pollEnd = unix.POLLRDHUP

func pollSocket(fd int, events int16) (int16, error) {
	p := [1]unix.PollFd{{Fd: int32(fd), Events: events}}
	for {
		if _, err := unix.Poll(p[:], 0); !errors.Is(err, unix.EINTR) {
			return p[0].Revents, err
		}
	}
}
