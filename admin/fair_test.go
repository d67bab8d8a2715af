package admin

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/VictoriaMetrics/metrics"
)

// queued is a listener whose connections come from addresses of the test's.
type queued struct {
	net.Listener
	from []string
}

type fromConn struct {
	net.Conn
	from net.Addr
}

func (c fromConn) RemoteAddr() net.Addr { return c.from }

func (q *queued) Accept() (net.Conn, error) {
	if len(q.from) == 0 {
		return nil, errors.New("no more")
	}
	a, err := net.ResolveTCPAddr("tcp", q.from[0])
	if err != nil {
		return nil, err
	}
	q.from = q.from[1:]
	c, other := net.Pipe()
	_ = other.Close()
	return fromConn{c, a}, nil
}

// TestNobodyHasAllConnections: an address, or a /64, has a quarter of the connections of the private listener, this machine as many as there
// are, and what is closed is given back, once.
func TestNobodyHasAllConnections(t *testing.T) {
	refused := metrics.NewSet().NewCounter("refused")
	q := &queued{}
	f := newFair(q, 16, refused)
	accept := func(want int, from ...string) (open []net.Conn) {
		t.Helper()
		q.from = from
		for {
			c, err := f.Accept()
			if err != nil {
				break
			}
			open = append(open, c)
		}
		if len(open) != want {
			t.Errorf("%d of %d connections of %s, wanted %d", len(open), len(from), from[0], want)
		}
		return open
	}
	many := func(pattern string) (all []string) {
		for n := range 10 {
			all = append(all, strings.Replace(pattern, "N", fmt.Sprint(n+1), 1))
		}
		return all
	}
	first := accept(4, many("192.0.2.7:100N")...)
	accept(4, many("192.0.2.8:100N")...)
	accept(4, many("[2001:db8::N]:1000")...)
	accept(1, "[2001:db8:0:1::1]:1000")
	accept(10, many("127.0.0.1:100N")...)
	accept(10, many("[::1]:100N")...)
	if n := refused.Get(); n != 18 {
		t.Errorf("%d were refused, wanted 18", n)
	}
	for range 2 {
		_ = first[0].Close()
	}
	accept(1, many("[::ffff:192.0.2.7]:200N")...)
}

// TestStrangersBodiesAreShort: no room is made for the long body of a request without a token, however much of it comes; it is answered by
// its head.
func TestStrangersBodiesAreShort(t *testing.T) {
	l := start(t, DefaultConfig(), Deps{})
	l.srv.Mount(consolePage{})
	ask := func(want int, path, field string, length int) {
		t.Helper()
		conn, err := net.Dial("tcp", l.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		body := ""
		if want == 0 { // goes on to the handler
			body = strings.Repeat(" ", length)
		}
		_, _ = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s", path, field, length, body)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if want == 0 && (resp.StatusCode == 401 || resp.StatusCode == 413) || want != 0 && resp.StatusCode != want {
			t.Errorf("%d bytes to %s with %q: %d, wanted %d", length, path, field, resp.StatusCode, want)
		}
	}
	const token, signed = "Authorization: Bearer " + testToken + "\r\n", "Cookie: signed=in\r\n"
	ask(401, "/api/bans", "", unknownBody+1)
	ask(401, "/api/bans?x=/api/json", "Authorization: Bearer wrong\r\n", unknownBody+1)
	ask(401, "/console/signin", "", unknownBody+1)
	ask(401, "/console/signin", token, unknownBody+1)
	ask(401, "/api/bans", signed, unknownBody+1)
	ask(401, "/api/json", "", unknownBody+1) // no message firewall is there
	ask(401, "/nothing", "", unknownBody+1)
	ask(413, "/api/bans", token, maxBody+1)
	ask(413, "/console/messages", signed, maxBody+1)
	ask(0, "/api/bans", token, maxBody)
	ask(0, "/console/messages", signed, maxBody)
	ask(0, "/console/signin", "", unknownBody)
}
