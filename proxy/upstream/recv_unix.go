//go:build unix && (!linux || 386 || s390x)

package upstream

import "golang.org/x/sys/unix"

// recvNow receives what is there, or fails with EAGAIN.
func recvNow(fd int, p []byte, flags int) (int, error) {
	n, _, err := unix.Recvfrom(fd, p, flags|unix.MSG_DONTWAIT)
	return n, err
}
