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

// sock is a socket that can be checked without waiting; the transport of TLS.
type sock struct {
	net.Conn
	raw     syscall.RawConn
	look    func(fd uintptr) // bound once
	turn    func(fd uintptr) (done bool)
	probing bool // Read does not wait

	record records // in the TLS stream

	ask    []byte // written by the next read; see Conn.Ask
	askErr error  // of that write

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

// now receives without waiting: n < 0 for nothing, 0 at the end.
func (s *sock) now(p []byte, flags int) (int, error) {
	if len(p) == 0 {
		return -1, nil
	}
	s.buf, s.flags = p, flags
	// Control, since Read fails after a passed deadline.
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

// askAndRead arms the poller, writes the pending request and waits for bytes: one system call less than a write and a
// read.
func (s *sock) askAndRead(p []byte) (int, error) {
	s.buf, s.flags = p, 0
	err := s.raw.Read(s.turn)
	rest := s.ask
	s.buf, s.ask = nil, nil
	if s.askErr != nil {
		return 0, s.askErr
	}
	if len(rest) > 0 { // the buffer took only a part, or the deadline had passed
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

// exchange is called with the poller armed: to write, then when bytes may have come.
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
