package e2e

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/qpack"
	"github.com/quic-go/quic-go/quicvarint"
)

// frame3 is a frame of HTTP/3 (RFC 9114 section 7.1).
func frame3(kind uint64, payload []byte) []byte {
	return append(quicvarint.Append(quicvarint.Append(nil, kind), uint64(len(payload))), payload...)
}

// head3 is a frame with the head of a request for a path of localhost, or with trailers if there is no method.
func head3(t *testing.T, method, path string, fields ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	e := qpack.NewEncoder(&b)
	if method != "" {
		fields = append([]string{":method", method, ":scheme", "https", ":authority", "localhost", ":path", path}, fields...)
	}
	for i := 0; i < len(fields); i += 2 {
		if err := e.WriteField(qpack.HeaderField{Name: fields[i], Value: fields[i+1]}); err != nil {
			t.Fatal(err)
		}
	}
	return frame3(1, b.Bytes())
}

// TestHTTP3EmptyFrames: a DATA frame that is empty, wherever it stands in a body, changes nothing of what a service reads. Sent on as a
// chunk it would end the body, and the service would take the rest for another request, whose answer somebody else gets.
func TestHTTP3EmptyFrames(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var seen []string
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		if seen = append(seen, r.Method+" "+string(b)); err != nil {
			seen = append(seen, err.Error())
		}
		_, _ = io.WriteString(w, "ok")
	}))
	defer service.Close()
	cert, key := certificate(t, t.TempDir(), 1)
	address := freePort(t)
	startWith(t, "serve", "--config", configFile(t, `
listen: [{address: %q, tls_cert: %q, tls_key: %q, http3: true}]
defaults: {upstream: {urls: [%q]}}
`, address, cert, key, service.URL))
	c := dialQUIC(t, address, "localhost")
	data := func(text string) []byte { return frame3(0, []byte(text)) }
	f := func(name, want string, head []byte, body ...[]byte) {
		t.Helper()
		s, err := c.conn.OpenStreamSync(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_ = s.SetDeadline(time.Now().Add(patience))
		for _, b := range append([][]byte{head}, body...) {
			if _, err := s.Write(b); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			time.Sleep(20 * time.Millisecond) // each by itself
		}
		_ = s.Close()
		if answer, err := io.ReadAll(s); err != nil || !bytes.HasSuffix(answer, data("ok")) {
			t.Errorf("%s: %q, %v", name, answer, err)
		}
		mu.Lock()
		defer mu.Unlock()
		if len(seen) != 1 || seen[0] != want {
			t.Errorf("%s: the service saw %q, not %q alone", name, seen, want)
		}
		seen = nil
	}
	post := head3(t, "POST", "/")
	f("none", "POST helloworld", post, data("hello"), data("world"))
	f("first", "POST hello", post, data(""), data("hello"))
	f("between", "POST helloworld", post, data("hello"), data(""), data(""), data("world"))
	f("last", "POST hello", post, data("hello"), data(""))
	f("with a length", "POST hello", head3(t, "POST", "/", "content-length", "5"), data(""), data("he"), data(""), data("llo"))
	f("where nothing is expected", "GET ", head3(t, "GET", "/"), data(""))
	f("before something unexpected", "GET hello", head3(t, "GET", "/"), data(""), data("hello"))
	f("before trailers", "POST hello", head3(t, "POST", "/", "trailer", "x-sum"), data("hello"), data(""), head3(t, "", "", "x-sum", "1"))
}
