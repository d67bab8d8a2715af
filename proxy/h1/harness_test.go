package h1

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"antirobot/proxy/upstream"
	"antirobot/request"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		playRole(role)
		return
	}
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2")) // sleeps on after its server
}

// service is a scripted backend: serve runs for each connection.
type service struct {
	ln    net.Listener
	mu    sync.Mutex
	seen  bytes.Buffer // everything that arrived
	conns int
	wg    sync.WaitGroup
}

// talk is one connection of a service.
type talk struct {
	net.Conn
	r *bufio.Reader
	n int // which connection of the service, from 1
}

func (s *service) Read(c net.Conn, p []byte) (int, error) {
	n, err := c.Read(p)
	s.mu.Lock()
	if s.seen.Len() < 1<<20 {
		s.seen.Write(p[:n])
	}
	s.mu.Unlock()
	return n, err
}

type spy struct {
	net.Conn
	s *service
}

func (s spy) Read(p []byte) (int, error) { return s.s.Read(s.Conn, p) }

func newService(t testing.TB, serve func(c *talk)) *service {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &service{ln: ln}
	s.wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns++
			n := s.conns
			s.mu.Unlock()
			s.wg.Go(func() {
				defer c.Close()
				sp := spy{c, s}
				serve(&talk{Conn: sp, r: bufio.NewReader(sp), n: n})
			})
		}
	})
	t.Cleanup(func() { ln.Close(); s.wg.Wait() })
	return s
}

func (s *service) url() string { return "http://" + s.ln.Addr().String() }

func (s *service) got() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen.String()
}

func (s *service) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns
}

// request reads one request with net/http: an independent parser of what we wrote. It reads the body if asked to.
func (c *talk) request(body bool) (*http.Request, []byte) {
	_ = c.SetReadDeadline(time.Now().Add(60 * time.Second))
	req, err := http.ReadRequest(c.r)
	if err != nil {
		return nil, nil
	}
	if !body {
		return req, nil
	}
	b, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, nil
	}
	return req, b
}

// head reads one raw head.
func (c *talk) head() string {
	_ = c.SetReadDeadline(time.Now().Add(60 * time.Second))
	var b strings.Builder
	for {
		line, err := c.r.ReadString('\n')
		if err != nil {
			return ""
		}
		b.WriteString(line)
		if line == "\r\n" {
			return b.String()
		}
	}
}

func (c *talk) say(s string) { _, _ = io.WriteString(c, s) }

// answering is a service that gives every request the same raw answer and keeps the connection open.
func answering(t testing.TB, answer string) *service {
	return newService(t, func(c *talk) {
		for {
			if r, _ := c.request(true); r == nil {
				return
			}
			c.say(answer)
		}
	})
}

const okAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// gateway is a server under test.
type gateway struct {
	srv  *Server
	addr string
	g    *upstream.Group
	set  *metrics.Set
	stop func()
}

type setup struct {
	cfg      func(*Config)
	upstream func(*upstream.Config)
	options  ForwardOptions
	listener ListenerOptions
	listen   string // empty: somewhere on 127.0.0.1
	within   func(net.Listener) net.Listener
	handler  func(x *Exchange, forward func())
	results  chan<- outcome
}

type outcome struct {
	res Result
	err error
}

type handlerFunc func(x *Exchange)

func (f handlerFunc) ServeExchange(x *Exchange) { f(x) }

func newGateway(t testing.TB, s *service, o setup) *gateway {
	t.Helper()
	cfg := DefaultConfig()
	cfg.LingerTimeout = 300 * time.Millisecond
	if o.cfg != nil {
		o.cfg(&cfg)
	}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	set := metrics.NewSet()
	ucfg := upstream.DefaultConfig()
	ucfg.MaxFails = 0
	ucfg.URLs = []string{"http://127.0.0.1:1"}
	if s != nil {
		ucfg.URLs = []string{s.url()}
	}
	if o.upstream != nil {
		o.upstream(&ucfg)
	}
	g, err := upstream.New(ucfg, upstream.Deps{Log: zerolog.Nop(), Metrics: set})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	h := handlerFunc(func(x *Exchange) {
		forward := func() {
			res, err := x.Forward(g, &o.options)
			if o.results != nil {
				res.ContentType = bytes.Clone(res.ContentType)
				o.results <- outcome{res, err}
			}
			if status := Status(err); err != nil && status != 0 && !x.Answered() {
				_ = x.Reply(status, nil, []byte(err.Error()))
			}
		}
		if o.handler != nil {
			o.handler(x, forward)
			return
		}
		forward()
	})
	srv, err := NewServer(cfg, Deps{Handler: h, Log: zerolog.Nop(), Metrics: set})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", cmp.Or(o.listen, "127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	if o.within != nil {
		ln = o.within(ln)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln, o.listener) }()
	gw := &gateway{srv: srv, addr: ln.Addr().String(), g: g, set: set}
	gw.stop = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		_ = srv.Shutdown(ctx)
		if err := <-served; !errors.Is(err, ErrServerClosed) {
			t.Errorf("Serve returned %v", err)
		}
		_ = g.Close()
	})
	t.Cleanup(gw.stop)
	return gw
}

func (g *gateway) metric(name string) string {
	var b bytes.Buffer
	g.set.WritePrometheus(&b)
	for line := range strings.Lines(b.String()) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// client is a raw connection to a gateway.
type client struct {
	t testing.TB
	net.Conn
	r *bufio.Reader
}

func dial(t testing.TB, g *gateway) *client {
	t.Helper()
	c, err := net.Dial("tcp", g.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetReadDeadline(time.Now().Add(60 * time.Second))
	return &client{t, c, bufio.NewReader(c)}
}

func (c *client) say(s string) {
	c.t.Helper()
	if _, err := io.WriteString(c.Conn, s); err != nil {
		c.t.Fatalf("write: %v", err)
	}
}

// answer reads one answer and its body.
func (c *client) answer(method string) (*http.Response, string) {
	c.t.Helper()
	resp, err := http.ReadResponse(c.r, &http.Request{Method: method})
	if err != nil {
		c.t.Fatalf("no answer: %v", err)
	}
	if resp.StatusCode < 200 {
		return resp, ""
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatalf("body: %v after %q", err, b)
	}
	return resp, string(b)
}

// rest reads until the end of the connection.
func (c *client) rest() (string, error) {
	b, err := io.ReadAll(c.r)
	return string(b), err
}

// head reads one raw head.
func (c *client) head() string {
	c.t.Helper()
	var b strings.Builder
	for {
		line, err := c.r.ReadString('\n')
		if err != nil {
			c.t.Fatalf("no head: %v after %q", err, b.String()+line)
		}
		b.WriteString(line)
		if line == "\r\n" {
			return b.String()
		}
	}
}

// closes expects the end of the connection, clean or by reset.
func (c *client) closes() {
	c.t.Helper()
	if b, err := c.rest(); isTimeout(err) {
		c.t.Fatalf("connection stays open; read %q", b)
	} else if b != "" {
		c.t.Fatalf("unexpected bytes before the end: %q", b)
	}
}

func field(name, value string) request.Field {
	return request.Field{Name: []byte(name), Value: []byte(value)}
}
