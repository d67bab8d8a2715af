package h3

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
	frames "github.com/quic-go/quic-go/http3/qlog"
	"github.com/quic-go/quic-go/qlog"
	"github.com/quic-go/quic-go/qlogwriter"

	"antirobot/proxy/streams"
)

// pieces counts the small pieces in which a client sends its streams. quic-go keeps each by itself until all before it have come, a tiny
// one in some two hundred bytes and a small one in a buffer for a whole packet: a client that leaves out the first byte of a stream, and
// sends the others one by one, makes much of each byte of its window. What has come the library tells its traces alone, so this is a
// trace that writes nothing. It belongs to the goroutine of its connection, but for conn and control.
//
// It counts frames of HTTP/3 that carry nothing, too, which the library skips: each takes it many times as long as to send, within a head
// or a body that goes on for as long as its client likes.
type pieces struct {
	most int // in ten seconds
	left int
	till time.Time
	full int                  // bytes of longer pieces
	conn atomic.Pointer[conn] // nil: the handshake is not over

	control streams.Allowance // for frames that carry nothing
}

const (
	tinyPiece    = 128     // bytes: shorter ones get no buffer of a packet
	smallPiece   = 512     // shorter ones take several times as much memory as they bring
	smallCounts  = 4       // how many tiny ones take as much as a small one
	fullPerPiece = 512     // bytes of longer ones that allow a tiny one: each thing that a client writes ends with a piece of any length
	fullKept     = 2 << 20 // of those bytes count in favour of a client later
	piecesWindow = 10 * time.Second
)

// tracer is a quic.Config's Tracer.
func tracer(ctx context.Context, _ bool, _ quic.ConnectionID) qlogwriter.Trace {
	if h, _ := ctx.Value(handshakeKey{}).(*handshake); h != nil && (h.pieces.most > 0 || h.pieces.control.Most > 0) {
		return &h.pieces
	}
	return nil
}

// AddProducer implements qlogwriter.Trace.
func (p *pieces) AddProducer() qlogwriter.Recorder { return p }

// SupportsSchemas implements qlogwriter.Trace: frames of HTTP/3 are told of if they are counted.
func (p *pieces) SupportsSchemas(schema string) bool {
	return schema == frames.EventSchema && p.control.Most > 0
}

// Close implements qlogwriter.Recorder.
func (p *pieces) Close() error { return nil }

// RecordEvent implements qlogwriter.Recorder.
func (p *pieces) RecordEvent(e qlogwriter.Event) {
	switch e := e.(type) {
	case qlog.PacketReceived:
		p.packet(&e)
	case frames.FrameParsed:
		if c := p.conn.Load(); c != nil && idle(&e) && !p.control.Take() {
			c.flooded(c.srv.m.control, "too many frames that carry nothing")
		}
	}
}

// packet counts the pieces of one.
func (p *pieces) packet(e *qlog.PacketReceived) {
	for _, f := range e.Frames {
		if s, ok := f.Frame.(*qlog.StreamFrame); ok && p.most > 0 && !p.take(s) {
			if c := p.conn.Load(); c != nil {
				c.flooded(c.srv.m.pieces, "too many small pieces")
			}
			return
		}
	}
}

// idle reports whether a frame carries nothing of a request.
func idle(e *frames.FrameParsed) bool {
	switch e.Frame.Frame.(type) {
	case frames.HeadersFrame, frames.SettingsFrame:
		return false // there is one of each
	case frames.DataFrame:
		return e.Raw.PayloadLength == 0
	}
	return true
}

// take counts a piece, and reports whether it is one of too many.
func (p *pieces) take(s *qlog.StreamFrame) bool {
	switch {
	case s.Offset == 0 || s.Length == 0:
		return true // each needs a stream, or brings nothing
	case s.Length >= smallPiece:
		p.full = min(p.full+int(s.Length), fullKept)
		return true
	}
	counts := 1
	if s.Length >= tinyPiece {
		counts = smallCounts
	}
	if p.full >= counts*fullPerPiece {
		p.full -= counts * fullPerPiece
		return true
	}
	if p.left -= counts; p.left >= 0 {
		return true
	}
	now := time.Now()
	if now.Before(p.till) {
		return false
	}
	p.till, p.left = now.Add(piecesWindow), p.most-counts
	return true
}
