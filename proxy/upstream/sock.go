package upstream

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"

	"antirobot/proxy/socket"

	"golang.org/x/sys/unix"
)

// sock is a raw socket that can be checked without waiting. Under TLS it is the transport.
type sock struct {
	net.Conn
	raw     syscall.RawConn
	look    func(fd uintptr) // s.recv, bound once so that a check allocates nothing
	turn    func(fd uintptr) (done bool)
	probing bool // Read takes what is there and otherwise returns errWouldWait

	record records // the position in the TLS stream

	ask    []byte // to be written by the next read; see Conn.Ask
	askErr error  // why that failed

	// Arguments and results of recv and exchange.
	buf   []byte
	flags int
	n     int
	errno unix.Errno // 0: none
	one   [1]byte
}

func newSock(c net.Conn) (*sock, error) {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return nil, errors.New("connection without a socket")
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil, err
	}
	s := &sock{Conn: c, raw: raw}
	s.look, s.turn = s.recv, s.exchange
	return s, nil
}

func (s *sock) recv(fd uintptr) {
	for {
		s.n, s.errno = socket.RecvNow(int(fd), s.buf, s.flags)
		if s.errno != unix.EINTR {
			return
		}
	}
}

// now receives into p without waiting: n < 0 and no error if there is nothing, 0 at the end.
func (s *sock) now(p []byte, flags int) (int, error) {
	if len(p) == 0 {
		return -1, nil
	}
	s.buf, s.flags = p, flags
	// Control and not Read: Read would fail if a deadline of the last request has passed.
	err := s.raw.Control(s.look)
	s.buf = nil
	switch {
	case err != nil:
		return 0, err
	case s.errno == unix.EAGAIN:
		return -1, nil
	case s.errno != 0:
		return 0, s.errno
	}
	return s.n, nil
}

// peek returns what is pending: n > 0 for bytes, 0 for the end, n < 0 for nothing.
func (s *sock) peek() (int, error) { return s.now(s.one[:], unix.MSG_PEEK) }

// Read is the transport of TLS.
func (s *sock) Read(p []byte) (int, error) {
	if !s.probing {
		n, err := s.Conn.Read(p)
		s.record.pass(p[:n])
		return n, err
	}
	n, err := s.now(p, 0)
	switch {
	case err != nil:
		return 0, err
	case n < 0:
		return 0, errWouldWait
	case n == 0:
		return 0, io.EOF
	}
	s.record.pass(p[:n])
	return n, nil
}

// askAndRead writes the pending request and waits for the first bytes that come after it. The poller is armed before the
// request is sent, so no read is needed that could only find that no answer has come yet: this saves one system call
// compared with a write and a read.
func (s *sock) askAndRead(p []byte) (int, error) {
	s.buf, s.flags = p, 0
	err := s.raw.Read(s.turn)
	rest := s.ask
	s.buf, s.ask = nil, nil
	if s.askErr != nil {
		return 0, s.askErr
	}
	if len(rest) > 0 { // the send buffer accepted only a part, or the deadline had passed before the call
		if _, s.askErr = s.Conn.Write(rest); s.askErr != nil {
			return 0, s.askErr
		}
		if err == nil {
			return s.Conn.Read(p)
		}
	}
	switch {
	case err != nil:
		return 0, err
	case s.errno != 0:
		return 0, os.NewSyscallError("read", s.errno)
	case s.n == 0:
		return 0, io.EOF
	}
	return s.n, nil
}

// exchange is called with the poller armed: to write, and whenever bytes may have come.
func (s *sock) exchange(fd uintptr) (done bool) {
	if len(s.ask) > 0 {
		n, errno := socket.SendNow(int(fd), s.ask)
		if errno == unix.EAGAIN || errno == unix.EINTR {
			return true
		}
		if errno != 0 {
			s.askErr = os.NewSyscallError("write", errno)
			return true
		}
		s.ask = s.ask[n:]
		return len(s.ask) > 0
	}
	s.recv(fd)
	return s.errno != unix.EAGAIN
}
