//go:build race && unix

package socket

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// The race detector orders events by calls of package syscall only.

// RecvNow receives without waiting.
func RecvNow(fd int, p []byte, flags int) (n int, errno unix.Errno) {
	var err error
	if flags == 0 {
		n, err = syscall.Read(fd, p)
	} else {
		n, _, err = syscall.Recvfrom(fd, p, flags|unix.MSG_DONTWAIT)
	}
	return max(n, 0), errnoOf(err)
}

// SendNow sends without waiting.
func SendNow(fd int, p []byte) (int, unix.Errno) {
	n, err := syscall.Write(fd, p)
	return max(n, 0), errnoOf(err)
}

func errnoOf(err error) unix.Errno {
	if err == nil {
		return 0
	}
	var e unix.Errno
	if !errors.As(err, &e) {
		return unix.EIO
	}
	return e
}
