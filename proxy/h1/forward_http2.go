package h1

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
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
