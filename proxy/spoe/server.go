// Package spoe answers HAProxy's Stream Processing Offload Engine (SPOP 2.0, doc/SPOE.txt): HAProxy sends the head of
// each request in a frame, and gets variables. The answers are those of a check of style verdict with X-Forwarded
// fields.
package spoe

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/proxy/h1"
	"antirobot/request"
)

// Server answers HAProxy's connections, each in turn. Safe for concurrent use; made by New.
type Server struct {
	deps     Deps
	draining atomic.Bool
	said     atomic.Int64 // last logged error, unix seconds

	mu      sync.Mutex
	closers map[io.Closer]struct{} // listeners and connections
	running sync.WaitGroup

	asked, broken, refused *metrics.Counter
}

// Deps is what a Server works with. All are required.
type Deps struct {
	Front   *h1.Server   // serves the check
	Trusted h1.Balancers // other connections are closed
	Log     zerolog.Logger
	Metrics *metrics.Set
}

// New makes a server.
func New(d Deps) *Server {
	return &Server{
		deps: d, closers: map[io.Closer]struct{}{},
		asked:   d.Metrics.GetOrCreateCounter("antirobot_spoe_requests_total"),
		broken:  d.Metrics.GetOrCreateCounter("antirobot_spoe_broken_total"),
		refused: d.Metrics.GetOrCreateCounter("antirobot_spoe_refused_total"),
	}
}

const maxConns = 4096

const (
	helloTimeout = 10 * time.Second
	idleTimeout  = 10 * time.Minute // HAProxy closes its own sooner
	writeTimeout = 10 * time.Second
)

var past = time.Unix(1, 0)

// hold registers c for Close; false: the server is closed, or full.
func (s *Server) hold(c io.Closer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining.Load() || len(s.closers) >= maxConns {
		return false
	}
	s.closers[c] = struct{}{}
	return true
}

func (s *Server) release(c io.Closer) {
	s.mu.Lock()
	delete(s.closers, c)
	s.mu.Unlock()
	_ = c.Close() // may be closed already
}

// Serve accepts connections on ln until Close, and then returns nil.
func (s *Server) Serve(ln net.Listener) error {
	if !s.hold(ln) {
		return ln.Close()
	}
	defer s.release(ln)
	for {
		nc, err := ln.Accept()
		switch {
		case s.draining.Load():
			if err == nil {
				nc.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("accept: %w", err)
		case err != nil:
			time.Sleep(10 * time.Millisecond) // out of descriptors, or the client left
			continue
		}
		peer := addressOf(nc)
		if !s.deps.Trusted.Trusts(peer) {
			s.refused.Inc()
			s.say(peer, errors.New("this address may not ask: it is not in check.allowed"))
			nc.Close()
			continue
		}
		if !s.hold(nc) {
			nc.Close()
			continue
		}
		s.running.Go(func() {
			defer s.release(nc)
			if err := s.converse(nc, peer); err != nil && !s.draining.Load() {
				s.broken.Inc()
				s.say(peer, err)
			}
		})
	}
}

func addressOf(nc net.Conn) netip.Addr {
	a, err := netip.ParseAddrPort(nc.RemoteAddr().String())
	if err != nil {
		return netip.Addr{}
	}
	return request.Unwrap(a.Addr())
}

// say logs errors rarely, since a misconfigured balancer repeats them.
func (s *Server) say(peer netip.Addr, err error) {
	const every = 10
	if now, last := time.Now().Unix(), s.said.Load(); now-last >= every && s.said.CompareAndSwap(last, now) {
		s.deps.Log.Warn().Stringer("caller", peer).Err(err).
			Msg("a balancer's SPOE connection ended; see docs/balancers.md")
	}
}

// Shutdown stops accepting and waits for requests until ctx ends, when connections are cut.
func (s *Server) Shutdown(ctx context.Context) error {
	s.draining.Store(true)
	s.mu.Lock()
	for c := range s.closers {
		if nc, ok := c.(net.Conn); ok {
			_ = nc.SetReadDeadline(past) // wakes readers; writers go on
		} else {
			_ = c.Close()
		}
	}
	s.mu.Unlock()
	return h1.AwaitEnd(ctx, &s.running, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for c := range s.closers {
			_ = c.Close()
		}
	})
}

// Close is Shutdown without a grace period.
func (s *Server) Close() error { return h1.AtOnce(s.Shutdown) }

type talk struct {
	s     *Server
	nc    net.Conn
	r     *bufio.Reader
	peer  netip.Addr
	limit int // of a frame, as agreed
	in    []byte
	out   []byte
	call  *call
}

func (s *Server) converse(nc net.Conn, peer netip.Addr) error {
	t := talk{
		s: s, nc: nc, r: bufio.NewReaderSize(nc, 16<<10), peer: peer, limit: maxFrame,
		call: newCall(s.deps.Front),
	}
	more, err := t.greet()
	for err == nil && more {
		more, err = t.answer()
	}
	if err == nil || errors.Is(err, io.EOF) || s.draining.Load() {
		return nil
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return nil
	}
	if errors.Is(err, errFrame) || errors.Is(err, errTooLong) {
		t.out = appendFrame(t.out[:0], ourGoodbyeFrame, 0, 0, func(dst []byte) []byte {
			return appendString(appendUint32(dst, "status-code", 4), "message", []byte("invalid frame received"))
		})
		_ = t.send() // the first error counts
	}
	return err
}

func (t *talk) read(within time.Duration) (frame, error) {
	_ = t.nc.SetReadDeadline(time.Now().Add(within))
	if t.s.draining.Load() { // after the deadline: Shutdown sets the flag first
		_ = t.nc.SetReadDeadline(past)
	}
	f, buf, err := readFrame(t.r, t.in, t.limit)
	t.in = buf
	return f, err
}

func (t *talk) send() error {
	_ = t.nc.SetWriteDeadline(time.Now().Add(writeTimeout))
	_, err := t.nc.Write(t.out)
	return err
}

// greet negotiates version and frame size. more is false after a health check.
func (t *talk) greet() (more bool, err error) {
	f, err := t.read(helloTimeout)
	if err != nil {
		return false, err
	}
	if f.kind != helloFrame {
		return false, errFrame
	}
	size, probe, known := uint64(maxFrame), false, false
	d := decoder{p: f.payload}
	for len(d.p) > 0 {
		name, v := d.text(), d.value()
		switch string(name) {
		case "supported-versions":
			known = bytes.Contains(v.text, []byte("2."))
		case "max-frame-size":
			size = min(size, v.n)
		case "healthcheck":
			probe = v.yes
		}
	}
	switch {
	case d.bad || size < minFrame:
		return false, errFrame
	case !known:
		return false, errors.New("the balancer does not speak version 2 of SPOP")
	}
	t.limit = int(size)
	t.out = appendFrame(t.out[:0], ourHelloFrame, 0, 0, func(dst []byte) []byte {
		dst = appendString(dst, "version", []byte("2.0"))
		dst = appendUint32(dst, "max-frame-size", size)
		return appendString(dst, "capabilities", nil)
	})
	return !probe, t.send()
}

func (t *talk) answer() (more bool, err error) {
	f, err := t.read(idleTimeout)
	switch {
	case err != nil:
		return false, err
	case f.kind == goodbyeFrame:
		t.out = appendFrame(t.out[:0], ourGoodbyeFrame, 0, 0, func(dst []byte) []byte {
			return appendString(appendUint32(dst, "status-code", 0), "message", []byte("bye"))
		})
		return false, t.send()
	case f.flags&flagAbort != 0:
		return true, nil
	case f.kind != notifyFrame || f.flags&flagEnd == 0:
		return false, errFrame
	}
	var m message
	if !m.read(f.payload) {
		return false, errFrame
	}
	t.s.asked.Inc()
	status := t.call.ask(&m, t.peer)
	t.out = appendFrame(t.out[:0], ackFrame, f.stream, f.id,
		func(dst []byte) []byte { return t.call.appendAnswer(dst, status) })
	return true, t.send()
}

// read reads the message of a frame, and ignores unknown arguments.
func (m *message) read(p []byte) bool {
	d := decoder{p: p}
	for len(d.p) > 0 {
		d.text() // name
		for n := d.byte(); n > 0 && !d.bad; n-- {
			name, v := d.text(), d.value()
			switch string(name) {
			case "method":
				m.method = v.text
			case "uri":
				m.uri = v.text
			case "host":
				m.host = v.text
			case "headers":
				m.headers = v.text
			case "src":
				m.src = v.address()
			case "ssl":
				m.tls = v.yes
			}
		}
	}
	return !d.bad
}

// appendAnswer appends the variables; verdict is human, stop or down.
func (k *call) appendAnswer(dst []byte, status int) []byte {
	verdict := "down"
	switch status {
	case 200:
		verdict = "human"
	case 401, 403:
		verdict = "stop"
	}
	dst = appendVariable(dst, "verdict", []byte(verdict))
	for _, v := range []struct {
		name string
		text []byte
	}{{"cookie", k.cookie}, {"mark", k.mark}, {"reason", k.reason}, {"id", k.id}} {
		if len(v.text) > 0 && status != 0 {
			dst = appendVariable(dst, v.name, v.text)
		}
	}
	return dst
}
