//go:build !unix

package upstream

import "net"

// sock is a raw socket; without a way to look at it, no connection is used again.
type sock struct {
	net.Conn
	probing bool
	record  records
	one     [1]byte
	ask     []byte
	askErr  error
}

func newSock(c net.Conn) (*sock, error) { return &sock{Conn: c}, nil }

func (s *sock) peek() (int, error) { return 0, nil }

func (s *sock) Read(p []byte) (int, error) {
	if s.probing {
		return 0, net.ErrClosed
	}
	return s.Conn.Read(p)
}

func (s *sock) askAndRead(p []byte) (int, error) {
	ask := s.ask
	s.ask = nil
	if _, s.askErr = s.Conn.Write(ask); s.askErr != nil {
		return 0, s.askErr
	}
	return s.Conn.Read(p)
}
