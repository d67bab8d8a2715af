package h3

import (
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// WantedBuffer is the UDP buffer that quic-go wants, in bytes and each direction. With less, bursts lose packets.
const WantedBuffer = 7 << 20

// hush silences quic-go's warning, which tellBuffer logs.
func hush() error { return os.Setenv("QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING", "true") }

func (s *Server) tellBuffer(pc net.PacketConn) {
	sc, ok := pc.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		n, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF)
		if err == nil && n < WantedBuffer {
			s.deps.Log.Warn().Stringer("address", pc.LocalAddr()).Int("bytes", n).Int("wanted", WantedBuffer).
				Msg("the kernel's buffer for UDP is small, and HTTP/3 slow under load: raise net.core.rmem_max and " +
					"net.core.wmem_max")
		}
	})
}
