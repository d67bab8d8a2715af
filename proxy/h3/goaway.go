package h3

import (
	_ "unsafe" // for linkname

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/quic-go/quicvarint"
)

// newRawServerConn is http3.Server's NewRawServerConn with the control stream, on which GOAWAY is sent: the library
// offers it to no caller that accepts streams itself. TestDrain detects changes.
//
//go:linkname newRawServerConn github.com/quic-go/quic-go/http3.(*Server).newRawServerConn
func newRawServerConn(s *http3.Server, conn *quic.Conn) (*http3.RawServerConn, *quic.SendStream, error)

// goAway refuses requests from this stream on (RFC 9114 section 7.2.6).
func goAway(from quic.StreamID) []byte {
	id := uint64(from)
	return quicvarint.Append([]byte{7, byte(quicvarint.Len(id))}, id)
}
