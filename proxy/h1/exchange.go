package h1

import (
	"bytes"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"antirobot/proxy/h1/wire"
	"antirobot/proxy/upstream"
	"antirobot/request"
)

var errStopped = errors.New("upload stopped")

const keptBody = firstBody

// Exchange is one request and its answer. The handler owns it until ServeExchange returns; it is used by one goroutine
// and reused.
type Exchange struct {
	View request.View // borrowed until ServeExchange returns

	client   Client
	c        *conn // nil unless HTTP/1
	h        *wire.Head
	cfg      *Config
	m        *serverMetrics
	log      *zerolog.Logger
	hostName []byte
	body     body
	answer   Answer
	pre      []byte        // read by ReadBody
	bodies   *atomic.Int64 // held by all requests, bytes
	held     int64         // by this one
	leg      leg
	upload   upload
	reqHead  []byte   // for the service
	rewriter Rewriter // while the answer's body is relayed; nil: none
	goOn     func() bool
	copy     func([]byte)
	lookBy   time.Time // next call of goOn; zero: the answer has not begun

	answered  bool
	gone      bool
	continued bool   // 100 has been sent
	fallback  int    // status if the handler returns without an answer
	method    []byte // for the service
	altSvc    []byte
	own       []request.Field // fields of an own answer with Alt-Svc
	tunnelled int64           // bytes to the client
}

func (x *Exchange) bind(s *Server, client Client, h *wire.Head) {
	x.client, x.h, x.m, x.log, x.bodies = client, h, s.m, &s.log, &s.m.bodies
	x.leg.x, x.upload.x, x.body.x, x.answer.x = x, x, x, x
	x.leg.pieces = x.leg.next
	x.upload.done = make(chan struct{}, 1)
}

func (x *Exchange) start(cfg *Config, from Origin) {
	h := x.h
	x.cfg = cfg
	x.hostName = x.hostName[:0]
	if h.Host != nil {
		x.hostName, _ = request.AppendHostName(x.hostName, h.Host)
	}
	x.View = request.View{
		At: time.Now(), Method: h.Method, Host: x.hostName, HostPort: h.Host, Target: h.Target, Path: h.Target,
		Fields: h.Fields, Peer: from.Peer, TLS: from.TLS, HTTP10: h.Minor == 0, Body: h.Chunked || h.Length > 0,
		JA4: from.JA4, Client: from.Client, Frames: from.HTTP2, Behind: from.Behind,
	}
	if i := bytes.IndexByte(h.Target, '?'); i >= 0 {
		x.View.Path, x.View.Query = h.Target[:i], h.Target[i+1:]
	}
	x.method, x.altSvc = h.Method, from.AltSvc
	x.answered, x.gone, x.continued = false, false, false
	x.fallback = 500
	x.pre = x.pre[:0]
	x.body.start(h)
	x.upload.reset()
	x.rewriter = nil
}

// Answered reports whether an answer has begun, so that Reply and Forward would fail.
func (x *Exchange) Answered() bool { return x.answered }

// ReadBody returns the whole body, valid until ServeExchange returns. It sends 100 Continue if expected. Forward still
// sends a body that was read wholly or partly. Errors: ErrBodyTooLarge (beyond limit bytes), errBodiesBusy, ErrBadBody,
// errBodyTimeout, ErrClientGone.
func (x *Exchange) ReadBody(limit int64) ([]byte, error) { return x.ReadBodyBy(limit, time.Time{}) }

// ReadBodyBy is ReadBody with a deadline, after which it fails with ErrBodyLate; the body can still be read.
func (x *Exchange) ReadBodyBy(limit int64, by time.Time) ([]byte, error) {
	if x.body.err != nil {
		return nil, x.body.err
	}
	if x.body.left > limit-int64(len(x.pre)) && !x.body.chunked || int64(len(x.pre)) > limit {
		return nil, ErrBodyTooLarge
	}
	if !x.body.done && !x.hold(max(cap(x.pre), firstBody)) {
		return nil, x.body.err
	}
	if !x.body.done {
		if err := x.sendContinue(); err != nil {
			return nil, err
		}
	}
	for !x.body.done {
		if !x.growBody() {
			return nil, x.body.err
		}
		if !by.IsZero() && !x.client.AwaitBody(by) {
			return nil, ErrBodyLate
		}
		room := x.pre[len(x.pre):cap(x.pre)]
		n, err := x.body.read(room)
		x.pre = x.pre[:len(x.pre)+n]
		if err == io.EOF { //nolint:errorlint // bare
			break
		}
		if err != nil {
			return nil, err
		}
		if int64(len(x.pre)) > limit {
			return nil, ErrBodyTooLarge
		}
	}
	return x.pre, nil
}

// firstBody is the first allocation for a body, whatever length was announced.
const firstBody = 4 << 10

func (x *Exchange) growBody() bool {
	if len(x.pre) < cap(x.pre) {
		return true
	}
	more := max(firstBody, len(x.pre))
	if !x.body.chunked {
		more = min(more, int(x.body.left))
	}
	if !x.hold(len(x.pre) + more) {
		return false
	}
	grown := make([]byte, len(x.pre), len(x.pre)+more)
	copy(grown, x.pre)
	x.pre = grown
	return true
}

// hold counts n bytes as held by this request's body, unless all requests exceed their bound.
func (x *Exchange) hold(n int) bool {
	more := int64(n) - x.held
	if more <= 0 {
		return true
	}
	if sum := x.bodies.Add(more); x.cfg.MaxBodiesBytes > 0 && sum > x.cfg.MaxBodiesBytes {
		x.bodies.Add(-more)
		x.m.limitBodies.Inc()
		x.body.err = errBodiesBusy
		return false
	}
	x.held = int64(n)
	return true
}

func (x *Exchange) sendContinue() error {
	if !x.h.Expect || x.continued {
		return nil
	}
	x.continued = true
	err := x.client.Continue()
	x.gone = x.gone || err != nil
	return err
}

// Reply sends an own answer once: fields, Date unless given, Content-Length and Connection. HEAD and some statuses get
// no body. After Forward began an answer it fails with errAnswered, for invalid fields with errBadField.
func (x *Exchange) Reply(status int, fields []request.Field, body []byte) error {
	if x.answered {
		return errAnswered
	}
	if x.gone {
		return ErrClientGone
	}
	if status < 200 || status > 599 || !validFields(fields) {
		return errBadField
	}
	x.answered = true
	if !x.body.done {
		x.c.settleBody()
	}
	if x.altSvc != nil {
		x.own = append(append(x.own[:0], fields...), request.Field{Name: altSvcName, Value: x.altSvc})
		fields = x.own
	}
	return x.client.Reply(status, fields, body)
}

var altSvcName = []byte("Alt-Svc")

func (x *Exchange) withheld(o *ForwardOptions, name []byte) bool {
	return o.DropAnswer != nil && o.DropAnswer(name) || x.altSvc != nil && request.EqualFold(name, "Alt-Svc")
}

func (x *Exchange) passAnswer(o *ForwardOptions, fr framing) error {
	x.answer.h, x.answer.o, x.answer.framing = &x.leg.h, o, fr
	return x.client.Answer(&x.answer)
}

func (x *Exchange) finish() {
	if cap(x.pre) > keptBody {
		x.pre = nil
	}
	if x.held > 0 {
		x.bodies.Add(-x.held)
		x.held = 0
	}
	x.View = request.View{}
	x.method, x.altSvc, x.goOn, x.copy = nil, nil, nil, nil
	clear(x.own)
	x.answer.h, x.answer.o = nil, nil
}

func (x *Exchange) afterPanic() {
	if x.leg.up != nil {
		x.upload.halt()
		x.leg.drop(nil)
	}
	x.c.unkeep()
	if x.answered {
		x.client.Cut(true)
	}
	x.body.err = errStopped // the rest is ignored
}

func validFields(fields []request.Field) bool {
	for i := range fields {
		if f := &fields[i]; !wire.IsName(f.Name) || !wire.All(f.Value, wire.Value) {
			return false
		}
	}
	return true
}

type body struct {
	x       *Exchange
	chunked bool
	done    bool
	left    int64 // for Content-Length
	n       int64
	max     int64 // 0: no limit
	err     error // sticky
}

func (b *body) start(h *wire.Head) {
	b.chunked, b.left, b.n, b.err, b.max = h.Chunked, max(h.Length, 0), 0, nil, 0
	b.done = !h.Chunked && b.left == 0
}

func (b *body) trailers() []request.Field { return b.x.client.Trailers() }

// read returns data, or io.EOF after the end. Its errors are those of ReadBody, and errStopped.
func (b *body) read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	if b.done {
		return 0, io.EOF
	}
	if !b.chunked {
		p = p[:min(int64(len(p)), b.left)]
	}
	n, err := b.x.client.ReadBody(p)
	if !b.chunked {
		b.left -= int64(n)
		b.done = b.left == 0
	} else if err == io.EOF { //nolint:errorlint // bare
		b.done = true
		return 0, io.EOF
	}
	b.n += int64(n)
	switch {
	case err != nil:
		b.err = b.explain(err)
	case b.max > 0 && b.n > b.max:
		b.x.m.limitBody.Inc()
		b.err = ErrBodyTooLarge
	}
	return n, b.err
}

func (b *body) explain(err error) error {
	m := b.x.m
	switch {
	case b.x.upload.stop.Load():
		return errStopped
	case errors.Is(err, wire.ErrChunk), errors.Is(err, ErrBadBody):
		m.badBody.Inc()
		return ErrBadBody
	case isTimeout(err):
		m.limitRead.Inc()
		return errBodyTimeout
	}
	return ErrClientGone
}

// Errors of Forward and ReadBody. Status returns their statuses.
var (
	errNoUpstream      = errors.New("no upstream")                     // unreachable, or all busy
	errUpstreamTimeout = errors.New("upstream did not answer in time") // no head, or a stalled body
	errUpstreamClosed  = errors.New("upstream closed the connection")  // before or within its answer
	ErrBodyTooLarge    = errors.New("request body too large")
	errBodiesBusy      = errors.New("bodies hold too much memory")
	ErrBadBody         = errors.New("request body is no valid chunked")
	ErrBodyLate        = errors.New("request body is not there yet")
	errBodyTimeout     = errors.New("request body did not come in time") // read_timeout
	ErrClientGone      = errors.New("client left")
	errRevoked         = errors.New("visitor may not read on") // by ForwardOptions.GoOn
	errAnswered        = errors.New("request is answered already")
	errBadField        = errors.New("header field is not valid HTTP") // by the handler
)

// Status is the HTTP status for err; 0: the client is gone, or the answer has begun.
func Status(err error) int {
	for _, m := range []struct {
		err    error
		status int
	}{
		{ErrClientGone, 0},
		{errRevoked, 0},
		{errAnswered, 0},
		{ErrBodyTooLarge, 413},
		{errBodiesBusy, 503},
		{ErrBadBody, 400},
		{errBodyTimeout, 408},
		{errUpstreamTimeout, 504},
		{upstream.ErrBusy, 503},
		{errNoUpstream, 502},
		{errUpstreamClosed, 502},
		{wire.ErrBadResponse, 502},
	} {
		if errors.Is(err, m.err) {
			return m.status
		}
	}
	return 500
}

func spares(err error) bool {
	for _, of := range []error{ErrClientGone, errRevoked, ErrBodyTooLarge, ErrBadBody, errBodyTimeout} {
		if errors.Is(err, of) {
			return true
		}
	}
	return false
}

var began = time.Now()

// clock is time.Now for deadlines and durations: it reads only the monotonic clock, several times per request.
func clock() time.Time { return began.Add(time.Since(began)) }
