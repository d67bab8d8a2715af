package blackbox

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"antirobot/proxy/h1"
	"antirobot/proxy/upstream"
	"antirobot/request"
	"antirobot/servertest"
)

// Client is one raw connection to the proxy.
type Client struct {
	net.Conn
	R *bufio.Reader
	x *X
}

func itoa(n int) string { return strconv.Itoa(n) }

const hostName = "example.test"

// get builds a GET.
func get(target string, fields ...string) string {
	return newRequest("GET", target, "", fields...)
}

// newRequest builds a request with Host, and with Content-Length if there is a body.
func newRequest(method, target, body string, fields ...string) string {
	if body != "" {
		fields = append(fields, "Content-Length: "+itoa(len(body)))
	}
	return method + " " + target + " HTTP/1.1\r\nHost: " + hostName + "\r\n" + lines(fields) + "\r\n" + body
}

// chunkedPost builds a POST whose body is written as given.
func chunkedPost(target, rawBody string, fields ...string) string {
	return newRequest("POST", target, "", append(fields, "Transfer-Encoding: chunked")...) + rawBody
}

// Dial opens another connection to the proxy.
func (x *X) Dial() *Client {
	c, err := net.Dial("tcp", x.env.addr)
	if err != nil {
		x.Fatalf("dial: %v", err)
	}
	k := &Client{Conn: c, R: bufio.NewReaderSize(c, 64<<10), x: x}
	x.mu.Lock()
	x.clients = append(x.clients, k)
	x.mu.Unlock()
	return k
}

// Send writes bytes; it is not an error if the proxy has already closed.
func (c *Client) Send(parts ...string) {
	c.SetWriteDeadline(time.Now().Add(c.x.within()))
	for _, p := range parts {
		if _, err := io.WriteString(c.Conn, p); err != nil {
			return
		}
	}
}

// Abort closes with RST.
func (c *Client) Abort() {
	_ = c.Conn.(*net.TCPConn).SetLinger(0)
	c.Close()
}

// CloseWrite ends the client's side.
func (c *Client) CloseWrite() { _ = c.Conn.(*net.TCPConn).CloseWrite() }

// TryHead reads one head, possibly an interim one; nil if the connection ended first.
func (c *Client) TryHead() *Resp {
	c.SetReadDeadline(time.Now().Add(c.x.within()))
	if _, err := c.R.Peek(1); err != nil {
		var ne net.Error
		if errors.As(err, &ne) && ne.Timeout() {
			c.x.Fatalf("no answer within %v", c.x.within())
		}
		return nil
	}
	h, err := readHeadBytes(c.R)
	if err != nil {
		c.x.Fatalf("answer's head: %v after %q", err, clip(h))
	}
	p, err := parseResponseHead(h)
	if err != nil {
		c.x.Fatalf("answer: %v", err)
	}
	c.x.mu.Lock()
	if c.x.first == 0 {
		c.x.first = p.Status
	}
	c.x.mu.Unlock()
	return p
}

// Head reads one head.
func (c *Client) Head() *Resp {
	p := c.TryHead()
	if p == nil {
		c.x.Fatalf("closed without an answer")
	}
	return p
}

// TryRecv reads interim answers, the final one and its body; nil if the connection ended first.
func (c *Client) TryRecv(method string) *Resp {
	var interim []Resp
	for {
		p := c.TryHead()
		if p == nil {
			if len(interim) > 0 {
				c.x.Fatalf("closed after an interim answer")
			}
			return nil
		}
		if p.Status < 200 && p.Status != 101 {
			interim = append(interim, *p)
			continue
		}
		p.Interim = interim
		c.Body(p, method)
		return p
	}
}

// Recv reads a complete answer.
func (c *Client) Recv(method string) *Resp {
	p := c.TryRecv(method)
	if p == nil {
		c.x.Fatalf("closed without an answer")
	}
	return p
}

// Get reads the answer to a GET, which must be complete.
func (c *Client) Get() *Resp {
	p := c.Recv("GET")
	if !p.Complete {
		c.x.Fatalf("answer %d is incomplete: %v, %d bytes", p.Status, p.Err, len(p.Body))
	}
	return p
}

// Body reads the body of p.
func (c *Client) Body(p *Resp, method string) {
	chunked, n, _ := framing(p.Fields)
	c.SetReadDeadline(time.Now().Add(c.x.within()))
	var b strings.Builder
	switch {
	case p.Status < 200 || p.Status == 204 || p.Status == 304 || method == "HEAD":
		p.Framing = "none"
	case chunked:
		p.Framing = "chunked"
		p.Body, p.Trailer, p.Err = readChunked(c.R)
		p.Complete = p.Err == nil
		return
	case n >= 0:
		p.Framing = "length"
		_, p.Err = io.CopyN(&b, c.R, n)
	default:
		p.Framing = "close"
		_, p.Err = io.Copy(&b, c.R)
	}
	p.Body, p.Complete = b.String(), p.Err == nil
}

// ReadN reads exactly n bytes.
func (c *Client) ReadN(n int) string {
	b := make([]byte, n)
	c.SetReadDeadline(time.Now().Add(c.x.within()))
	if n, err := io.ReadFull(c.R, b); err != nil {
		c.x.Fatalf("client wanted %d bytes, got %q: %v", len(b), clip(string(b[:n])), err)
	}
	return string(b)
}

// ReadUntil reads raw bytes until they contain mark.
func (c *Client) ReadUntil(mark string) string {
	var b strings.Builder
	c.SetReadDeadline(time.Now().Add(c.x.within()))
	for !strings.Contains(b.String(), mark) {
		x, err := c.R.ReadByte()
		if err != nil {
			c.x.Fatalf("client waits for %q, got %q: %v", mark, clip(b.String()), err)
		}
		b.WriteByte(x)
	}
	return b.String()
}

// Ended reports whether the proxy closes the connection, and what it sent before.
func (c *Client) Ended() (rest string, ended bool) {
	c.SetReadDeadline(time.Now().Add(c.x.within()))
	b, err := io.ReadAll(c.R)
	var ne net.Error
	return string(b), err == nil || !errors.As(err, &ne) || !ne.Timeout()
}

// Silent reports whether nothing comes for d.
func (c *Client) Silent(d time.Duration) bool {
	c.SetReadDeadline(time.Now().Add(d))
	_, err := c.R.Peek(1)
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

// MustEnd expects the connection to be closed without another byte.
func (c *Client) MustEnd() {
	rest, ended := c.Ended()
	if !ended {
		c.x.Errorf("the connection stays open")
	}
	if rest != "" {
		c.x.Errorf("more bytes after the answer: %q", clip(rest))
	}
}

// MustLive expects the connection to serve another request.
func (c *Client) MustLive() {
	c.Send(get("/still-alive"))
	p := c.TryRecv("GET")
	if p == nil {
		c.x.Errorf("the connection was closed, but should be kept alive")
		return
	}
	if p.Status != 200 || p.Body != "for /still-alive" {
		c.x.Errorf("the next request on the connection got %d %q", p.Status, clip(p.Body))
	}
}

// Field is one header line.
type Field struct{ Name, Value string }

// Fields are header lines in their order.
type Fields []Field

// All returns the values of name, compared without case.
func (f Fields) All(name string) (out []string) {
	for _, x := range f {
		if strings.EqualFold(x.Name, name) {
			out = append(out, x.Value)
		}
	}
	return out
}

// Get returns all values of name, joined.
func (f Fields) Get(name string) string { return strings.Join(f.All(name), ", ") }

// Has reports whether name is there.
func (f Fields) Has(name string) bool { return len(f.All(name)) > 0 }

// Req is a request as the service saw it.
type Req struct {
	Conn     int // number of the service's connection within the case, from 1
	Head     string
	Method   string
	Target   string
	Proto    string
	Fields   Fields
	Body     string
	Trailer  Fields
	Complete bool
	Err      string // why it is no strict HTTP, or why its body is incomplete
}

// Resp is an answer as the client saw it.
type Resp struct {
	Head     string
	Proto    string
	Status   int
	Reason   string
	Fields   Fields
	Body     string
	Trailer  Fields
	Framing  string // none, length, chunked, close
	Complete bool
	Err      error  // why the body is incomplete
	Interim  []Resp // 1xx before it
}

var (
	requestLine = regexp.MustCompile(`^([!#$%&'*+\-.^_\x60|~0-9A-Za-z]+) (\S+) (HTTP/\d\.\d)$`)
	statusLine  = regexp.MustCompile(`^(HTTP/1\.[01]) (\d{3})(?: ([^\r\n\x00]*))?$`)
	fieldLine   = regexp.MustCompile(`^([!#$%&'*+\-.^_\x60|~0-9A-Za-z]+):[ \t]*([^\r\n\x00]*?)[ \t]*$`)
	digits      = regexp.MustCompile(`^[0-9]+$`)
	hexDigits   = regexp.MustCompile(`^[0-9A-Fa-f]{1,16}$`)
)

// readHeadBytes reads up to an empty line, with any kind of line ends.
func readHeadBytes(r *bufio.Reader) (string, error) {
	var b strings.Builder
	for {
		line, err := r.ReadString('\n')
		b.WriteString(line)
		if err != nil {
			return b.String(), err
		}
		if (line == "\r\n" || line == "\n") && strings.TrimSpace(b.String()) != "" {
			return b.String(), nil
		}
		if b.Len() > 4<<20 {
			return b.String(), errors.New("endless head")
		}
	}
}

// parseFields is strict: CRLF, tokens, no folding.
func parseFields(lines []string) (Fields, error) {
	var out Fields
	for _, l := range lines {
		if strings.ContainsAny(l, "\r\n\x00") {
			return out, fmt.Errorf("line %q holds a line end or NUL", l)
		}
		m := fieldLine.FindStringSubmatch(l)
		if m == nil {
			return out, fmt.Errorf("line %q is no field", clip(l))
		}
		out = append(out, Field{m[1], m[2]})
	}
	return out, nil
}

// headLines splits a strict head.
func headLines(head string) ([]string, error) {
	rest, ok := strings.CutSuffix(head, "\r\n\r\n")
	if !ok {
		return nil, errors.New("head does not end with CRLF CRLF")
	}
	return strings.Split(rest, "\r\n"), nil
}

// framing returns how long a body is: chunked, or length n; n is -1 if neither is given.
func framing(f Fields) (chunked bool, n int64, err error) {
	te, cl := f.All("Transfer-Encoding"), f.All("Content-Length")
	if len(te) > 0 && len(cl) > 0 {
		return false, 0, errors.New("Transfer-Encoding and Content-Length")
	}
	if len(te) > 0 {
		if len(te) > 1 || !strings.EqualFold(te[0], "chunked") {
			return false, 0, fmt.Errorf("Transfer-Encoding %q", te)
		}
		return true, -1, nil
	}
	if len(cl) == 0 {
		return false, -1, nil
	}
	if len(cl) > 1 || !digits.MatchString(cl[0]) {
		return false, 0, fmt.Errorf("Content-Length %q", cl)
	}
	n, err = strconv.ParseInt(cl[0], 10, 64)
	return false, n, err
}

// readChunked decodes strictly.
func readChunked(r *bufio.Reader) (body string, trailer Fields, err error) {
	var b strings.Builder
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return b.String(), nil, fmt.Errorf("chunk size: %w", io.ErrUnexpectedEOF)
		}
		size, ok := strings.CutSuffix(line, "\r\n")
		size, _, _ = strings.Cut(size, ";")
		if !ok || !hexDigits.MatchString(size) {
			return b.String(), nil, fmt.Errorf("chunk size line %q", clip(line))
		}
		n, err := strconv.ParseInt(size, 16, 64)
		if err != nil {
			return b.String(), nil, err
		}
		if n == 0 {
			break
		}
		if _, err := io.CopyN(&b, r, n); err != nil {
			return b.String(), nil, fmt.Errorf("chunk data: %w", io.ErrUnexpectedEOF)
		}
		var end [2]byte
		if _, err := io.ReadFull(r, end[:]); err != nil {
			return b.String(), nil, fmt.Errorf("chunk end: %w", io.ErrUnexpectedEOF)
		}
		if string(end[:]) != "\r\n" {
			return b.String(), nil, fmt.Errorf("chunk ends with %q", end)
		}
	}
	var lines []string
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return b.String(), nil, fmt.Errorf("trailer: %w", io.ErrUnexpectedEOF)
		}
		l, ok := strings.CutSuffix(line, "\r\n")
		if !ok {
			return b.String(), nil, fmt.Errorf("trailer line %q", clip(line))
		}
		if l == "" {
			break
		}
		lines = append(lines, l)
	}
	trailer, err = parseFields(lines)
	return b.String(), trailer, err
}

func parseRequestHead(head string) *Req {
	q := &Req{Head: head}
	bad := func(format string, args ...any) *Req {
		if q.Err == "" {
			q.Err = fmt.Sprintf(format, args...)
		}
		return q
	}
	lines, err := headLines(head)
	if err != nil {
		return bad("%v", err)
	}
	m := requestLine.FindStringSubmatch(lines[0])
	if m == nil {
		return bad("request line %q", clip(lines[0]))
	}
	q.Method, q.Target, q.Proto = m[1], m[2], m[3]
	if q.Fields, err = parseFields(lines[1:]); err != nil {
		return bad("%v", err)
	}
	if _, _, err := framing(q.Fields); err != nil {
		return bad("framing: %v", err)
	}
	if n := len(q.Fields.All("Host")); n != 1 {
		return bad("%d Host fields", n)
	}
	return q
}

// parseResponseHead is strict: what a client gets must be flawless.
func parseResponseHead(head string) (*Resp, error) {
	lines, err := headLines(head)
	if err != nil {
		return nil, fmt.Errorf("%w: %q", err, clip(head))
	}
	m := statusLine.FindStringSubmatch(lines[0])
	if m == nil {
		return nil, fmt.Errorf("status line %q", clip(lines[0]))
	}
	p := &Resp{Head: head, Proto: m[1], Reason: m[3]}
	p.Status, _ = strconv.Atoi(m[2])
	if p.Fields, err = parseFields(lines[1:]); err != nil {
		return nil, err
	}
	if _, _, err := framing(p.Fields); err != nil {
		return nil, fmt.Errorf("answer: %w", err)
	}
	return p, nil
}

func clip(s string) string {
	if len(s) > 200 {
		return s[:150] + "…" + s[len(s)-40:]
	}
	return s
}

// launcher starts a proxy in front of one service and returns the address on which it listens.
type launcher func(t *testing.T, serviceURL string) (addr string, stop func())

var ports = servertest.NewPorts(31900, 800) // those before are for package e2e

// awaitListener waits until somebody listens.
func awaitListener(t *testing.T, addr string, died <-chan struct{}, out fmt.Stringer) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			return
		}
		select {
		case <-died:
			t.Fatalf("the proxy ended: %s", out)
		default:
		}
	}
	t.Fatalf("nobody listens at %s: %s", addr, out)
}

// run starts a process and returns how to stop it.
func run(t *testing.T, addr string, name string, args ...string) (stop func()) {
	t.Helper()
	out := &servertest.Log{}
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	died := make(chan struct{})
	go func() { _ = cmd.Wait(); close(died) }()
	var once sync.Once
	stop = func() { once.Do(func() { end(t, cmd, died, out) }) }
	t.Cleanup(stop)
	awaitListener(t, addr, died, out)
	return stop
}

func end(t *testing.T, cmd *exec.Cmd, died <-chan struct{}, out fmt.Stringer) {
	t.Helper()
	_ = cmd.Process.Signal(os.Interrupt)
	select {
	case <-died:
	case <-time.After(patience):
		_ = cmd.Process.Kill()
		<-died
	}
	if s := out.String(); strings.Contains(s, "panic") || strings.Contains(s, "DATA RACE") {
		t.Errorf("the proxy complained: %s", clip(s))
	}
}

// gateway starts the product's binary as an operator without a configuration file would.
func gateway(bin string) launcher {
	return func(t *testing.T, serviceURL string) (string, func()) {
		addr := ports.Addr(t)
		return addr, run(t, addr, bin, "serve", "--listen", addr, "--admin", ports.Addr(t), "--upstream", serviceURL, "--data-dir", t.TempDir())
	}
}

const nginxConf = `
daemon off; worker_processes 1; pid %[1]s/nginx.pid; error_log %[1]s/error.log; %[4]s
events { worker_connections 2048; }
http {
	access_log off; server_tokens off; default_type ""; types {}
	client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
	large_client_header_buffers 8 64k; client_max_body_size 0; client_header_timeout 3s; lingering_timeout 1s;
	merge_slashes off; underscores_in_headers on; keepalive_timeout 60s;
	map $http_upgrade $up { default ""; ~*^websocket$ websocket; }
	map $up $conn { default ""; websocket upgrade; }
	upstream service { server %[3]s max_fails=0; keepalive 64; }
	server {
		listen %[2]s;
		location / {
			proxy_pass http://service;
			proxy_http_version 1.1; proxy_request_buffering off; proxy_buffering off; proxy_buffer_size 128k; proxy_buffers 8 128k;
			proxy_read_timeout 10s;
			proxy_set_header Host $http_host; proxy_set_header Connection $conn; proxy_set_header Upgrade $up; proxy_set_header HTTP2-Settings "";
			proxy_set_header X-Forwarded-For $remote_addr; proxy_set_header X-Real-IP $remote_addr; proxy_set_header X-Forwarded-Proto $scheme;
			proxy_set_header X-Request-Id $request_id; proxy_set_header Forwarded ""; proxy_set_header X-Forwarded-Host ""; proxy_set_header X-Forwarded-Port "";
			proxy_set_header X-Original-URI ""; proxy_set_header X-Original-URL ""; proxy_set_header X-Rewrite-URL ""; proxy_set_header X-Accel-Redirect ""; proxy_set_header X-Client-IP "";
			proxy_set_header X-Forwarded-Server ""; proxy_set_header X-Forwarded-Prefix ""; proxy_set_header X-Forwarded-Ssl ""; proxy_set_header X-Antirobot-Verdict "";
			proxy_set_header Proxy-Connection ""; proxy_set_header Keep-Alive ""; proxy_set_header TE "";
			proxy_pass_header Server; proxy_pass_header Date;
		}
	}
}
`

// nginx starts nginx as a careful operator would configure it.
func nginx(bin string) launcher {
	return func(t *testing.T, serviceURL string) (string, func()) {
		return startNginx(t, bin, nginxConf, serviceURL)
	}
}

// startNginx starts nginx with a configuration such as nginxConf.
func startNginx(t *testing.T, bin, text, serviceURL string) (addr string, stop func()) {
	t.Helper()
	dir, addr := t.TempDir(), ports.Addr(t)
	user := ""
	if os.Getuid() == 0 {
		user = "user root;"
	}
	conf := filepath.Join(dir, "nginx.conf")
	text = fmt.Sprintf(text, dir, addr, strings.TrimPrefix(serviceURL, "http://"), user)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return addr, run(t, addr, bin, "-c", conf, "-p", dir)
}

// inProcess starts the gateway's own transport with a handler that forwards everything.
func inProcess(t *testing.T, serviceURL string) (string, func()) {
	ucfg := upstream.DefaultConfig()
	ucfg.URLs = []string{serviceURL}
	set := metrics.NewSet()
	g, err := upstream.New(ucfg, upstream.Deps{Log: zerolog.Nop(), Metrics: set})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	cfg := h1.DefaultConfig()
	log := &servertest.Log{}
	srv, err := h1.NewServer(cfg, h1.Deps{Handler: &forwarder{g: g}, Log: zerolog.New(log).Level(zerolog.WarnLevel), Metrics: set})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l, h1.ListenerOptions{}) }()
	return l.Addr().String(), func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = srv.Shutdown(ctx)
		if err := <-ended; !errors.Is(err, h1.ErrServerClosed) {
			t.Error(err)
		}
		_ = g.Close()
		if s := log.String(); strings.Contains(s, "panic") {
			t.Errorf("panics were logged: %s", clip(s))
		}
	}
}

// forwarder is the minimum that a gateway does.
type forwarder struct {
	g    *upstream.Group
	last atomic.Uint64
}

func (f *forwarder) ServeExchange(x *h1.Exchange) {
	peer := x.View.Peer.AppendTo(nil)
	_, err := x.Forward(f.g, &h1.ForwardOptions{
		SetFields: []request.Field{
			{Name: []byte("X-Forwarded-For"), Value: peer},
			{Name: []byte("X-Real-IP"), Value: peer},
			{Name: []byte("X-Forwarded-Proto"), Value: []byte("http")},
			{Name: []byte("X-Request-Id"), Value: strconv.AppendUint(nil, f.last.Add(1), 16)},
		},
		Drop: func(name []byte) bool {
			n := strings.ReplaceAll(strings.ToLower(string(name)), "_", "-")
			for _, p := range []string{"x-forwarded-", "forwarded", "x-antirobot-", "x-accel-", "x-original-", "x-rewrite-", "x-client-ip"} {
				if strings.HasPrefix(n, p) {
					return true
				}
			}
			return false
		},
	})
	if status := h1.Status(err); err != nil && status != 0 && !x.Answered() {
		_ = x.Reply(status, nil, nil)
	}
}

// Script is what the service does with one request; it starts when the first byte of a request has arrived.
type Script func(s *Svc)

// service is the raw TCP server behind the proxy.
type service struct {
	ln   net.Listener
	done sync.WaitGroup

	mu     sync.Mutex
	cur    *X
	conns  map[*Svc]bool // whether a script runs on it
	closed bool
}

// Svc is one connection that the proxy made. Its methods end the script when the connection fails.
type Svc struct {
	net.Conn
	R   *bufio.Reader
	svc *service
	X   *X // the case that the current request belongs to
	Num int
	Req *Req
	N   int // number of the request within the case, from 1
}

type scriptEnd struct{}

func newService() (*service, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return serviceOn(ln), nil
}

func serviceOn(ln net.Listener) *service {
	v := &service{ln: ln, conns: map[*Svc]bool{}}
	v.done.Go(v.accept)
	return v
}

func (v *service) url() string { return "http://" + v.ln.Addr().String() }

func (v *service) accept() {
	for {
		c, err := v.ln.Accept()
		if err != nil {
			return
		}
		s := &Svc{Conn: c, svc: v}
		s.R = bufio.NewReaderSize(c, 64<<10)
		v.mu.Lock()
		if v.closed {
			c.Close()
		}
		v.conns[s] = false
		v.mu.Unlock()
		v.done.Go(func() { v.serve(s) })
	}
}

// begin makes x the case to which requests belong from now on.
func (v *service) begin(x *X) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.cur = x
}

// end closes what a case has left unfinished. Unused connections stay open for the next case.
func (v *service) end() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.cur = nil
	for s, busy := range v.conns {
		if busy {
			s.Conn.Close()
		}
	}
}

func (v *service) stop() {
	v.ln.Close()
	v.mu.Lock()
	v.closed = true
	for s := range v.conns {
		s.Conn.Close()
	}
	v.mu.Unlock()
	v.done.Wait()
}

func (v *service) serve(s *Svc) {
	defer func() {
		s.Conn.Close()
		v.mu.Lock()
		delete(v.conns, s)
		v.mu.Unlock()
	}()
	for {
		if _, err := s.R.Peek(1); err != nil {
			return
		}
		v.mu.Lock()
		x := v.cur
		v.conns[s] = x != nil
		v.mu.Unlock()
		if x == nil {
			return
		}
		if s.X != x {
			s.X, s.Num = x, x.nextConn()
		}
		s.Req, s.N = nil, x.nextRequest()
		if !s.run(x.script(s.N)) {
			return
		}
		v.mu.Lock()
		v.conns[s] = false
		gone := v.cur != x
		v.mu.Unlock()
		if gone {
			return
		}
	}
}

func (s *Svc) run(f Script) (goOn bool) {
	defer func() {
		if e := recover(); e != nil {
			if _, ok := e.(scriptEnd); !ok {
				panic(e)
			}
			goOn = false
		}
	}()
	f(s)
	return true
}

// End closes the connection and ends the script.
func (s *Svc) End() {
	s.Conn.Close()
	panic(scriptEnd{})
}

// Reset closes the connection with RST and ends the script.
func (s *Svc) Reset() {
	_ = s.Conn.(*net.TCPConn).SetLinger(0)
	s.End()
}

// Head reads a request's head and notes it.
func (s *Svc) Head() *Req {
	s.SetReadDeadline(time.Now().Add(patience))
	head, err := readHeadBytes(s.R)
	q := parseRequestHead(head)
	if err != nil && q.Err == "" {
		q.Err = err.Error()
	}
	q.Conn = s.Num
	s.Req = q
	s.X.note(q)
	if err != nil || q.Err != "" {
		s.End()
	}
	return q
}

// Body reads the rest of the request.
func (s *Svc) Body() string {
	q := s.Req
	chunked, n, _ := framing(q.Fields)
	var body string
	var trailer Fields
	var err error
	s.SetReadDeadline(time.Now().Add(patience))
	switch {
	case chunked:
		body, trailer, err = readChunked(s.R)
	case n > 0:
		var b strings.Builder
		_, err = io.CopyN(&b, s.R, n)
		body = b.String()
	}
	s.X.finish(q, body, trailer, err)
	if err != nil {
		s.End()
	}
	return body
}

// Request reads a whole request.
func (s *Svc) Request() *Req {
	s.Head()
	s.Body()
	return s.Req
}

// Send writes bytes as they are.
func (s *Svc) Send(parts ...string) {
	s.SetWriteDeadline(time.Now().Add(patience))
	for _, p := range parts {
		if _, err := io.WriteString(s.Conn, p); err != nil {
			s.End()
		}
	}
}

// ReadN reads exactly n raw bytes.
func (s *Svc) ReadN(n int) string {
	b := make([]byte, n)
	s.SetReadDeadline(time.Now().Add(patience))
	n, err := io.ReadFull(s.R, b)
	if err != nil {
		s.X.Errorf("service: wanted more bytes than %q: %v", clip(string(b[:n])), err)
		s.End()
	}
	return string(b)
}

// Gone waits until the proxy has closed the connection, ignoring anything that still arrives.
func (s *Svc) Gone(within time.Duration) bool {
	s.SetReadDeadline(time.Now().Add(within))
	_, err := io.Copy(io.Discard, s.R)
	var ne net.Error
	return err == nil || !errors.As(err, &ne) || !ne.Timeout()
}

// Answer reads the request and sends a.
func Answer(a string) Script {
	return func(s *Svc) {
		s.Request()
		s.Send(a)
	}
}

// AnswerAndEnd reads the request, sends a and closes.
func AnswerAndEnd(a string) Script {
	return func(s *Svc) {
		s.Request()
		s.Send(a)
		s.End()
	}
}

// ok is the service's answer unless a case says otherwise: it names the target, so that answers can't be mixed up.
func ok(s *Svc) {
	q := s.Request()
	s.Send(response("200 OK", "for "+q.Target))
}

// response builds an answer with Content-Length.
func response(status, body string, fields ...string) string {
	return head(status, append(fields, "Content-Length: "+itoa(len(body)))...) + body
}

// head builds an answer's head.
func head(status string, fields ...string) string {
	return "HTTP/1.1 " + status + "\r\n" + lines(fields) + "\r\n"
}

func lines(fields []string) string {
	var b strings.Builder
	for _, f := range fields {
		b.WriteString(f + "\r\n")
	}
	return b.String()
}

// streams is one raw connection to the proxy that speaks HTTP/2.
type streams struct {
	net.Conn
	*http2.Framer
	x       *X
	enc     *hpack.Encoder
	block   bytes.Buffer
	next    uint32
	answers map[uint32]*streamed
	stingy  bool            // gives no window back
	gone    bool            // the connection has ended
	code    http2.ErrCode   // of GOAWAY
	away    bool            // GOAWAY has come
	pongs   int             // answers to PING
	says    []http2.Setting // what the proxy has announced
}

// streamed is an answer as it came over one stream.
type streamed struct {
	Status  int
	Interim []int
	Fields  Fields
	Body    strings.Builder
	Trailer Fields
	Ended   bool // by END_STREAM
	Reset   bool
	Code    http2.ErrCode
}

// Whole reports whether the answer has come to its proper end.
func (a *streamed) Whole() bool { return a.Ended && a.Status >= 200 }

// dialHTTP2 opens a connection and says hello.
func (x *X) dialHTTP2(settings ...http2.Setting) *streams {
	nc, err := net.Dial("tcp", x.env.addr)
	if err != nil {
		x.Fatalf("dial: %v", err)
	}
	c := &streams{Conn: nc, Framer: http2.NewFramer(nc, nc), x: x, next: 1, answers: map[uint32]*streamed{}}
	c.enc = hpack.NewEncoder(&c.block)
	c.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.AllowIllegalWrites = true
	x.mu.Lock()
	x.streams = append(x.streams, c)
	x.mu.Unlock()
	_ = nc.SetDeadline(time.Now().Add(patience))
	_, _ = io.WriteString(nc, http2.ClientPreface)
	_ = c.WriteSettings(settings...)
	return c
}

// encode makes a header block of names and values in turn.
func (c *streams) encode(fields ...string) []byte {
	c.block.Reset()
	for i := 0; i < len(fields); i += 2 {
		_ = c.enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return bytes.Clone(c.block.Bytes())
}

// fields are those of a request to the service of this environment, and more.
func (c *streams) fields(method, path string, more ...string) []string {
	fields := append([]string{":method", method, ":scheme", "http", ":authority", c.x.env.host, ":path", path}, more...)
	if c.x.named != "" {
		fields = append(fields, strings.ToLower(fieldCase), c.x.named)
	}
	return fields
}

// begin opens a stream with the next number.
func (c *streams) begin() uint32 {
	id := c.next
	c.next += 2
	c.answers[id] = new(streamed)
	return id
}

// open sends the head of a request, whose fields are names and values in turn.
func (c *streams) open(end bool, fields ...string) uint32 {
	id := c.begin()
	_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.encode(fields...), EndStream: end, EndHeaders: true})
	return id
}

// get sends a GET and returns the answer.
func (c *streams) get(path string, more ...string) *streamed {
	return c.await(c.open(true, c.fields("GET", path, more...)...))
}

// await reads until the stream has ended, one way or another.
func (c *streams) await(id uint32) *streamed {
	a := c.answers[id]
	c.until(func() bool { return a.Ended || a.Reset })
	return a
}

// until reads frames until done, or until the connection has ended.
func (c *streams) until(done func() bool) {
	_ = c.SetReadDeadline(time.Now().Add(c.x.within()))
	for !c.gone && !done() {
		f, err := c.ReadFrame()
		if ne, ok := err.(net.Error); ok && ne.Timeout() {
			c.x.Fatalf("nothing more comes within %v; streams: %s", c.x.within(), c.describe())
		}
		if err != nil {
			c.gone = true
			return
		}
		c.take(f)
	}
}

func (c *streams) describe() string {
	s := ""
	for id, a := range c.answers {
		s += strconv.Itoa(int(id)) + ": " + strconv.Itoa(a.Status) + " " + clip(a.Body.String()) + "; "
	}
	return s
}

// take notes what a frame brings.
func (c *streams) take(f http2.Frame) {
	a := c.answers[f.Header().StreamID]
	switch f := f.(type) {
	case *http2.SettingsFrame:
		if !f.IsAck() {
			c.says = append(c.says, settingsOf(f)...)
			_ = c.WriteSettingsAck()
		}
	case *http2.PingFrame:
		if f.IsAck() {
			c.pongs++
		} else {
			_ = c.WritePing(true, f.Data)
		}
	case *http2.GoAwayFrame:
		c.away, c.code = true, f.ErrCode
	case *http2.RSTStreamFrame:
		if a != nil {
			a.Reset, a.Code = true, f.ErrCode
		}
	case *http2.MetaHeadersFrame:
		c.takeHead(a, f)
	case *http2.DataFrame:
		if a == nil {
			c.x.Errorf("data of a stream that nobody opened")
			return
		}
		a.Body.Write(f.Data())
		a.Ended = f.StreamEnded()
		if n := f.Length; n > 0 && !c.stingy {
			_ = c.WriteWindowUpdate(0, n)
			_ = c.WriteWindowUpdate(f.StreamID, n)
		}
	}
}

func settingsOf(f *http2.SettingsFrame) (all []http2.Setting) {
	_ = f.ForeachSetting(func(s http2.Setting) error {
		all = append(all, s)
		return nil
	})
	return all
}

// takeHead notes a head or trailers, which must be fit for HTTP/2.
func (c *streams) takeHead(a *streamed, f *http2.MetaHeadersFrame) {
	if a == nil {
		c.x.Errorf("a head of a stream that nobody opened")
		return
	}
	var fields Fields
	for _, h := range f.RegularFields() {
		fields = append(fields, Field{h.Name, h.Value})
	}
	for _, name := range []string{"connection", "transfer-encoding", "keep-alive", "upgrade", "proxy-connection"} {
		if fields.Has(name) {
			c.x.Errorf("%s reached the client: %q", name, fields.All(name))
		}
	}
	a.Ended = f.StreamEnded()
	status, _ := strconv.Atoi(f.PseudoValue("status"))
	switch {
	case status == 0:
		a.Trailer = fields
	case status < 200:
		a.Interim = append(a.Interim, status)
	default:
		a.Status, a.Fields = status, fields
	}
}

// mustLive expects the connection to serve another request.
func (c *streams) mustLive() {
	if a := c.get("/still-alive"); !a.Whole() || a.Status != 200 || a.Body.String() != "for GET /still-alive" {
		c.x.Errorf("the next request of the connection: status %d %q, reset %v with %v, GOAWAY %v with %v, gone %v", a.Status,
			clip(a.Body.String()), a.Reset, a.Code, c.away, c.code, c.gone)
	}
}
