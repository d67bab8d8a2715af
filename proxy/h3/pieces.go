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

// pieces counts the small pieces of streams, and HTTP/3 frames without content. quic-go keeps each piece out of order:
// some two hundred bytes for a tiny one, a packet's buffer for a small one. A client that withholds the first byte of a
// stream and sends the rest byte by byte multiplies its window. Only traces see pieces, so this is one. It belongs to
// its connection's goroutine, except conn and control.
type pieces struct {
	most int // in ten seconds
	left int
	till time.Time
	full int                  // bytes of longer pieces
	conn atomic.Pointer[conn] // nil before the end of the handshake

	control streams.Allowance // frames without content
}

const (
	tinyPiece    = 128     // bytes: no packet buffer
	smallPiece   = 512     // costs several times its length
	smallCounts  = 4       // tiny ones that cost as much as a small one
	fullPerPiece = 512     // longer bytes that allow a tiny one: every write ends with a short piece
	fullKept     = 2 << 20 // of those bytes
	piecesWindow = 10 * time.Second
)

// tracer is a quic.Config's.
func tracer(ctx context.Context, _ bool, _ quic.ConnectionID) qlogwriter.Trace {
	if h, _ := ctx.Value(handshakeKey{}).(*handshake); h != nil && (h.pieces.most > 0 || h.pieces.control.Most > 0) {
		return &h.pieces
	}
	return nil
}

// AddProducer implements qlogwriter.Trace.
func (p *pieces) AddProducer() qlogwriter.Recorder { return p }

// SupportsSchemas implements qlogwriter.Trace.
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

func idle(e *frames.FrameParsed) bool {
	switch e.Frame.Frame.(type) {
	case frames.HeadersFrame, frames.SettingsFrame:
		return false // one of each
	case frames.DataFrame:
		return e.Raw.PayloadLength == 0
	}
	return true
}

// take counts a piece; true: a flood.
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
