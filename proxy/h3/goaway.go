package h3

import (
	_ "unsafe" // for linkname

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/quic-go/quicvarint"
)

// newRawServerConn is NewRawServerConn of http3.Server with the control stream, on which GOAWAY is sent: the library has no other way
// to it for those who accept streams themselves. A version without this method is not linked; TestDrain sees one that has another.
//
//go:linkname newRawServerConn github.com/quic-go/quic-go/http3.(*Server).newRawServerConn
func newRawServerConn(s *http3.Server, conn *quic.Conn) (*http3.RawServerConn, *quic.SendStream, error)

// goAway is the frame that tells a client that no request from this stream on will be served (RFC 9114 section 7.2.6).
func goAway(from quic.StreamID) []byte {
	id := uint64(from)
	return quicvarint.Append([]byte{7, byte(quicvarint.Len(id))}, id)
}
