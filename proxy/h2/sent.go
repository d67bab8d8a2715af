package h2

import (
	"encoding/binary"

	"golang.org/x/net/http2"
)

// sent finds resets in outgoing frames, in pieces of any size. The zero value is ready.
type sent struct {
	skip int // to the next frame
	have int // of buf
	buf  [resetFrame]byte
	late [lateStreams]uint32 // reset streams, by number
}

const (
	resetFrame  = frameHead + 4
	lateStreams = 128
)

// take calls reset for each stream reset in p, once: frames that the client sent before it knew cause further resets.
func (s *sent) take(p []byte, reset func(http2.ErrCode)) {
	for len(p) > 0 {
		if s.skip > 0 {
			n := min(s.skip, len(p))
			s.skip -= n
			p = p[n:]
			continue
		}
		n := copy(s.buf[s.have:s.want()], p)
		s.have += n
		p = p[n:]
		switch {
		case s.have < frameHead || s.have < s.want():
			continue
		case s.have == frameHead:
			s.skip = int(s.buf[0])<<16 | int(s.buf[1])<<8 | int(s.buf[2])
		default:
			if id := binary.BigEndian.Uint32(s.buf[5:]); s.first(id) {
				reset(http2.ErrCode(binary.BigEndian.Uint32(s.buf[frameHead:])))
			}
		}
		s.have = 0
	}
}

// want is how much of the frame is read: its header, or all of a reset.
func (s *sent) want() int {
	if s.have >= frameHead && http2.FrameType(s.buf[3]) == http2.FrameRSTStream {
		return resetFrame
	}
	return frameHead
}

// first reports whether a stream is reset for the first time.
func (s *sent) first(id uint32) bool {
	place := &s.late[id/2%lateStreams]
	if *place == id {
		return false
	}
	*place = id
	return true
}
