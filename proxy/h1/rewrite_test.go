package h1

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"antirobot/proxy/upstream"
	"antirobot/request"
)

// louder is a Rewriter that makes a text louder, holds it back until it must not, and leaves the length out.
type louder struct {
	held  bytes.Buffer
	w     io.Writer
	asked []int // for Head, by status
}

func (l *louder) Head(status int, fields []request.Field) ([]request.Field, bool) {
	l.asked = append(l.asked, status)
	for i := range fields {
		if request.EqualFold(fields[i].Name, "X-Keep") {
			return fields, false
		}
	}
	return slices.DeleteFunc(fields, func(f request.Field) bool { return request.EqualFold(f.Name, "ETag") }), true
}

func (l *louder) Body(w io.Writer, r io.Reader) error {
	l.w = w
	defer func() { l.w = nil }()
	var p [3]byte
	for {
		n, err := r.Read(p[:])
		l.held.Write(bytes.ToUpper(p[:n]))
		switch {
		case err == io.EOF:
			return l.Flush()
		case err != nil:
			return err
		case bytes.Contains(l.held.Bytes(), []byte("!")):
			return errors.Join(l.Flush(), map[bool]error{true: errors.New("too loud")}[bytes.Contains(p[:n],
				[]byte("?"))])
		}
	}
}

func (l *louder) Flush() error {
	if l.w == nil {
		return nil
	}
	_, err := l.w.Write(l.held.Bytes())
	l.held.Reset()
	return err
}

// TestRewrite: a body that is made anew on its way, however the service frames it, and what becomes of the connections.
func TestRewrite(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nETag: \"x\"\r\nTrailer: Digest\r\n"
	answers := map[string]string{
		"/length":  head + "Content-Length: 5\r\n\r\nhello",
		"/chunked": head + "Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\nDigest: x\r\n\r\n",
		"/kept":    "HTTP/1.1 200 OK\r\nX-Keep: 1\r\nContent-Length: 5\r\n\r\nhello",
		"/empty":   head + "Content-Length: 0\r\n\r\n",
		"/short":   head + "Content-Length: 5\r\n\r\nhell",
		"/early":   head + "Content-Length: 8\r\n\r\nhey!more",
		"/broken":  head + "Content-Length: 4\r\n\r\n!?no",
		"/end":     head + "\r\nhello",
	}
	s := newService(t, func(c *talk) {
		for {
			r, _ := c.request(true)
			if r == nil {
				return
			}
			answer := answers[r.URL.Path]
			if r.Method == "HEAD" {
				answer, _, _ = strings.Cut(answer, "\r\n\r\n")
				answer += "\r\n\r\n"
			}
			c.say(answer)
			if r.URL.Path == "/end" || r.URL.Path == "/short" {
				return
			}
		}
	})
	rewriter := &louder{}
	g := newGateway(t, s, setup{options: ForwardOptions{Rewrite: rewriter}})
	c := dial(t, g)
	f := func(method, path, want string, length int64) {
		t.Helper()
		c.say(method + " " + path + " HTTP/1.1\r\nHost: a\r\n\r\n")
		resp, body := c.answer(method)
		kept := path == "/kept" || path == "/empty"
		if body != want || resp.ContentLength != length || (resp.Header.Get("ETag") == "") != (path != "/empty") ||
			len(resp.Trailer) > 0 && !kept {
			t.Errorf("%s %s: %q %d %v %v", method, path, body, resp.ContentLength, resp.Header, resp.Trailer)
		}
	}
	f("GET", "/length", "HELLO", -1)
	f("GET", "/chunked", "HELLO", -1)
	f("HEAD", "/length", "", -1)
	f("GET", "/empty", "", 0)
	f("GET", "/end", "HELLO", -1)
	f("GET", "/early", "HEY!MO", -1)
	f("GET", "/length", "HELLO", -1)
	if n := s.connections(); n != 3 { // those of /end and /early have been given up
		t.Errorf("%d connections", n)
	}
	for _, path := range []string{"/short", "/broken"} {
		c := dial(t, g)
		c.say("GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n")
		if b, _ := c.rest(); strings.HasSuffix(b, "0\r\n\r\n") {
			t.Errorf("%s ends like a whole answer: %q", path, b)
		}
	}
	old := dial(t, g)
	old.say("GET /length HTTP/1.0\r\nHost: a\r\n\r\n")
	if b, err := old.rest(); err != nil || !strings.HasSuffix(b, "\r\n\r\nHELLO") ||
		strings.Contains(b, "Content-Length") {
		t.Errorf("HTTP/1.0: %q %v", b, err)
	}
	if rewriter.w != nil || slices.Contains(rewriter.asked, 100) {
		t.Errorf("%+v", rewriter)
	}
}

// TestRewriteHTTP2: the same from a service that speaks HTTP/2, which sends the page in two halves.
func TestRewriteHTTP2(t *testing.T) {
	half := make(chan struct{})
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/cut" {
			w.Header().Set("Content-Length", "10")
			_, _ = io.WriteString(w, "hel")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, "hel")
		_ = http.NewResponseController(w).Flush()
		<-half
		_, _ = io.WriteString(w, "lo")
	}))
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	g := newGateway(t, nil, setup{options: ForwardOptions{Rewrite: &louder{}}, upstream: func(c *upstream.Config) {
		c.URLs, c.Protocol = []string{s.URL}, "h2"
	}})
	c := dial(t, g)
	c.say("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if h := c.head(); !strings.Contains(strings.ToLower(h), "transfer-encoding: chunked") {
		t.Fatalf("%q", h)
	}
	b := make([]byte, len("3\r\nHEL\r\n"))
	if _, err := io.ReadFull(c.r, b); err != nil || string(b) != "3\r\nHEL\r\n" {
		t.Fatalf("%q %v", b, err)
	}
	close(half)
	b = make([]byte, len("2\r\nLO\r\n0\r\n\r\n"))
	if _, err := io.ReadFull(c.r, b); err != nil || string(b) != "2\r\nLO\r\n0\r\n\r\n" {
		t.Fatalf("%q %v", b, err)
	}
	c.say("GET /cut HTTP/1.1\r\nHost: a\r\n\r\n")
	if rest, _ := c.rest(); strings.HasSuffix(rest, "0\r\n\r\n") {
		t.Errorf("ends like a whole answer: %q", rest)
	}
}
