package h1

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"antirobot/proxy/h1/wire"
	"antirobot/request"
)

func (t *overHTTP2) relay() error {
	x := t.x
	h := &x.leg.h
	fr := x.frame(h)
	if t.uploading() && (h.Status >= 300 || x.h.Expect && !x.continued) {
		x.c.unkeep() // the service does not want the body
	}
	x.answered = true
	err := x.passAnswer(t.o, fr)
	if err == nil && !h.Bodiless(x.method) && fr != bare && !t.endedWithHead() {
		err = t.relayBody(fr)
	}
	if err != nil {
		return x.cut(fr, err)
	}
	return x.client.End()
}

// endedWithHead reports whether nothing follows the head, so that both go in one frame, as gRPC requires for
// trailers-only answers. An empty body of announced length may have trailers.
func (t *overHTTP2) endedWithHead() bool {
	return t.x.leg.h.Length == 0 && (t.x.c != nil || len(t.res.Header["Content-Length"]) == 0)
}

func (t *overHTTP2) relayBody(fr framing) error {
	x := t.x
	left := x.leg.h.Length // -1: unknown
	pieces, ended := make(chan []byte), make(chan error, 1)
	bufs := [2]*streamBuffer{streamBuffers.Get().(*streamBuffer), streamBuffers.Get().(*streamBuffer)}
	go readAhead(t.res.Body, &bufs, pieces, ended)
	next := func() ([]byte, error) {
		if err := x.look(clock()); err != nil { // available pieces need no wait
			return nil, err
		}
		p, more, err := t.take(pieces)
		if more {
			left -= int64(len(p))
			return p, nil
		}
		if err == nil {
			err = t.explain(<-ended)
		}
		switch {
		case err != nil:
			return nil, err
		case x.leg.h.Length >= 0 && left > 0:
			return nil, errUpstreamClosed
		}
		return nil, io.EOF
	}
	var err error
	if x.rewriter != nil {
		err = x.rewrite(fr, next)
	} else {
		err = x.passAll(fr == byChunks, next)
		if err == nil && (fr == byChunks || x.c == nil) { // HTTP/1 clients only after chunks
			x.client.LastChunk(wire.Trailers{Fields: t.trailers(), Drop: t.o.DropAnswer})
		}
	}
	if err != nil || x.leg.h.Close {
		t.cancel()
	}
	for range pieces { // discarded
	}
	streamBuffers.Put(bufs[0])
	streamBuffers.Put(bufs[1])
	return err
}

// readAhead reads a body into pieces, then its error into ended. The receiver owns a buffer until it takes the next.
func readAhead(body io.Reader, bufs *[2]*streamBuffer, pieces chan<- []byte, ended chan<- error) {
	for i := 0; ; i ^= 1 {
		n, err := body.Read(bufs[i][:])
		if n > 0 {
			pieces <- bufs[i][:n]
		}
		if err == nil {
			continue
		}
		if err == io.EOF {
			err = nil
		}
		ended <- err
		close(pieces)
		return
	}
}

// take returns the next piece, and flushes before it waits. more is false at the end.
func (t *overHTTP2) take(pieces <-chan []byte) (p []byte, more bool, err error) {
	select {
	case p, more = <-pieces:
		return p, more, nil
	default:
	}
	if t.x.leg.h.Length != 0 { // otherwise the end goes with the head
		if err := t.x.flush(); err != nil {
			return nil, false, err
		}
	}
	return t.nextPiece(pieces)
}

func (t *overHTTP2) nextPiece(pieces <-chan []byte) (p []byte, more bool, err error) {
	t.begin()
	for {
		select {
		case p, more = <-pieces:
			return p, more, nil
		case <-t.timer.C:
			if err := t.tick(clock()); err != nil {
				return nil, false, err
			}
		}
	}
}

func (t *overHTTP2) trailers() []request.Field {
	var fields []request.Field
	for _, name := range slices.Sorted(maps.Keys(t.res.Trailer)) {
		for _, v := range t.res.Trailer[name] {
			if f := (request.Field{Name: []byte(name), Value: []byte(v)}); wire.IsName(f.Name) && wire.IsText(f.Value) {
				fields = append(fields, f)
			}
		}
	}
	return fields
}

func fromResponse(h *wire.Head, r *http.Response, method []byte, maxFields int) error {
	h.Reset()
	h.Minor, h.Status = 1, r.StatusCode
	if h.Status < 200 || h.Status > 999 {
		return fmt.Errorf("%w: status %d", wire.ErrBadResponse, h.Status)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		for _, v := range r.Header[name] {
			f := request.Field{Name: []byte(name), Value: []byte(v)}
			k := wire.KindOf(f.Name)
			switch {
			case !wire.IsName(f.Name) || !wire.IsText(f.Value):
				return fmt.Errorf("%w: a field", wire.ErrBadResponse)
			case len(h.Fields) == maxFields:
				return fmt.Errorf("%w: too many fields", wire.ErrBadResponse)
			case k == wire.Connection || k == wire.Hop || k == wire.Encoding || k == wire.Upgrade || k == wire.Trailer:
				continue
			}
			h.Fields, h.Kinds = append(h.Fields, f), append(h.Kinds, k)
		}
	}
	if err := h.ParseFraming(true); err != nil {
		return fmt.Errorf("%w: a wrong length", wire.ErrBadResponse)
	}
	h.Chunked = h.Length < 0
	if h.Chunked && r.ContentLength == 0 && !h.Bodiless(method) { // ended with its head
		h.Length, h.Chunked = 0, false
		h.Fields, h.Kinds = append(h.Fields, request.Field{Name: []byte("Content-Length"), Value: []byte("0")}),
			append(h.Kinds, wire.Length)
	}
	if len(r.Trailer) > 0 {
		names := strings.Join(slices.Sorted(maps.Keys(r.Trailer)), ", ")
		h.Fields, h.Kinds = append(h.Fields, request.Field{Name: []byte("Trailer"), Value: []byte(names)}),
			append(h.Kinds, wire.Trailer)
	}
	return nil
}
