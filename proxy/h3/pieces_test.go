package h3

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/quic-go/qlog"
	"github.com/quic-go/quic-go/quicvarint"

	"antirobot/proxy/h1"
)

// TestSmallPiecesAreCounted: a stream that comes byte by byte, which the library would keep at many times its length,
// ends its connection.
func TestSmallPiecesAreCounted(t *testing.T) {
	f := newFront(t, setup{h3: func(c *Config) { c.MaxPieces = 20 }, handler: func(x *h1.Exchange) { reply(x, "ok") }})
	c := f.mustDial(t)
	for range 3 {
		if _, body, err := c.do(t, "GET", "/"); err != nil || body != "ok" {
			t.Fatal(body, err)
		}
	}
	str, err := c.OpenStreamSync(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// HEADERS (RFC 9114 section 7.2.2)
	_, _ = str.Write(quicvarint.Append(quicvarint.Append(nil, 1), 59_000))
	for by := time.Now().Add(patience); time.Now().Before(by); time.Sleep(time.Millisecond) { // a packet for each
		if _, err := str.Write([]byte{0}); err != nil {
			break
		}
	}
	if code := ended(t, c.Conn); code != http3.ErrCodeExcessiveLoad {
		t.Errorf("it ended with %v", code)
	}
	f.await(t, `antirobot_http3_floods_total{of="pieces"}`, "1")
}

// TestUploadsAreNoSmallPieces: a body in many writes, each of which ends with a small piece, is read to its end.
func TestUploadsAreNoSmallPieces(t *testing.T) {
	const size = 4 << 20
	f := newFront(t, setup{h3: func(c *Config) { c.MaxPieces = 100 }, handler: func(x *h1.Exchange) {
		if b, err := x.ReadBody(2 * size); err != nil || len(b) != size {
			t.Errorf("%d bytes, %v", len(b), err)
		}
		reply(x, "ok")
	}})
	c := f.mustDial(t)
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://site.example/",
		strings.NewReader(strings.Repeat("a", size)))
	res, err := c.http.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
}

// TestPieces counts what comes: tiny pieces, small ones as four, and longer ones in favour of their client.
func TestPieces(t *testing.T) {
	f := func(name string, length int64, many int, want bool, before ...int64) {
		t.Helper()
		p := &pieces{most: 100}
		for _, n := range before {
			p.take(&qlog.StreamFrame{Offset: 1, Length: n})
		}
		ok := true
		for i := range many {
			ok = p.take(&qlog.StreamFrame{Offset: 1 + int64(i)*length, Length: length}) && ok
		}
		if ok != want {
			t.Errorf("%s: %v", name, ok)
		}
	}
	f("as many as there may be", 1, 100, true)
	f("one more", 1, 101, false)
	f("small ones", 128, 25, true)
	f("one more small one", 128, 26, false)
	f("pieces of packets", 1200, 10_000, true)
	f("behind a long one", 1, 101, true, fullPerPiece)
	f("behind more than is kept", 1, 101+fullKept/fullPerPiece, false, 2*fullKept)
	begins := &pieces{most: 1}
	for range 100 {
		if !begins.take(&qlog.StreamFrame{Length: 1}) || !begins.take(&qlog.StreamFrame{Offset: 1, Fin: true}) {
			t.Fatal("begins and ends of streams count")
		}
	}
}
