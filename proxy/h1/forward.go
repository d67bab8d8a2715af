package h1

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"antirobot/proxy/h1/wire"
	"antirobot/proxy/upstream"
	"antirobot/request"
)

// ForwardOptions say what Forward changes. Slices are borrowed for the call.
type ForwardOptions struct {
	SetFields   []request.Field        // replace the client's, '_' read as '-'
	Drop        func(name []byte) bool // reports client's fields that are not forwarded
	DropCookies []string               // removed from Cookie fields
	Host        []byte                 // replaces the client's

	AddAnswer  []request.Field
	AddPrivate []request.Field        // unless a shared cache may keep the answer
	DropAnswer func(name []byte) bool // reports service's fields that are not forwarded
	Read       string                 // a field of the answer for Result

	// HoldField names a field of the answer whose value Hold may withhold the answer for: nothing is sent, Result.Held
	// is set, and the handler may Reply. Empty: none.
	HoldField string
	Hold      func(value []byte) bool
	// HoldHead does the same for the whole head; nil: none is withheld.
	HoldHead func(status int, fields []request.Field) bool

	// Head is called before the final answer is sent, unless it is withheld or opens a tunnel; nil: none. Result has
	// status, times and the head's values.
	Head func(r Result)

	// GoOn is asked every few seconds during an answer or tunnel; false cuts it with errRevoked. In a tunnel any
	// goroutine asks, one at a time. Nil: never.
	GoOn func() bool

	Rewrite Rewriter // of the final answer; nil: none

	// Copy gets the pieces of the final answer's body, valid during the call, unless Rewrite makes it. Nil: none.
	Copy func(piece []byte)

	MaxBodyBytes int64 // 0: Config.MaxBodyBytes; negative: none

	HeadTimeout   time.Duration // to the answer's head; 0: the Group's
	StreamTimeout time.Duration // between pieces of a body; 0: the Group's
	TunnelTimeout time.Duration // of a silent tunnel; 0: the Group's

	Replay *Request // instead of the client's request
}

// Request is a request made by the handler.
type Request struct {
	Method, Target []byte
	Fields         []request.Field // without Host and framing
	Body           []byte          // nil: none
}

// Result describes a forwarded request.
type Result struct {
	Status      int           // of the final answer; 0: none
	BytesIn     int64         // of the body
	BytesOut    int64         // with heads
	HeadAt      time.Duration // from the call to the head
	Waited      time.Duration // of that, since the end of the upload
	Took        time.Duration
	Addr        string
	Reused      bool
	Retried     bool
	Upgraded    bool
	Length      int64  // of the body; -1: not announced
	Held        bool   // withheld
	ContentType []byte // borrowed until ServeExchange returns
	Read        []byte // of ForwardOptions.Read, borrowed as long
}

// begins notes the head: the call began at start, the body last moved at sent.
func (r *Result) begins(start, sent time.Time) {
	r.HeadAt = clock().Sub(start)
	r.Waited = r.HeadAt
	if sent.After(start) {
		r.Waited = clock().Sub(sent)
	}
}

const maxInterim = 64

// Forward sends the request to g and relays the answer, until it or a tunnel ends. On an error with Answered() false
// the handler may Reply with Status(err).
func (x *Exchange) Forward(g *upstream.Group, o *ForwardOptions) (Result, error) {
	var res Result
	start := clock()
	before := x.client.Written()
	x.tunnelled, x.goOn, x.copy, x.lookBy = 0, o.GoOn, o.Copy, time.Time{}
	err := x.forward(g, o, &res, start)
	res.Took = clock().Sub(start)
	res.BytesIn = x.body.n
	res.BytesOut = x.client.Written() - before + x.tunnelled
	if errors.Is(err, ErrClientGone) {
		x.gone = true
	}
	if status := Status(err); err != nil && status != 0 {
		x.fallback = status
	}
	if err != nil && x.answered {
		x.client.Cut(false)
	}
	return res, err
}

func (x *Exchange) forward(g *upstream.Group, o *ForwardOptions, res *Result, start time.Time) error {
	if err := x.forwardable(o); err != nil {
		return err
	}
	if done, err := x.lastHop(); done {
		res.Status = 200
		return err
	}
	if b := &x.body; o.Replay == nil && !b.done && (b.chunked || b.left > int64(x.c.bodyBuffered())) &&
		!x.hold(cap(x.pre)+len(streamBuffer{})) {
		return b.err
	}
	if g.HTTP2() {
		return x.forwardHTTP2(g, o, res, start)
	}
	for fresh := false; ; fresh = true {
		up, err := g.Get(context.Background(), fresh)
		if err != nil {
			return fmt.Errorf("%w: %w", errNoUpstream, err)
		}
		res.Addr, res.Reused = up.Addr(), up.Reused()
		again, err := x.attempt(up, g.Config(), o, res, start)
		if !again || fresh {
			return err
		}
		res.Retried = true
		x.m.retries.Inc()
	}
}

func (x *Exchange) forwardable(o *ForwardOptions) error {
	if x.answered {
		return errAnswered
	}
	if x.gone {
		return ErrClientGone
	}
	if !validFields(o.SetFields) || !validFields(o.AddAnswer) || !validFields(o.AddPrivate) || o.Host != nil &&
		!wire.IsAuthority(o.Host) {
		return errBadField
	}
	if r := o.Replay; r != nil {
		if !wire.IsName(r.Method) || len(r.Target) == 0 || r.Target[0] != '/' || !wire.All(r.Target, wire.Target) ||
			!validFields(r.Fields) {
			return errBadField
		}
		x.method = r.Method
		if !x.body.done {
			x.c.settleBody()
		}
		return nil
	}
	if x.body.err != nil {
		return x.body.err
	}
	limit := o.MaxBodyBytes
	if limit == 0 {
		limit = x.cfg.MaxBodyBytes
	}
	x.body.max = max(limit, 0)
	if x.body.max > 0 && (!x.body.chunked && x.h.Length > limit || x.body.n > limit) {
		x.m.limitBody.Inc()
		x.body.err = ErrBodyTooLarge // not even to be discarded
		return ErrBodyTooLarge
	}
	return nil
}

// lastHop answers OPTIONS and TRACE with Max-Forwards 0 (RFC 9110 section 7.6.2).
func (x *Exchange) lastHop() (done bool, err error) {
	if x.h.MaxForwards != 0 {
		return false, nil
	}
	switch string(x.h.Method) {
	case "OPTIONS", "TRACE":
		return true, x.Reply(200, nil, nil)
	}
	return false, nil
}

// attempt tries one connection; again: a retry can't do anything twice.
func (x *Exchange) attempt(up *upstream.Conn, gc *upstream.Config, o *ForwardOptions, res *Result,
	start time.Time,
) (again bool, err error) {
	l := &x.leg
	l.begin(up, orDefault(o.HeadTimeout, gc.ResponseTimeout))
	bodiless := x.appendToSend(o, up.Addr())
	stream := o.Replay == nil && !x.body.done
	mayRetry := up.Reused() && bodiless && !stream

	var unsent error // why the service has not got the request
	if stream || len(x.reqHead) > smallWrite {
		unsent = l.write(x.reqHead)
	} else {
		unsent = up.Ask(x.reqHead)
	}
	if unsent == nil {
		if stream {
			x.upload.start(up, orDefault(o.StreamTimeout, gc.StreamIdleTimeout), o.Drop)
		}
		err = x.awaitAnswer(o)
		unsent = up.Unasked()
	}
	if unsent != nil {
		if mayRetry {
			l.drop(nil)
			return true, unsent
		}
		l.drop(unsent)
		return false, fmt.Errorf("%w: %w", errUpstreamClosed, unsent)
	}
	if err == nil {
		res.Status = l.h.Status
		res.begins(start, x.upload.lastAt())
		note(&l.h, o, res)
		if l.h.Status == 101 {
			res.Upgraded = true
			o.begin(res)
			return false, x.tunnel(o, orDefault(o.TunnelTimeout, gc.TunnelIdleTimeout))
		}
		l.limit = orDefault(o.StreamTimeout, gc.StreamIdleTimeout)
		if res.Held {
			l.withhold()
		} else {
			o.begin(res)
			x.rewriting(o)
			err = x.relay(o)
		}
	}
	stale := !l.got && (err == io.EOF || errors.Is(err, errUpstreamClosed)) //nolint:errorlint // bare
	x.conclude(err, o.Replay != nil)
	if err == io.EOF { //nolint:errorlint // bare
		err = errUpstreamClosed
	}
	return err != nil && stale && mayRetry && wire.Idempotent(x.method), err
}

// private returns fields for the visitor alone, and what heuristic caches are told.
func (o *ForwardOptions) private(h *wire.Head) (add, said []request.Field) {
	if len(o.AddPrivate) == 0 || h.Sharable() {
		return nil, nil
	}
	if h.Guessed() {
		said = wire.Unshared
	}
	return o.AddPrivate, said
}

func (o *ForwardOptions) begin(res *Result) {
	if o.Head != nil {
		o.Head(*res)
	}
}

func note(h *wire.Head, o *ForwardOptions, res *Result) {
	is := func(f *request.Field, name string) bool {
		return len(f.Name) == len(name) && request.EqualFold(f.Name, name)
	}
	res.Length = h.Length
	for i := range h.Fields {
		switch f := &h.Fields[i]; {
		case is(f, "content-type"):
			res.ContentType = f.Value
		case is(f, o.Read):
			res.Read = f.Value
		case o.HoldField != "" && is(f, o.HoldField):
			res.Held = h.Status != 101 && o.Hold(f.Value)
		}
	}
	if o.HoldHead != nil && h.Status != 101 && o.HoldHead(h.Status, h.Fields) {
		res.Held = true
	}
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return otherwise
}

// appendToSend appends what has arrived of the body, so that short requests take one write.
func (x *Exchange) appendToSend(o *ForwardOptions, addr string) (bodiless bool) {
	if r := o.Replay; r != nil {
		x.reqHead = append(x.appendReplay(x.reqHead[:0], o, addr), r.Body...)
		return len(r.Body) == 0
	}
	b := &x.body
	if !b.chunked && !b.done && int64(x.c.bodyBuffered()) >= b.left {
		x.takeBuffered()
	}
	dst := x.appendRequest(x.reqHead[:0], o, addr, !b.done)
	if b.chunked {
		if n := len(x.pre); n > 0 {
			dst = append(strconv.AppendInt(dst, int64(n), 16), "\r\n"...)
			dst = append(dst, x.pre...)
			dst = append(dst, "\r\n"...)
		}
		if b.done {
			dst = wire.AppendLastChunk(dst, wire.Trailers{Fields: b.trailers(), Drop: o.Drop})
		}
	} else {
		dst = append(dst, x.pre...)
	}
	x.reqHead = dst
	return !b.chunked && b.done && len(x.pre) == 0
}

func (x *Exchange) takeBuffered() {
	b := &x.body
	x.pre = x.c.takeBody(x.pre, int(b.left))
	b.n += b.left
	b.left, b.done = 0, true
}

// awaitAnswer relays interim answers until the final one, or an expected 101.
func (x *Exchange) awaitAnswer(o *ForwardOptions) error {
	l := &x.leg
	for range maxInterim {
		if err := l.h.ReadResponse(l.up.R, l, int(x.cfg.MaxHeaderBytes), x.cfg.MaxHeaderFields); err != nil {
			return err
		}
		switch h := &l.h; {
		case h.Status == 100:
			if err := x.sendContinue(); err != nil {
				return err
			}
		case h.Status == 101:
			if o.Replay != nil || !x.h.WebSocket() || h.UpgradeNum != 1 || !h.Upgrade ||
				!request.EqualFold(h.UpgradeTo, "websocket") {
				return fmt.Errorf("%w: unasked 101", wire.ErrBadResponse)
			}
			return accepts(x.h, h)
		case h.Status < 200:
			if x.h.Minor == 1 {
				if err := x.passAnswer(o, bare); err != nil {
					return err
				}
			}
		default:
			return accepts(x.h, h)
		}
	}
	return fmt.Errorf("%w: too many interim answers", wire.ErrBadResponse)
}

// conclude returns or closes the service's connection, and settles the client's.
func (x *Exchange) conclude(err error, replayed bool) {
	l := &x.leg
	x.upload.settle(err == nil && x.c.keeps() && l.h.KeepsAlive())
	finished := !x.upload.running()
	complete := err == nil && finished && x.upload.sent() && l.h.KeepsAlive() && l.h.Ended && l.up.R.Buffered() == 0
	x.upload.halt()
	switch {
	case complete:
		l.release()
	case err == nil, spares(err):
		l.drop(nil)
	case l.up.Reused() && !l.got:
		l.drop(nil) // a stale connection
	default:
		if errors.Is(err, wire.ErrBadResponse) {
			x.m.badResponse.Inc()
			if string(x.method) == "HEAD" {
				err = nil // servers that break HEAD serve GET well
			}
		}
		l.drop(err)
	}
	if !x.body.done && !replayed {
		x.c.leaveBody()
	}
}

const (
	firstTick = 100 * time.Millisecond // first check of the client
	lastTick  = 500 * time.Millisecond // longest interval of checks
	lazyTick  = 2 * time.Millisecond   // delay of a short answer's head
)

// leg is the service's side of an exchange. While it waits, it wakes from time to time (tick) to check the client and
// the service's deadline.
type leg struct {
	x  *Exchange
	up *upstream.Conn // nil outside of Forward
	h  wire.Head
	d  wire.Chunks

	deadline time.Time // that is set
	step     time.Duration
	since    time.Time              // of the wait
	limit    time.Duration          // of the wait
	left     int64                  // of a body of known length
	pieces   func() ([]byte, error) // leg.next, bound once
	always   bool                   // each wait is lazy
	lazy     bool                   // output may wait one more tick
	got      bool
}

func (l *leg) begin(up *upstream.Conn, limit time.Duration) {
	l.up, l.limit = up, limit
	l.deadline = up.ReadBy()
	l.lazy, l.always, l.got = false, false, false
}

// drop closes the connection; err: the service is at fault.
func (l *leg) drop(err error) {
	if l.up != nil {
		l.up.Discard(err)
		l.up = nil
	}
}

func (l *leg) release() {
	l.up.Release()
	l.up = nil
}

// smallWrite always fits into an empty send buffer, so it needs no deadline.
const smallWrite = 4 << 10

func (l *leg) write(p []byte) error {
	if len(p) > smallWrite {
		_ = l.up.SetWriteDeadline(clock().Add(l.x.cfg.WriteTimeout))
	}
	_, err := l.up.Write(p)
	return err
}

func (l *leg) Fill() error {
	_, err := l.pull(nil)
	return err
}

func (l *leg) Read(p []byte) (int, error) {
	if l.up.R.Buffered() > 0 {
		return l.up.R.Read(p)
	}
	return l.pull(p)
}

// piece returns between 1 and most bytes, borrowed until the next wait.
func (l *leg) piece(most int64) ([]byte, error) {
	r := l.up.R
	if r.Buffered() == 0 {
		if err := l.Fill(); err != nil {
			return nil, err
		}
	}
	p, _ := r.Peek(int(min(int64(r.Buffered()), most)))
	_, _ = r.Discard(len(p))
	return p, nil
}

// pull waits for bytes: into p, or into the reader's buffer if p is nil. It flushes first, since the wait may be long.
func (l *leg) pull(p []byte) (n int, err error) {
	if !l.lazy {
		if err := l.x.flush(); err != nil {
			return 0, err
		}
	}
	now := clock()
	if err := l.x.look(now); err != nil {
		return 0, err
	}
	l.since, l.step = now, firstTick
	if l.lazy {
		l.step = lazyTick
	}
	for {
		l.arm(now)
		if err := l.x.upload.clientError(); err != nil { // after the deadline: a failing upload sets its state first
			return 0, err
		}
		if p == nil {
			_, err = l.up.R.Peek(1)
		} else {
			n, err = l.up.R.Read(p)
		}
		if err == nil {
			l.got = true
			return n, nil
		}
		if !isTimeout(err) {
			return 0, l.ended(err)
		}
		now = clock()
		if err := l.tick(now); err != nil {
			return 0, err
		}
	}
}

func (l *leg) arm(now time.Time) {
	if left := l.deadline.Sub(now); left >= l.step/2 && left <= 2*l.step {
		return
	}
	l.deadline = now.Add(l.step)
	_ = l.up.SetReadDeadline(l.deadline)
}

func (l *leg) tick(now time.Time) error {
	x := l.x
	if l.lazy {
		l.lazy = false
		l.step = firstTick
		return x.flush()
	}
	if err := x.upload.clientError(); err != nil {
		return err
	}
	uploading := x.upload.running()
	begun := l.since
	if at := x.upload.lastAt(); at.After(begun) {
		begun = at
	}
	// While the body comes, its own deadlines apply.
	if now.Sub(begun) >= l.limit && (!uploading || x.answered) {
		x.m.limitUpstream.Inc()
		return errUpstreamTimeout
	}
	if x.h.Expect && !x.continued && !x.answered && now.Sub(l.since) >= x.cfg.ContinueTimeout {
		if err := x.sendContinue(); err != nil {
			return err
		}
	}
	l.step = min(2*l.step, lastTick)
	if x.client.Gone(now, uploading) {
		x.gone = true
		return ErrClientGone
	}
	return x.look(now)
}

func (l *leg) ended(err error) error {
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	return fmt.Errorf("%w: %w", errUpstreamClosed, err)
}

const lookEvery = 2 * time.Second

func (x *Exchange) look(now time.Time) error {
	switch {
	case x.goOn == nil || !x.answered || now.Before(x.lookBy):
		return nil
	case x.lookBy.IsZero():
	case !x.goOn():
		x.m.revoked.Inc()
		return errRevoked
	}
	x.lookBy = now.Add(lookEvery)
	return nil
}

// look reports whether the tunnel may go on. Both directions call it, one looks.
func (t *tunnel) look(now time.Time) bool {
	if t.goOn == nil {
		return true
	}
	by := t.lookBy.Load()
	if now.UnixNano() < by || !t.lookBy.CompareAndSwap(by, now.Add(lookEvery).UnixNano()) || t.goOn() {
		return true
	}
	t.revoked.Store(true)
	return false
}
