package e2e

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// sendHTTP2 posts data frames as they are, padded with pad bytes, and returns the status; 0: the stream was reset.
func sendHTTP2(t *testing.T, addr string, head, trailer []string, pad int, frames ...string) int {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(patience))
	var block bytes.Buffer
	enc, f := hpack.NewEncoder(&block), http2.NewFramer(conn, conn)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	fields := func(end bool, pairs ...string) {
		block.Reset()
		for i := 0; i < len(pairs); i += 2 {
			_ = enc.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]})
		}
		_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: end})
	}
	_, _ = io.WriteString(conn, http2.ClientPreface)
	_ = f.WriteSettings()
	fields(false, append([]string{":method", "POST", ":scheme", "http", ":authority", addr, ":path", "/strict/x", "content-type", form}, head...)...)
	for i, data := range frames {
		_ = f.WriteDataPadded(1, i == len(frames)-1 && trailer == nil, []byte(data), make([]byte, pad))
	}
	if trailer != nil {
		fields(true, trailer...)
	}
	return statusHTTP2(f)
}

// statusHTTP2 reads frames until there is the status of an answer; 0: the stream was reset, or the connection ended.
func statusHTTP2(f *http2.Framer) int {
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return 0
		}
		switch frame := frame.(type) {
		case *http2.MetaHeadersFrame:
			var status int
			_, _ = fmt.Sscan(frame.PseudoValue("status"), &status)
			return status
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return 0
		}
	}
}

// headHTTP2 asks with these fields as they are, and returns the status of the answer; 0: there is none.
func headHTTP2(t *testing.T, addr string, pairs ...string) int {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	var block bytes.Buffer
	enc, f := hpack.NewEncoder(&block), http2.NewFramer(conn, conn)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	for i := 0; i < len(pairs); i += 2 {
		_ = enc.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]})
	}
	_, _ = io.WriteString(conn, http2.ClientPreface)
	_ = f.WriteSettings()
	_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: true})
	return statusHTTP2(f)
}

// TestMessagesOverHTTP2: however a body comes over HTTP/2, its message is judged as over HTTP/1.
func TestMessagesOverHTTP2(t *testing.T) {
	t.Parallel()
	book := newGuestbook(t)
	_, service, _ := strings.Cut(routesConfig, "services:")
	addr := freePort(t)
	file := configFile(t, "listen: [{address: %q, h2c: true}]\nservices:"+service, addr, book.URL)
	g := startWith(t, "serve", "--config", file, "--captcha-test-answer", testAnswer)
	packed := func(s string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = io.WriteString(z, s)
		_ = z.Close()
		return b.String()
	}
	split := func(s string) []string { return strings.Split(s, "") }
	length := func(n int) []string { return []string{"content-length", fmt.Sprint(n)} }
	for i, word := range []string{"casino", "flowers"} {
		want := []int{403, 200}[i]
		text := func(n int) string { return fmt.Sprintf("words=good+%s+%d", word, n) }
		check := func(name string, status int) {
			t.Helper()
			if status != want {
				t.Errorf("%s, %s: %d, want %d", name, word, status, want)
			}
		}
		check("over HTTP/1", visitor(t).do("POST", "http://"+addr+"/strict/x", text(1), "Content-Type", form).StatusCode)
		check("with its length", sendHTTP2(t, addr, length(len(text(2))), nil, 0, text(2)))
		check("byte by byte", sendHTTP2(t, addr, nil, nil, 0, split(text(3))...))
		check("padded", sendHTTP2(t, addr, length(len(text(4))), nil, 200, text(4)[:14], text(4)[14:]))
		check("with empty frames", sendHTTP2(t, addr, nil, nil, 0, "", text(5), "", ""))
		check("with trailers", sendHTTP2(t, addr, nil, []string{"content-type", "text/plain", "x-sum", "1"}, 0, text(6)))
		check("compressed", sendHTTP2(t, addr, []string{"content-encoding", "gzip"}, nil, 9, split(packed(text(7)))...))
	}
	for _, n := range []int{7, 99} {
		if status := sendHTTP2(t, addr, length(n), nil, 0, "words=a casino"); status/100 == 2 {
			t.Errorf("a body of another length than %d: %d", n, status)
		}
	}
	if status := sendHTTP2(t, addr, nil, nil, 0, strings.Repeat("a", 150), strings.Repeat("b", 150)); status != http.StatusForbidden {
		t.Errorf("a body that is too large in two frames: %d", status)
	}
	bodies, _ := book.take()
	for _, b := range bodies {
		if strings.Contains(b, "casino") {
			t.Errorf("the service got %q", b)
		}
	}
	if n := g.logged(t); n != 14 || len(bodies) != 7 {
		t.Errorf("%d messages are in the log, and the service got %d", n, len(bodies))
	}
}
