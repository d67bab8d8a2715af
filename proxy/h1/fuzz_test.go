package h1

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httputil"
	"strings"
	"testing"
	"testing/iotest"

	"antirobot/request"
	"github.com/valyala/fasthttp"

	"pgregory.net/rapid"
)

// plainSource is a source without deadlines.
type plainSource struct{ r *bufio.Reader }

func (s plainSource) fill() error {
	_, err := s.r.Peek(1)
	return err
}

func (s plainSource) read(p []byte) (int, error) { return s.r.Read(p) }

var testRules = lineRules{max: 64 << 10}

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
			if c.h.raw, err = readHead(br, plainSource{br}, nil, testRules); err != nil {
				return err
			}
			return c.h.parseRequest(16<<10, 100)
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
		if !h.chunked {
			body = append(bytes.Repeat([]byte("b"), int(min(max(h.length, 0), 1000))), "rest"...)
		}
		all := append(append([]byte(nil), sent...), body...)

		br := bufio.NewReader(bytes.NewReader(all))
		if req, err := http.ReadRequest(br); err == nil {
			if req.Method != string(h.method) || req.RequestURI != string(h.target) {
				t.Errorf("net/http reads %s %s, we %s %s", req.Method, req.RequestURI, h.method, h.target)
			}
			if chunked := len(req.TransferEncoding) == 1; chunked != h.chunked || !chunked && req.ContentLength != max(h.length, 0) {
				t.Errorf("net/http reads another body: %v %d", req.TransferEncoding, req.ContentLength)
			}
			if h.host != nil && req.Host != string(h.host) {
				t.Errorf("net/http reads host %q, we %q", req.Host, h.host)
			}
		}
		var fh fasthttp.RequestHeader
		fh.DisableNormalizing()
		if err := fh.Read(bufio.NewReaderSize(bytes.NewReader(all), 128<<10)); err == nil {
			if string(fh.Method()) != string(h.method) || string(fh.RequestURI()) != string(h.target) {
				t.Errorf("fasthttp reads %s %s, we %s %s", fh.Method(), fh.RequestURI(), h.method, h.target)
			}
			if h.host != nil && string(fh.Host()) != string(h.host) {
				t.Errorf("fasthttp reads host %q, we %q", fh.Host(), h.host)
			}
			if h.length >= 0 && fh.ContentLength() != int(h.length) && string(h.method) != "GET" && string(h.method) != "HEAD" {
				t.Errorf("fasthttp reads length %d, we %d", fh.ContentLength(), h.length)
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
		var h head
		if err := h.readResponse(br, plainSource{br}, 64<<10, 100); err != nil {
			return
		}
		c := &conn{}
		c.h.method, c.h.minor = []byte("GET"), 1
		x := &Exchange{h: &c.h, method: c.h.method}
		fr := x.frame(&h)
		sent := append(x.appendAnswer(nil, &h, &ForwardOptions{}, fr), "\r\n"...)
		if bytes.Count(sent, []byte("\r\n\r\n")) != 1 || bytes.Count(sent, []byte("\n")) != bytes.Count(sent, []byte("\r\n")) {
			t.Fatalf("passed on as %q", sent)
		}
		resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(sent)), &http.Request{Method: "GET"})
		if err != nil {
			if h.status >= 600 || h.status < 200 {
				return
			}
			t.Fatalf("net/http: %v for %q", err, sent)
		}
		if resp.StatusCode != h.status {
			t.Errorf("net/http reads %d, we %d", resp.StatusCode, h.status)
		}
		if fr == byLength && resp.ContentLength != h.length || fr == byChunks && len(resp.TransferEncoding) != 1 {
			t.Errorf("net/http reads another body: %v %d", resp.TransferEncoding, resp.ContentLength)
		}
	})
}

// decode reads a whole chunked body.
func decode(r io.Reader, spaced bool) (data []byte, d *chunks, left *bufio.Reader, err error) {
	br := bufio.NewReader(r)
	d = &chunks{}
	d.reset(spaced, 4096, 20)
	buf := make([]byte, 1000)
	for {
		n, err := d.read(br, plainSource{br}, buf)
		data = append(data, buf[:n]...)
		if err != nil {
			return data, d, br, err
		}
	}
}

// FuzzChunked: whatever is accepted decodes as in net/http, and segments don't matter.
func FuzzChunked(f *testing.F) {
	for _, s := range []string{
		"0\r\n\r\n", "5\r\nhello\r\n0\r\n\r\n", "5;a=b\r\nhello\r\n000\r\nX: y\r\n\r\nnext", "A\r\n0123456789\r\n0\r\n\r\n",
		"5\nhello\n0\n\n", "5 \r\nhello\r\n0\r\n\r\n", "ffffffffffffffff\r\n", "5\r\nhelloX0\r\n\r\n",
	} {
		f.Add([]byte(s), false)
	}
	f.Fuzz(func(t *testing.T, in []byte, spaced bool) {
		got, d, _, err := decode(bytes.NewReader(in), spaced)
		got2, _, _, err2 := decode(iotest.OneByteReader(bytes.NewReader(in)), spaced)
		if errors.Is(err, io.EOF) != errors.Is(err2, io.EOF) || !bytes.Equal(got, got2) {
			t.Fatalf("whole %q %v, in pieces %q %v", got, err, got2, err2)
		}
		if !errors.Is(err, io.EOF) || !d.done {
			return
		}
		want, err := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(in)))
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("we read %q, net/http %q %v", got, want, err)
		}
	})
}

// TestChunkedRoundTrip: what we frame is read back by us and by net/http, with the allowed trailers.
func TestChunkedRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOf(rapid.SliceOfN(rapid.Byte(), 1, 5000)).Draw(t, "pieces")
		var wire, want []byte
		for _, p := range pieces {
			want = append(want, p...)
			buf := make([]byte, chunkRoom+len(p)+2)
			copy(buf[chunkRoom:], p)
			wire = append(wire, frameChunk(buf, len(p))...)
		}
		wire = appendLastChunk(wire, Trailers{})
		got, _, _, err := decode(bytes.NewReader(wire), false)
		if !errors.Is(err, io.EOF) || !bytes.Equal(got, want) {
			t.Fatalf("we: %v", err)
		}
		got, err = io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(wire)))
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("net/http: %v", err)
		}
	})
}

// TestChunkFloods: a body whose framing costs much more than its data is refused.
func TestChunkFloods(t *testing.T) {
	one := "1;" + strings.Repeat("x", 4000) + "\r\na\r\n"
	if _, _, _, err := decode(strings.NewReader(strings.Repeat(one, 1000)+"0\r\n\r\n"), false); !errors.Is(err, errChunk) {
		t.Errorf("got %v", err)
	}
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
		var h head
		if h.fromFields(&r, &cfg) != nil {
			return
		}
		x := &Exchange{h: &h}
		sent := x.appendRequest(nil, &ForwardOptions{}, "127.0.0.1:80", true)
		var again head
		br := bufio.NewReader(bytes.NewReader(append(sent, "rest"...)))
		var err error
		if again.raw, err = readHead(br, plainSource{br}, nil, lineRules{max: 1 << 20}); err == nil {
			err = again.parseRequest(1<<20, 100)
		}
		if err != nil {
			t.Fatalf("%v for what was written: %q", err, sent)
		}
		if rest, _ := io.ReadAll(br); string(rest) != "rest" {
			t.Fatalf("the head ends elsewhere: %q", sent)
		}
		if string(again.method) != method || string(again.target) != target || again.chunked != h.chunked || max(again.length, 0) != max(h.length, 0) {
			t.Errorf("%q reads as %q", sent, again.raw)
		}
	})
}
