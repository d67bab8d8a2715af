//go:build linux && !386 && !s390x

package upstream

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// recvNow is recvfrom without an address to allocate. The call can't block, so the scheduler need not hear of it.
// p is not empty.
func recvNow(fd int, p []byte, flags int) (int, unix.Errno) {
	n, _, e := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)),
		uintptr(flags|unix.MSG_DONTWAIT), 0, 0)
	return int(n), e
}
