//go:build linux && !386 && !s390x && !race

// Package socket sends and receives on sockets without waiting and without telling the scheduler, which is what half of
// a short system call costs.
package socket

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// RecvNow receives what is there: EAGAIN if there is nothing, 0 at the end. p is not empty.
func RecvNow(fd int, p []byte, flags int) (int, unix.Errno) {
	n, _, e := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)),
		uintptr(flags|unix.MSG_DONTWAIT), 0, 0)
	return int(n), e
}

// SendNow sends what the socket takes at once: EAGAIN if that is nothing. p is not empty.
func SendNow(fd int, p []byte) (int, unix.Errno) {
	n, _, e := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)),
		unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	return int(n), e
}
