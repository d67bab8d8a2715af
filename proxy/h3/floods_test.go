package h3

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/quic-go/qlog"
	"github.com/quic-go/quic-go/quicvarint"

	"antirobot/proxy/h1"
)

// TestFloods: what costs a client little and is no request that anything judges ends its connection, is counted, and
// does not affect others.
func TestFloods(t *testing.T) {
	f := newFront(t, setup{
		h3: func(c *Config) { c.MaxResets, c.MaxControlFrames = 50, 200 },
		handler: func(x *h1.Exchange) {
			_, _ = x.ReadBody(1 << 20)
			reply(x, "ok")
		},
	})
	frame := func(kind uint64, payload ...byte) []byte {
		return append(quicvarint.Append(quicvarint.Append(nil, kind), uint64(len(payload))), payload...)
	}
	// post is a head whose body follows: POST, https, /, and an authority of one letter (RFC 9204 section 4.5).
	post := frame(1, 0, 0, 0xc0|20, 0xc0|23, 0xc0|1, 0x50, 1, 'a')
	var req *quic.Stream
	within := func(c *quic.Conn, begin, more []byte) error { // of one stream
		if req == nil {
			s, err := c.OpenStreamSync(t.Context())
			if err != nil {
				return err
			}
			req = s
			if _, err := s.Write(begin); err != nil {
				return err
			}
		}
		_, err := req.Write(more)
		return err
	}
	alone := func(c *quic.Conn, b []byte, end func(s *quic.Stream)) error {
		s, err := c.OpenStreamSync(t.Context())
		if err != nil {
			return err
		}
		_, err = s.Write(b)
		end(s)
		return err
	}
	for name, o := range map[string]struct {
		of   string
		each func(c *quic.Conn) error
	}{
		"unknown frames before a head": {
			"control_frames",
			func(c *quic.Conn) error { return within(c, nil, bytes.Repeat(frame(0x21), 100)) },
		},
		"unknown frames in a body": {
			"control_frames",
			func(c *quic.Conn) error { return within(c, post, bytes.Repeat(frame(0x21), 100)) },
		},
		"empty DATA": {
			"control_frames",
			func(c *quic.Conn) error { return within(c, post, bytes.Repeat(frame(0), 100)) },
		},
		"MAX_PUSH_ID": {
			"control_frames",
			func(c *quic.Conn) error { return within(c, post, bytes.Repeat(frame(13, 1), 100)) },
		},
		"heads taken back": {"resets", func(c *quic.Conn) error {
			return alone(c, []byte{1, 100, 0}, func(s *quic.Stream) { s.CancelWrite(0x10c); s.CancelRead(0x10c) })
		}},
		"heads that the library refuses": {"resets", func(c *quic.Conn) error {
			// a method alone
			return alone(c, frame(1, 0, 0, 0xc0|17), func(s *quic.Stream) { _ = s.Close(); s.CancelRead(0x10c) })
		}},
		"references to a table that there is not": {"resets", func(c *quic.Conn) error {
			return alone(c, frame(1, 2, 0, 0x80), func(s *quic.Stream) { _ = s.Close(); s.CancelRead(0x10c) })
		}},
		"streams that are no requests": {"streams", func(c *quic.Conn) error {
			s, err := c.OpenUniStreamSync(t.Context())
			if err != nil {
				return err
			}
			_, _ = s.Write([]byte{0x21})
			s.CancelWrite(0x10c)
			return nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			metric := `antirobot_http3_floods_total{of="` + o.of + `"}`
			before := f.metric(metric)
			c, err := f.dialQUIC(t, nil)
			if err != nil {
				t.Fatal(err)
			}
			req = nil
			for by := time.Now().Add(patience); c.Context().Err() == nil && time.Now().Before(by); {
				if err := o.each(c); err != nil {
					break
				}
			}
			if code := ended(t, c); code != http3.ErrCodeExcessiveLoad {
				t.Errorf("it ended with %v", code)
			}
			if after := f.metric(metric); after == before {
				t.Errorf("%s stays %s", metric, after)
			}
		})
	}
	if _, body, err := f.mustDial(t).do(t, "GET", "/"); err != nil || body != "ok" {
		t.Errorf("another client gets %q, %v", body, err)
	}
}

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
