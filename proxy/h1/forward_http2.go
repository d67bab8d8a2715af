package h1

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"antirobot/proxy/h1/wire"
	"antirobot/proxy/upstream"
	"antirobot/request"
)

// overHTTP2 is one request to a service over HTTP/2. A transport reads the body and brings the answer in goroutines of
// its own, so that both streams are open at once; the exchange's goroutine watches the client, as leg does.
type overHTTP2 struct {
	x      *Exchange
	o      *ForwardOptions
	req    *http.Request
	cancel context.CancelFunc
	res    *upstream.Answer // nil: none yet
	limit  time.Duration    // of the wait
	since  time.Time        // of the wait
	step   time.Duration    // until the next tick
	timer  *time.Timer

	mu      sync.Mutex // held while the transport reads the body
	at      atomic.Int64
	pre     []byte        // read before
	trailer http.Header   // of the request; complete at the end of its body
	failed  atomic.Value  // error of the client's body
	read    chan struct{} // closed at the end of the body
	left    bool          // no further reads
}

func (x *Exchange) forwardHTTP2(g *upstream.Group, o *ForwardOptions, res *Result, start time.Time) (err error) {
	ctx, cancel := context.WithCancel(context.Background())
	t := &overHTTP2{x: x, o: o, cancel: cancel, read: make(chan struct{}), timer: time.NewTimer(time.Hour)}
	defer t.timer.Stop()
	defer func() { t.conclude(err) }()
	target, err := t.prepare(ctx)
	if err == nil {
		err = t.await(g, target, orDefault(o.HeadTimeout, g.Config().ResponseTimeout))
	}
	if err == nil {
		res.Addr = t.res.Addr()
		if err = fromResponse(&x.leg.h, t.res.Response, x.method, x.cfg.MaxHeaderFields); err == nil {
			err = accepts(x.h, &x.leg.h)
		}
	}
	if err == nil {
		res.Status = x.leg.h.Status
		res.begins(start, time.Unix(0, t.at.Load()))
		note(&x.leg.h, o, res)
		t.limit = orDefault(o.StreamTimeout, g.Config().StreamIdleTimeout)
		if !res.Held {
			o.begin(res)
			x.rewriting(o)
			err = t.relay()
		}
	}
	return err
}

// prepare makes the request. It sends 100 Continue now: the service can't refuse the body before.
func (t *overHTTP2) prepare(ctx context.Context) (target string, err error) {
	x := t.x
	method, path := string(x.h.Method), string(x.h.Target)
	t.req = (&http.Request{Method: method, Header: make(http.Header), ProtoMajor: 2}).WithContext(ctx)
	t.req.Host = string(x.h.Host)
	if t.o.Host != nil {
		t.req.Host = string(t.o.Host)
	}
	t.setFields()
	if r := t.o.Replay; r != nil {
		t.req.Method, path = string(r.Method), string(r.Target)
		t.pre, t.left = r.Body, true
		t.req.ContentLength = int64(len(r.Body))
		if r.Body != nil {
			t.req.Body = t
		}
		close(t.read)
		return path, nil
	}
	t.pre = x.pre
	b := &x.body
	if b.done && len(x.pre) == 0 {
		close(t.read)
		t.left = true
		return path, nil
	}
	t.req.Body, t.req.ContentLength = t, -1
	if !b.chunked {
		t.req.ContentLength = x.h.Length
	} else {
		t.trailer = make(http.Header)
		t.req.Trailer = t.trailer
		t.announce()
	}
	if b.done {
		t.endBody()
		return path, nil
	}
	return path, x.sendContinue()
}

func (t *overHTTP2) setFields() {
	x, o, header := t.x, t.o, t.req.Header
	fields := x.h.Fields
	if o.Replay != nil {
		fields = o.Replay.Fields
	}
	for i := range fields {
		f := &fields[i]
		k := wire.KindOf(f.Name)
		switch k {
		case wire.Plain, wire.Forwarded, wire.Date, wire.Cookie, wire.MaxForwards:
		default:
			continue
		}
		if x.h.Nominated(f.Name, k) || replaced(o, f.Name) || dropped(o, f.Name) ||
			request.EqualFold(f.Name, socketKeyName) {
			continue
		}
		v := string(f.Value)
		switch {
		case k == wire.MaxForwards && countsForwards(x.h):
			v = string(strconv.AppendInt(nil, int64(x.h.MaxForwards-1), 10))
		case k == wire.Cookie && o.Replay == nil && len(o.DropCookies) > 0:
			if v = string(request.AppendCookiesWithout(nil, f.Value, o.DropCookies)); v == "" {
				continue
			}
		}
		header.Add(string(f.Name), v)
	}
	for i := range o.SetFields {
		header.Add(string(o.SetFields[i].Name), string(o.SetFields[i].Value))
	}
	if x.h.TETrailers {
		header.Set("Te", "trailers")
	}
	if header.Get("User-Agent") == "" {
		header["User-Agent"] = []string{""} // or the transport sends its own
	}
}

func (t *overHTTP2) announce() {
	for i, k := range t.x.h.Kinds {
		if k != wire.Trailer {
			continue
		}
		for rest := t.x.h.Fields[i].Value; ; {
			item, more, ok := wire.NextItem(rest)
			if !ok {
				break
			}
			if rest = more; wire.IsName(item) && wire.KindOf(item) == wire.Plain && !dropped(t.o, item) {
				t.trailer[http.CanonicalHeaderKey(string(item))] = nil
			}
		}
	}
}

func (t *overHTTP2) endBody() {
	if t.left {
		return
	}
	t.left = true
	if t.trailer != nil {
		for _, f := range t.x.body.trailers() {
			if wire.KindOf(f.Name) == wire.Plain && !dropped(t.o, f.Name) {
				t.trailer.Add(string(f.Name), string(f.Value))
			}
		}
	}
	close(t.read)
}

// Read is the body for the transport. An error is final.
func (t *overHTTP2) Read(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.pre) > 0 {
		n := copy(p, t.pre)
		t.pre = t.pre[n:]
		return n, nil
	}
	if t.left {
		return 0, io.EOF
	}
	if t.x.upload.stop.Load() {
		return 0, errStopped
	}
	n, err := t.x.body.read(p)
	t.at.Store(clock().UnixNano())
	switch {
	case err == io.EOF || err == nil && t.x.body.done && !t.x.body.chunked: //nolint:errorlint // bare
		t.endBody()
	case err != nil:
		t.failed.CompareAndSwap(nil, err)
		t.cancel()
	}
	return n, err
}

func (t *overHTTP2) Close() error { return nil }

func (t *overHTTP2) uploading() bool {
	select {
	case <-t.read:
		return false
	default:
		return true
	}
}

func (t *overHTTP2) await(g *upstream.Group, target string, limit time.Duration) error {
	type outcome struct {
		res *upstream.Answer
		err error
	}
	got := make(chan outcome, 1)
	go func() {
		res, err := g.RoundTrip(t.req, target)
		got <- outcome{res, err}
	}()
	t.limit = limit
	t.begin()
	for {
		select {
		case o := <-got:
			t.res = o.res
			return t.explain(o.err)
		case <-t.timer.C:
			if err := t.tick(clock()); err != nil {
				t.cancel()
				t.res = (<-got).res
				return err
			}
		}
	}
}

func (t *overHTTP2) explain(err error) error {
	if err == nil {
		return nil
	}
	if own, ok := t.failed.Load().(error); ok && !errors.Is(own, errStopped) {
		return own
	}
	if errors.Is(err, upstream.ErrUnreached) {
		return fmt.Errorf("%w: %w", errNoUpstream, err)
	}
	return fmt.Errorf("%w: %w", errUpstreamClosed, err)
}

func (t *overHTTP2) begin() {
	t.since, t.step = clock(), firstTick
	t.timer.Reset(t.step)
}

func (t *overHTTP2) tick(now time.Time) error {
	x, uploading, begun := t.x, t.uploading(), t.since
	if at := time.Unix(0, t.at.Load()); at.After(begun) {
		begun = at
	}
	if now.Sub(begun) >= t.limit && (!uploading || x.answered) {
		x.m.limitUpstream.Inc()
		return errUpstreamTimeout
	}
	if x.client.Gone(now, uploading) {
		x.gone = true
		return ErrClientGone
	}
	t.step = min(2*t.step, lastTick)
	t.timer.Reset(t.step)
	return x.look(now)
}

func (t *overHTTP2) conclude(err error) {
	x := t.x
	if err == nil && t.uploading() {
		t.timer.Reset(settleTime)
		select {
		case <-t.read:
		case <-t.timer.C:
		}
	}
	t.cancel()
	x.upload.stop.Store(true)
	if !t.mu.TryLock() { // the transport waits for the client
		x.client.StopBody()
		t.mu.Lock()
		x.c.bodyLeft()
	}
	t.left, t.pre = true, nil
	t.mu.Unlock()
	if t.res != nil {
		_ = t.res.Body.Close()
		blame := err
		if spares(err) {
			blame = nil
		}
		t.res.Release(blame)
	}
	if !x.body.done && t.o.Replay == nil {
		x.c.leaveBody()
	}
}

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
