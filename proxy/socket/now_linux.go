//go:build linux && !386 && !s390x && !race

// Package socket sends and receives without waiting and without the scheduler, which is half the cost of a short system
// call.
package socket

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// RecvNow receives: EAGAIN for nothing, 0 at the end. p is not empty.
func RecvNow(fd int, p []byte, flags int) (int, unix.Errno) {
	n, _, e := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)),
		uintptr(flags|unix.MSG_DONTWAIT), 0, 0)
	return int(n), e
}

// SendNow sends what fits: EAGAIN for nothing. p is not empty.
func SendNow(fd int, p []byte) (int, unix.Errno) {
	n, _, e := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)),
		unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	return int(n), e
}
