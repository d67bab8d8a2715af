package h1

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"testing"
	"testing/iotest"

	"antirobot/proxy/h1/wire"
	"antirobot/request"
	"github.com/valyala/fasthttp"
)

// plainSource is a source without deadlines.
type plainSource struct{ r *bufio.Reader }

func (s plainSource) Fill() error {
	_, err := s.r.Peek(1)
	return err
}

func (s plainSource) Read(p []byte) (int, error) { return s.r.Read(p) }

var testRules = wire.LineRules{Max: 64 << 10}

// FuzzRequestHead: whatever is accepted is forwarded so that two other parsers understand the same request, and how the
// bytes are split into segments makes no difference.
func FuzzRequestHead(f *testing.F) {
	for _, s := range []string{
		aGet, wsAsk,
		"POST /x?y HTTP/1.1\r\nHost: a:80\r\nContent-Length: 5\r\n\r\nhello",
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTE: trailers\r\n\r\n0\r\n\r\n",
		"GET http://a/b HTTP/1.1\r\nHost: a\r\nConnection: close, X\r\nX: y\r\n\r\n",
		"OPTIONS * HTTP/1.0\r\nConnection: keep-alive\r\nMax-Forwards: 3\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: [::1]\r\nCookie: a=b; c=d\r\nContent_Length: 5\r\n\r\n",
		"GET / HTTP/1.1\nHost: a\n\n", "GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var whole, cut conn
		parse := func(c *conn, r io.Reader) error {
			br := bufio.NewReader(r)
			var err error
			if c.h.Raw, err = wire.ReadHead(br, plainSource{br}, nil, testRules); err != nil {
				return err
			}
			return c.h.ParseRequest(16<<10, 100)
		}
		err := parse(&whole, bytes.NewReader(in))
		if err2 := parse(&cut, iotest.OneByteReader(bytes.NewReader(in))); (err == nil) != (err2 == nil) {
			t.Fatalf("whole: %v, in pieces: %v", err, err2)
		}
		if err != nil {
			return
		}
		h := &whole.h
		x := &Exchange{h: h}
		sent := x.appendRequest(nil, &ForwardOptions{}, "127.0.0.1:80", true)
		body := []byte("0\r\n\r\nrest")
		if !h.Chunked {
			body = append(bytes.Repeat([]byte("b"), int(min(max(h.Length, 0), 1000))), "rest"...)
		}
		all := append(append([]byte(nil), sent...), body...)

		br := bufio.NewReader(bytes.NewReader(all))
		if req, err := http.ReadRequest(br); err == nil {
			if req.Method != string(h.Method) || req.RequestURI != string(h.Target) {
				t.Errorf("net/http reads %s %s, we %s %s", req.Method, req.RequestURI, h.Method, h.Target)
			}
			if chunked := len(req.TransferEncoding) == 1; chunked != h.Chunked || !chunked &&
				req.ContentLength != max(h.Length, 0) {
				t.Errorf("net/http reads another body: %v %d", req.TransferEncoding, req.ContentLength)
			}
			if h.Host != nil && req.Host != string(h.Host) {
				t.Errorf("net/http reads host %q, we %q", req.Host, h.Host)
			}
		}
		var fh fasthttp.RequestHeader
		fh.DisableNormalizing()
		if err := fh.Read(bufio.NewReaderSize(bytes.NewReader(all), 128<<10)); err == nil {
			if string(fh.Method()) != string(h.Method) || string(fh.RequestURI()) != string(h.Target) {
				t.Errorf("fasthttp reads %s %s, we %s %s", fh.Method(), fh.RequestURI(), h.Method, h.Target)
			}
			if h.Host != nil && string(fh.Host()) != string(h.Host) {
				t.Errorf("fasthttp reads host %q, we %q", fh.Host(), h.Host)
			}
			if h.Length >= 0 && fh.ContentLength() != int(h.Length) && string(h.Method) != "GET" &&
				string(h.Method) != "HEAD" {
				t.Errorf("fasthttp reads length %d, we %d", fh.ContentLength(), h.Length)
			}
		}
	})
}

// FuzzResponseHead: what is passed on reads the same for net/http.
func FuzzResponseHead(f *testing.F) {
	for _, s := range []string{
		okAnswer, "HTTP/1.0 200\nX : y\n\n", "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", wsYes,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\nConnection: X, close\r\nX: y\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		br := bufio.NewReader(bytes.NewReader(in))
		var h wire.Head
		if err := h.ReadResponse(br, plainSource{br}, 64<<10, 100); err != nil {
			return
		}
		c := &conn{}
		c.h.Method, c.h.Minor = []byte("GET"), 1
		x := &Exchange{h: &c.h, method: c.h.Method}
		fr := x.frame(&h)
		sent := append(x.appendAnswer(nil, &h, &ForwardOptions{}, fr), "\r\n"...)
		if bytes.Count(sent, []byte("\r\n\r\n")) != 1 ||
			bytes.Count(sent, []byte("\n")) != bytes.Count(sent, []byte("\r\n")) {
			t.Fatalf("passed on as %q", sent)
		}
		resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(sent)), &http.Request{Method: "GET"})
		if err != nil {
			if h.Status >= 600 || h.Status < 200 {
				return
			}
			t.Fatalf("net/http: %v for %q", err, sent)
		}
		if resp.StatusCode != h.Status {
			t.Errorf("net/http reads %d, we %d", resp.StatusCode, h.Status)
		}
		if fr == byLength && resp.ContentLength != h.Length || fr == byChunks && len(resp.TransferEncoding) != 1 {
			t.Errorf("net/http reads another body: %v %d", resp.TransferEncoding, resp.ContentLength)
		}
	})
}

// FuzzStreamedHead: an accepted head that came as separate fields reads the same after being written as HTTP/1.1.
func FuzzStreamedHead(f *testing.F) {
	f.Add("GET", "/a?b", "host", "a.test", "x", "y", int64(0))
	f.Add("POST", "/", "host", "a:1", "content-length", "5", int64(5))
	f.Add("PUT", "*", "host", "[::1]", "te", "trailers", int64(-1))
	f.Add("GET", "/ HTTP/1.1\r\nX: y", "host", "a", "transfer-encoding", "chunked", int64(0))
	f.Fuzz(func(t *testing.T, method, target, name1, value1, name2, value2 string, length int64) {
		r := Head{Method: []byte(method), Target: []byte(target), Length: max(length, -1), Fields: []request.Field{
			{Name: []byte(name1), Value: []byte(value1)}, {Name: []byte(name2), Value: []byte(value2)},
		}}
		cfg := DefaultConfig()
		var h wire.Head
		if fromFields(&h, &r, &cfg) != nil || frame(&h, &r) != nil {
			return
		}
		x := &Exchange{h: &h}
		sent := x.appendRequest(nil, &ForwardOptions{}, "127.0.0.1:80", true)
		var again wire.Head
		br := bufio.NewReader(bytes.NewReader(append(sent, "rest"...)))
		var err error
		if again.Raw, err = wire.ReadHead(br, plainSource{br}, nil, wire.LineRules{Max: 1 << 20}); err == nil {
			err = again.ParseRequest(1<<20, 100)
		}
		if err != nil {
			t.Fatalf("%v for what was written: %q", err, sent)
		}
		if rest, _ := io.ReadAll(br); string(rest) != "rest" {
			t.Fatalf("the head ends elsewhere: %q", sent)
		}
		if string(again.Method) != method || string(again.Target) != target || again.Chunked != h.Chunked ||
			max(again.Length, 0) != max(h.Length, 0) {
			t.Errorf("%q reads as %q", sent, again.Raw)
		}
	})
}
