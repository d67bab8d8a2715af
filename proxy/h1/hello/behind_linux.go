package hello

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// roundTrip is the kernel's minimum round trip of a connection, its handshake included.
func roundTrip(nc net.Conn) (time.Duration, bool) {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return 0, false
	}
	rc, err := sc.SyscallConn()
	if err != nil {
		return 0, false
	}
	var info *unix.TCPInfo
	var failed error
	err = rc.Control(func(fd uintptr) {
		info, failed = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	})
	if err != nil || failed != nil || info.Min_rtt == 0 || info.Min_rtt == ^uint32(0) {
		return 0, false
	}
	return time.Duration(info.Min_rtt) * time.Microsecond, true
}
