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

// ForwardOptions say what differs between the client's request and the service's, and between the service's answer and
// the client's. All slices are borrowed for the call.
type ForwardOptions struct {
	SetFields   []request.Field        // replace the client's fields of these names, '_' read as '-'
	Drop        func(name []byte) bool // client's fields that are not passed on
	DropCookies []string               // cookies that are removed from the Cookie fields
	Host        []byte                 // sent instead of the client's Host

	AddAnswer  []request.Field        // added to the service's answer
	AddPrivate []request.Field        // also added, unless a shared cache may keep the answer
	DropAnswer func(name []byte) bool // service's fields that are not passed on
	Read       string                 // a field of the service's answer whose value Result has, passed on or not; empty: none

	// HoldField names a field of the service's answer, and Hold says of its value whether the answer is withheld: then nothing
	// of it is sent, Forward returns with Result.Held, and the handler may Reply. Empty: none is.
	HoldField string
	Hold      func(value []byte) bool
	// HoldHead says the same of an answer's head; nil: none is withheld for it.
	HoldHead func(status int, fields []request.Field) bool

	// Head is called when the head of the final answer is there, before anything of it is sent; nil: nothing is. It is not called
	// for an answer that is withheld or becomes a tunnel. What Result has then is status, times and what the head says.
	Head func(r Result)

	// GoOn is asked every few seconds while an answer is relayed, and in a tunnel that moves; false cuts it, with errRevoked. In a
	// tunnel any goroutine asks, but one at a time. Nil: answers go on.
	GoOn func() bool

	Rewrite Rewriter // makes another answer of the final one; nil: it stays as it is

	// Copy gets the pieces of the final answer's body, without its framing, as they are passed on; each is valid during the call.
	// A body that Rewrite makes is not copied. Nil: nothing is.
	Copy func(piece []byte)

	MaxBodyBytes int64 // 0: Config.MaxBodyBytes; negative: no limit

	HeadTimeout   time.Duration // until the answer's head, after the request was sent; 0: the Group's response_timeout
	StreamTimeout time.Duration // between two pieces of a body; 0: the Group's stream_idle_timeout
	TunnelTimeout time.Duration // of a tunnel without a byte either way; 0: the Group's tunnel_idle_timeout

	Replay *Request // sent in place of the client's request
}

// Request is a request made by the handler, such as a form that was kept while its sender solved a captcha.
type Request struct {
	Method, Target []byte
	Fields         []request.Field // without Host and framing
	Body           []byte          // nil: none
}

// Result describes the outcome of a forwarded request.
type Result struct {
	Status      int           // of the final answer; 0 if there was none
	BytesIn     int64         // body bytes read from the client
	BytesOut    int64         // bytes sent to the client, heads included
	HeadAt      time.Duration // from the call to the answer's head
	Waited      time.Duration // of that, since the client sent the last of its body
	Took        time.Duration // from the call to its end
	Addr        string        // of the upstream
	Reused      bool          // on a connection that had been used before
	Retried     bool
	Upgraded    bool
	Length      int64  // of the body, as the answer's head says; -1: it does not
	Held        bool   // the answer was withheld; see ForwardOptions.Hold
	ContentType []byte // borrowed until ServeExchange returns
	Read        []byte // the value of the field ForwardOptions.Read, borrowed as long
}

// begins records that the answer's head is there: the call began at start, and the body last went on at sent, if it had to be
// waited for.
func (r *Result) begins(start, sent time.Time) {
	r.HeadAt = clock().Sub(start)
	r.Waited = r.HeadAt
	if sent.After(start) {
		r.Waited = clock().Sub(sent)
	}
}

// maxInterim bounds the 1xx answers before a final one.
const maxInterim = 64

// Forward sends the request to g and relays the answer. It returns when the answer, or a tunnel, has ended. On an error
// with Answered() false nothing has been sent, and the handler may Reply with Status(err). Errors: errNoUpstream,
// errUpstreamTimeout, errUpstreamClosed, errBadResponse, ErrBodyTooLarge, errBodiesBusy, ErrBadBody, errBodyTimeout, ErrClientGone,
// errAnswered, errBadField, errRevoked.
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
	if b := &x.body; o.Replay == nil && !b.done && (b.chunked || b.left > int64(x.client.BodyBuffered())) &&
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

// forwardable checks what can be checked before anything is sent.
func (x *Exchange) forwardable(o *ForwardOptions) error {
	if x.answered {
		return errAnswered
	}
	if x.gone {
		return ErrClientGone
	}
	if !validFields(o.SetFields) || !validFields(o.AddAnswer) || !validFields(o.AddPrivate) || o.Host != nil && !wire.IsAuthority(o.Host) {
		return errBadField
	}
	if r := o.Replay; r != nil {
		if !wire.IsName(r.Method) || len(r.Target) == 0 || r.Target[0] != '/' || !wire.All(r.Target, wire.Target) || !validFields(r.Fields) {
			return errBadField
		}
		x.method = r.Method
		if !x.body.done {
			x.client.SettleBody()
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

// lastHop answers OPTIONS and TRACE whose Max-Forwards is used up, as RFC 9110 section 7.6.2 demands.
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

// attempt tries one connection. again reports that nothing has happened that a second attempt could do twice.
func (x *Exchange) attempt(up *upstream.Conn, gc *upstream.Config, o *ForwardOptions, res *Result, start time.Time) (again bool, err error) {
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
	stale := !l.got && (err == io.EOF || errors.Is(err, errUpstreamClosed)) //nolint:errorlint // leg returns it bare
	x.conclude(err, o.Replay != nil)
	if err == io.EOF { //nolint:errorlint // leg returns it bare
		err = errUpstreamClosed
	}
	return err != nil && stale && mayRetry && wire.Idempotent(x.method), err
}

// private returns what is added to the service's answer for its visitor alone, and what is said of that to caches that guess.
func (o *ForwardOptions) private(h *wire.Head) (add, said []request.Field) {
	if len(o.AddPrivate) == 0 || h.Sharable() {
		return nil, nil
	}
	if h.Guessed() {
		said = wire.Unshared
	}
	return o.AddPrivate, said
}

// begin calls Head.
func (o *ForwardOptions) begin(res *Result) {
	if o.Head != nil {
		o.Head(*res)
	}
}

// note copies what the handler wants to know of an answer's head.
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

// appendToSend builds reqHead: the head and whatever has arrived of the body, so that short requests take one write.
func (x *Exchange) appendToSend(o *ForwardOptions, addr string) (bodiless bool) {
	if r := o.Replay; r != nil {
		x.reqHead = append(x.appendReplay(x.reqHead[:0], o, addr), r.Body...)
		return len(r.Body) == 0
	}
	b := &x.body
	if !b.chunked && !b.done && int64(x.client.BodyBuffered()) >= b.left {
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

// takeBuffered moves the buffered part of a body of known length into pre.
func (x *Exchange) takeBuffered() {
	b := &x.body
	x.pre = x.client.TakeBody(x.pre, int(b.left))
	b.n += b.left
	b.left, b.done = 0, true
}

// awaitAnswer reads heads until the final one, or a 101 that was asked for, and passes interim ones on.
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
			if o.Replay != nil || !x.h.WebSocket() || h.UpgradeNum != 1 || !h.Upgrade || !request.EqualFold(h.UpgradeTo, "websocket") {
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

// conclude returns the service's connection to the pool, or closes it, and decides what that means for the client's.
func (x *Exchange) conclude(err error, replayed bool) {
	l := &x.leg
	x.upload.settle(err == nil && x.client.Keeps() && l.h.KeepsAlive())
	finished := !x.upload.running()
	complete := err == nil && finished && x.upload.sent() && l.h.KeepsAlive() && l.h.Ended && l.up.R.Buffered() == 0
	x.upload.halt()
	switch {
	case complete:
		l.release()
	case err == nil, spares(err):
		l.drop(nil)
	case l.up.Reused() && !l.got:
		l.drop(nil) // the service closed it just now, which it may
	default:
		if errors.Is(err, wire.ErrBadResponse) {
			x.m.badResponse.Inc()
			if string(x.method) == "HEAD" {
				err = nil // servers that answer HEAD wrongly answer GET well: that takes no address out of rotation
			}
		}
		l.drop(err)
	}
	if !x.body.done && !replayed {
		x.client.LeaveBody()
	}
}
