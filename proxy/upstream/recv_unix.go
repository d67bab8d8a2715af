//go:build unix && (!linux || 386 || s390x)

package upstream

import (
	"errors"

	"golang.org/x/sys/unix"
)

// recvNow receives what is there, or fails with EAGAIN.
func recvNow(fd int, p []byte, flags int) (int, unix.Errno) {
	n, _, err := unix.Recvfrom(fd, p, flags|unix.MSG_DONTWAIT)
	if err != nil {
		var e unix.Errno
		if !errors.As(err, &e) {
			e = unix.EIO
		}
		return 0, e
	}
	return n, 0
}
