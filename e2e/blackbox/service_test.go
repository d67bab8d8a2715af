package blackbox

import (
	"bufio"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"time"
)

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
