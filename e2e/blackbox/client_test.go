package blackbox

import (
	"bufio"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
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
