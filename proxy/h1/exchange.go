package h1

import (
	"bytes"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"antirobot/proxy/h1/wire"
	"antirobot/request"
)

// errStopped ends the reading of a body that is no longer wanted.
var errStopped = errors.New("upload stopped")

// keptBody is the largest ReadBody buffer that is kept with the connection.
const keptBody = firstBody

// Exchange is one request and its answer. It belongs to the handler until ServeExchange returns, is used by one
// goroutine, and is reused afterwards: nothing of it may be kept.
type Exchange struct {
	View request.View // all bytes are borrowed until ServeExchange returns

	client   Client
	c        *conn      // the client, if it speaks HTTP/1
	h        *wire.Head // of the request
	cfg      *Config
	m        *serverMetrics
	log      *zerolog.Logger
	hostName []byte
	body     body
	answer   Answer
	pre      []byte        // what ReadBody has read
	bodies   *atomic.Int64 // bytes that the bodies of all requests hold
	held     int64         // of them by this one
	leg      leg
	upload   upload
	reqHead  []byte       // the head for the service
	rewriter Rewriter     // of the answer's body, while it is relayed; nil: none
	goOn     func() bool  // ForwardOptions.GoOn
	copy     func([]byte) // ForwardOptions.Copy
	lookBy   time.Time    // when it is asked next; zero: the answer has not begun

	answered  bool            // the final answer has begun
	gone      bool            // the client has left
	continued bool            // 100 has been sent to the client
	fallback  int             // the status if the handler returns without an answer
	method    []byte          // of the request that the service gets
	altSvc    []byte          // Origin.AltSvc
	own       []request.Field // of an own answer that says it
	tunnelled int64           // bytes that a tunnel brought the client
}

// bind makes x the exchange of one client after another; s is what they all share.
func (x *Exchange) bind(s *Server, client Client, h *wire.Head) {
	x.client, x.h, x.m, x.log, x.bodies = client, h, s.m, &s.log, &s.m.bodies
	x.leg.x, x.upload.x, x.body.x, x.answer.x = x, x, x, x
	x.leg.pieces = x.leg.next
	x.upload.done = make(chan struct{}, 1)
}

// start prepares x for the request whose head is in x.h.
func (x *Exchange) start(cfg *Config, from Origin) {
	h := x.h
	x.cfg = cfg
	x.hostName = x.hostName[:0]
	if h.Host != nil {
		x.hostName, _ = request.AppendHostName(x.hostName, h.Host)
	}
	x.View = request.View{
		At: time.Now(), Method: h.Method, Host: x.hostName, HostPort: h.Host, Target: h.Target, Path: h.Target,
		Fields: h.Fields, Peer: from.Peer, TLS: from.TLS, HTTP10: h.Minor == 0, Body: h.Chunked || h.Length > 0, JA4: from.JA4, Client: from.Client, Frames: from.HTTP2, Behind: from.Behind,
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

// ReadBody reads the whole body into memory and returns it, valid until ServeExchange returns. It sends 100 Continue to a
// client that waits for it. Beyond limit bytes it fails with ErrBodyTooLarge. Forward still forwards a body unchanged that
// was read wholly or partly. Other errors: errBodiesBusy, ErrBadBody, errBodyTimeout, ErrClientGone.
func (x *Exchange) ReadBody(limit int64) ([]byte, error) { return x.ReadBodyBy(limit, time.Time{}) }

// ReadBodyBy is ReadBody with a deadline, after which it fails with ErrBodyLate; the body can still be read and forwarded.
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
		if err == io.EOF { //nolint:errorlint // body.read returns it bare
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

// firstBody is the first allocation for a body, in bytes: it grows as data arrives, whatever length was announced.
const firstBody = 4 << 10

// growBody makes room for more of the body, doubling each time.
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

// hold counts n bytes as held by this request's body, unless the total of all requests would exceed its bound.
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

// sendContinue sends 100 Continue, once, to a client that waits for it.
func (x *Exchange) sendContinue() error {
	if !x.h.Expect || x.continued {
		return nil
	}
	x.continued = true
	err := x.client.Continue()
	x.gone = x.gone || err != nil
	return err
}

// Reply sends an answer of the gateway's own: fields as given, and what the message needs (Date unless given,
// Content-Length, Connection). The body is left out for HEAD and for statuses without one. It may be called once, and
// not after Forward began an answer: errAnswered. A field that is not valid HTTP gives errBadField, and nothing is sent.
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
		x.client.SettleBody()
	}
	if x.altSvc != nil {
		x.own = append(append(x.own[:0], fields...), request.Field{Name: altSvcName, Value: x.altSvc})
		fields = x.own
	}
	return x.client.Reply(status, fields, body)
}

var altSvcName = []byte("Alt-Svc")

// withheld reports whether the client does not get a field of the service's answer.
func (x *Exchange) withheld(o *ForwardOptions, name []byte) bool {
	return o.DropAnswer != nil && o.DropAnswer(name) || x.altSvc != nil && request.EqualFold(name, "Alt-Svc")
}

// passAnswer gives the client the head of the service's answer.
func (x *Exchange) passAnswer(o *ForwardOptions, fr framing) error {
	x.answer.h, x.answer.o, x.answer.framing = &x.leg.h, o, fr
	return x.client.Answer(&x.answer)
}

// finish forgets the request.
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

// afterPanic cleans up after a handler that panicked.
func (x *Exchange) afterPanic() {
	if x.leg.up != nil {
		x.upload.halt()
		x.leg.drop(nil)
	}
	x.client.Unkeep()
	if x.answered {
		x.client.Cut(true)
	}
	x.body.err = errStopped // the rest of the body is ignored
}

func validFields(fields []request.Field) bool {
	for i := range fields {
		if f := &fields[i]; !wire.IsName(f.Name) || !wire.All(f.Value, wire.Value) {
			return false
		}
	}
	return true
}
