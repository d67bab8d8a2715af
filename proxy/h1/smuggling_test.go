package h1

import (
	"strings"
	"testing"
	"time"
)

// TestAmbiguousRequestsAreRefused is pitfall 9: each request is answered at once with an error and a closed connection,
// and the service sees nothing of it.
func TestAmbiguousRequestsAreRefused(t *testing.T) {
	s := answering(t, okAnswer)
	g := newGateway(t, s, setup{})
	const get = "GET / HTTP/1.1\r\nHost: a\r\n"
	const post = "POST / HTTP/1.1\r\nHost: a\r\n"
	for _, c := range []struct {
		name, raw, status string
	}{
		{"CL and TE", post + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"},
		{"TE and CL", post + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n", "400"},
		{"two CL", post + "Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcd", "400"},
		{"two equal CL", post + "Content-Length: 4\r\nContent-Length: 4\r\n\r\nabcd", "400"},
		{"CL list", post + "Content-Length: 4, 4\r\n\r\nabcd", "400"},
		{"CL plus", post + "Content-Length: +4\r\n\r\nabcd", "400"},
		{"CL minus", post + "Content-Length: -1\r\n\r\n", "400"},
		{"CL hex", post + "Content-Length: 0x4\r\n\r\nabcd", "400"},
		{"CL empty", post + "Content-Length:\r\n\r\n", "400"},
		{"CL inner space", post + "Content-Length: 1 0\r\n\r\n", "400"},
		{"CL overflow", post + "Content-Length: 18446744073709551620\r\n\r\n", "400"},
		{"CL overflow 2^63", post + "Content-Length: 9223372036854775808\r\n\r\n", "400"},
		{"CL float", post + "Content-Length: 4.0\r\n\r\nabcd", "400"},
		{"CL underscore digits", post + "Content-Length: 1_0\r\n\r\n", "400"},
		{"TE twice", post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"},
		{"TE and identity", post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n", "400"},
		{"TE list with identity", post + "Transfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n", "400"},
		{"TE chunked chunked", post + "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", "400"},
		{"TE not last", post + "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n", "400"},
		{"TE gzip chunked", post + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "501"},
		{"TE unknown", post + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", "501"},
		{"TE identity", post + "Transfer-Encoding: identity\r\n\r\n", "400"},
		{"TE empty", post + "Transfer-Encoding:\r\n\r\n0\r\n\r\n", "400"},
		{"TE leading comma", post + "Transfer-Encoding: ,chunked\r\n\r\n0\r\n\r\n", "400"},
		{"TE trailing comma", post + "Transfer-Encoding: chunked,\r\n\r\n0\r\n\r\n", "400"},
		{"TE parameter", post + "Transfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n", "400"},
		{"TE quoted", post + "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n", "400"},
		{"TE vertical tab", post + "Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n", "400"},
		{"TE space in name", post + "Transfer Encoding: chunked\r\n\r\n0\r\n\r\n", "400"},
		{"TE space before colon", post + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", "400"},
		{"TE tab before colon", post + "Transfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n", "400"},
		{"TE folded", post + "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", "400"},
		{"TE after a bare LF", post + "X: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"},
		{"TE after a bare CR", post + "X: y\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"},
		{"TE on 1.0", "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"},
		{"obs-fold", get + "X: a\r\n b\r\n\r\n", "400"},
		{"obs-fold of the first field", "GET / HTTP/1.1\r\n Host: a\r\n\r\n", "400"},
		{"bare LF lines", "GET / HTTP/1.1\nHost: a\n\n", "400"},
		{"bare LF at the end", get + "\n", "400"},
		{"CR CR LF", "GET / HTTP/1.1\r\r\nHost: a\r\n\r\n", "400"},
		{"CR before the empty line", get + "\r\r\n", "400"},
		{"NUL in value", get + "X: a\x00b\r\n\r\n", "400"},
		{"NUL in name", get + "X\x00: a\r\n\r\n", "400"},
		{"DEL in value", get + "X: a\x7fb\r\n\r\n", "400"},
		{"control in value", get + "X: a\x01b\r\n\r\n", "400"},
		{"empty name", get + ": a\r\n\r\n", "400"},
		{"no colon", get + "Xa\r\n\r\n", "400"},
		{"name with bracket", get + "X[a]: b\r\n\r\n", "400"},
		{"name not ASCII", get + "X\xe9: b\r\n\r\n", "400"},
		{"two Hosts", get + "Host: b\r\n\r\n", "400"},
		{"two equal Hosts", get + "Host: a\r\n\r\n", "400"},
		{"no Host", "GET / HTTP/1.1\r\n\r\n", "400"},
		{"empty Host", "GET / HTTP/1.1\r\nHost:\r\n\r\n", "400"},
		{"Host with space", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", "400"},
		{"Host with comma", "GET / HTTP/1.1\r\nHost: a,b\r\n\r\n", "400"},
		{"Host with userinfo", "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", "400"},
		{"Host with path", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", "400"},
		{"Host with query", "GET / HTTP/1.1\r\nHost: a?b\r\n\r\n", "400"},
		{"Host with hash", "GET / HTTP/1.1\r\nHost: a#b\r\n\r\n", "400"},
		{"Host with backslash", "GET / HTTP/1.1\r\nHost: a\\b\r\n\r\n", "400"},
		{"Host not ASCII", "GET / HTTP/1.1\r\nHost: \xd0\xbf\r\n\r\n", "400"},
		{"Host bad port", "GET / HTTP/1.1\r\nHost: a:80a\r\n\r\n", "400"},
		{"Host big port", "GET / HTTP/1.1\r\nHost: a:99999\r\n\r\n", "400"},
		{"Host two ports", "GET / HTTP/1.1\r\nHost: a:80:80\r\n\r\n", "400"},
		{"Host only port", "GET / HTTP/1.1\r\nHost: :80\r\n\r\n", "400"},
		{"Host open bracket", "GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", "400"},
		{"Host bad IPv6", "GET / HTTP/1.1\r\nHost: [abc]\r\n\r\n", "400"},
		{"Host a dot", "GET / HTTP/1.1\r\nHost: .\r\n\r\n", "400"},
		{"absolute-form disagrees", "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n", "400"},
		{"absolute-form other port", "GET http://a:81/ HTTP/1.1\r\nHost: a\r\n\r\n", "400"},
		{"absolute-form userinfo", "GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n", "400"},
		{"absolute-form without host", "GET http:/// HTTP/1.1\r\nHost: a\r\n\r\n", "400"},
		{"absolute-form without Host", "GET http://a/ HTTP/1.1\r\n\r\n", "400"},
		{"absolute-form other scheme", "GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n", "400"},
		{"no slash", "GET index.html HTTP/1.1\r\nHost: a\r\n\r\n", "400"},
		{"authority-form", "GET a:80 HTTP/1.1\r\nHost: a\r\n\r\n", "400"},
		{"CONNECT", "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", "405"},
		{"asterisk with GET", "GET * HTTP/1.1\r\nHost: a\r\n\r\n", "400"},
		{"fragment", "GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", "400"},
		{"space in target", "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", "400"},
		{"tab in target", "GET /a\tb HTTP/1.1\r\nHost: a\r\n\r\n", "400"},
		{"NUL in target", "GET /a\x00 HTTP/1.1\r\nHost: a\r\n\r\n", "400"},
		{"two spaces", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n", "400"},
		{"tab for space", "GET\t/\tHTTP/1.1\r\nHost: a\r\n\r\n", "400"},
		{"trailing space", "GET / HTTP/1.1 \r\nHost: a\r\n\r\n", "400"},
		{"leading space", " GET / HTTP/1.1\r\nHost: a\r\n\r\n", "400"},
		{"method not a token", "G@T / HTTP/1.1\r\nHost: a\r\n\r\n", "400"},
		{"HTTP/0.9", "GET /\r\n\r\n", "400"},
		{"HTTP/1.2", "GET / HTTP/1.2\r\nHost: a\r\n\r\n", "505"},
		{"HTTP/2.0", "GET / HTTP/2.0\r\nHost: a\r\n\r\n", "505"},
		{"HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "505"},
		{"HTTP/0.9 spelled out", "GET / HTTP/0.9\r\nHost: a\r\n\r\n", "505"},
		{"HTTP/1.10", "GET / HTTP/1.10\r\nHost: a\r\n\r\n", "400"},
		{"HTTP/01.1", "GET / HTTP/01.1\r\nHost: a\r\n\r\n", "400"},
		{"http/1.1", "GET / http/1.1\r\nHost: a\r\n\r\n", "400"},
		{"HTTPS/1.1", "GET / HTTPS/1.1\r\nHost: a\r\n\r\n", "400"},
		{"no version", "GET / \r\nHost: a\r\n\r\n", "400"},
		{"TLS hello", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "400"},
		{"unknown expectation", post + "Content-Length: 1\r\nExpect: 200-maybe\r\n\r\na", "417"},
		{"two empty lines first", "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", "400"},
		{"bare LF first", "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", "400"},
		{"Connection not a token", get + "Connection: a b\r\n\r\n", "400"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c1 := dial(t, g)
			_ = c1.SetReadDeadline(time.Now().Add(60 * time.Second))
			c1.say(c.raw)
			// What follows must not be taken for a request.
			_, _ = c1.Write([]byte("GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"))
			all, err := c1.rest()
			if isTimeout(err) {
				t.Fatal("not closed")
			}
			if !strings.HasPrefix(all, "HTTP/1.1 "+c.status+" ") || strings.Count(all, "HTTP/1.1 ") != 1 {
				t.Fatalf("want one %s, got %q", c.status, all)
			}
			if !strings.Contains(all, "\r\nConnection: close\r\n") {
				t.Errorf("no Connection: close in %q", all)
			}
		})
	}
	if seen := s.got(); seen != "" {
		t.Errorf("the service saw %q", seen)
	}
}

// TestBadChunksAreRefused is pitfall 9 for bodies: the service never sees the end of such a request.
func TestBadChunksAreRefused(t *testing.T) {
	for _, c := range []struct{ name, body string }{
		{"no size", "\r\nabc\r\n0\r\n\r\n"},
		{"not hex", "g\r\nabc\r\n0\r\n\r\n"},
		{"0x", "0x3\r\nabc\r\n0\r\n\r\n"},
		{"sign", "+3\r\nabc\r\n0\r\n\r\n"},
		{"minus", "-3\r\nabc\r\n0\r\n\r\n"},
		{"leading space", " 3\r\nabc\r\n0\r\n\r\n"},
		{"trailing space", "3 \r\nabc\r\n0\r\n\r\n"},
		{"overflow", "10000000000000003\r\nabc\r\n0\r\n\r\n"},
		{"bare LF behind size", "3\nabc\r\n0\r\n\r\n"},
		{"bare CR behind size", "3\rabc\r\n0\r\n\r\n"},
		{"bare LF behind data", "3\r\nabc\n0\r\n\r\n"},
		{"no CRLF behind data", "3\r\nabc0\r\n\r\n"},
		{"too much data", "3\r\nabcd\r\n0\r\n\r\n"},
		{"bare LF in extension", "3;a\nb\r\nabc\r\n0\r\n\r\n"},
		{"NUL in extension", "3;a\x00\r\nabc\r\n0\r\n\r\n"},
		{"CR in extension", "3;a\rb\r\nabc\r\n0\r\n\r\n"},
		{"bare LF behind last", "0\n\r\n"},
		{"bare LF as end", "0\r\n\n"},
		{"broken trailer", "0\r\nX y\r\n\r\n"},
		{"space in trailer name", "0\r\nX : y\r\n\r\n"},
		{"folded trailer", "0\r\nX: y\r\n z\r\n\r\n"},
		{"long extension", "3;" + strings.Repeat("a", 70<<10) + "\r\nabc\r\n0\r\n\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newService(t, func(c *talk) {
				if r, _ := c.request(true); r != nil {
					c.say(okAnswer)
				}
			})
			g := newGateway(t, s, setup{})
			c1 := dial(t, g)
			c1.say("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + c.body)
			_, _ = c1.Write([]byte("GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"))
			all, _ := c1.rest()
			if !strings.HasPrefix(all, "HTTP/1.1 400 ") || strings.Count(all, "HTTP/1.1 ") != 1 {
				t.Fatalf("want one 400, got %q", all)
			}
			if strings.Contains(s.got(), "0\r\n\r\n") || strings.Contains(s.got(), "smuggled") {
				t.Errorf("the service saw an end: %q", s.got())
			}
		})
	}
}
