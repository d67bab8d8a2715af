//go:build unix && (!linux || 386 || s390x) && !race

// Package socket sends and receives on sockets without waiting.
package socket

import (
	"errors"

	"golang.org/x/sys/unix"
)

// RecvNow receives without waiting.
func RecvNow(fd int, p []byte, flags int) (int, unix.Errno) {
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

// SendNow sends without waiting.
func SendNow(fd int, p []byte) (int, unix.Errno) {
	n, err := unix.SendmsgN(fd, p, nil, nil, unix.MSG_DONTWAIT)
	if err != nil {
		var e unix.Errno
		if !errors.As(err, &e) {
			e = unix.EIO
		}
		return 0, e
	}
	return n, 0
}
