package blackbox

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// rawFieldCases are fields in numbers and sizes that only HTTP/2 makes cheap.
func rawFieldCases() []Case {
	var l rawList
	tooLarge := func(x *X, c *streams, id uint32) {
		a := c.answers[id]
		c.until(func() bool { return a.Ended || a.Reset || c.away })
		if a.Status/100 != 4 && !a.Reset && !c.away && !c.gone {
			x.Errorf("status %d", a.Status)
		}
		if seen := x.Seen(); len(seen) != 0 {
			x.Errorf("it reached the service: %d bytes", len(seen[0].Head))
		}
		other := x.dialHTTP2()
		other.lives()
	}
	l.add("too many fields", func(x *X, c *streams) {
		var many []string
		for i := range 5000 {
			many = append(many, fmt.Sprintf("x-%d", i), "")
		}
		block := c.encode(c.fields("GET", "/a", many...)...)
		id := c.begin()
		_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndStream: true, BlockFragment: block[:10]})
		for block = block[10:]; len(block) > 16_000; block = block[16_000:] {
			_ = c.WriteContinuation(id, false, block[:16_000])
		}
		_ = c.WriteContinuation(id, true, block)
		tooLarge(x, c, id)
	})
	l.add("a field that is one byte each time", func(x *X, c *streams) { // RFC 7541 section 7.3
		block := c.encode(c.fields("GET", "/a", "x-large", strings.Repeat("a", 3900))...)
		block = append(block, slices.Repeat([]byte{0x80 | 62}, 16_000-len(block))...) // the newest of the table, 60 MB
		id := c.begin()
		_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndStream: true, EndHeaders: true, BlockFragment: block})
		tooLarge(x, c, id)
	})
	broken := func(name string, block func(c *streams) []byte) {
		l.add("a head that can't be read: "+name, func(x *X, c *streams) {
			id := c.begin()
			_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndStream: true, EndHeaders: true, BlockFragment: block(c)})
			if c.until(func() bool { return c.away }); !c.away && !c.gone {
				x.Errorf("nobody minds")
			}
			if seen := x.Seen(); len(seen) != 0 {
				x.Errorf("it reached the service: %s", describe(seen))
			}
		})
	}
	fields := func(c *streams) []byte { return c.encode(c.fields("GET", "/a")...) }
	broken("an entry that is not there", func(c *streams) []byte { return append(fields(c), 0xff, 0x80, 0x10) })
	broken("entry 0", func(c *streams) []byte { return append(fields(c), 0x80) })
	broken("half a string", func(c *streams) []byte { return append(fields(c), 0x00, 0x05, 'a') })
	broken("a table larger than allowed", func(c *streams) []byte { return append([]byte{0x3f, 0xe1, 0xff, 0x7f}, fields(c)...) })
	broken("a table that changes at the end", func(c *streams) []byte { return append(fields(c), 0x20) })
	broken("a number without end", func(c *streams) []byte {
		return append(fields(c), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)
	})
	broken("Huffman code that ends with EOS", func(c *streams) []byte { return append(fields(c), 0x00, 0x84, 0xff, 0xff, 0xff, 0xff, 0x01, 'a') })
	for name, value := range map[string]string{"a control": "a\x01b", "DEL": "a\x7fb", "an escape": "a\x1bb", "a vertical tab": "a\x0bb"} {
		l.add("a value with "+name+" is refused, or a value", func(x *X, c *streams) {
			a := c.get("/a", "x-a", value)
			for _, q := range x.Seen() {
				if q.Fields.Get("X-A") != value {
					x.Errorf("the service saw %q", q.Head)
				}
			}
			if len(x.Seen()) == 0 && !a.Reset && a.Status/100 != 4 {
				x.Errorf("status %d", a.Status)
			}
			c.lives()
		})
	}
	for name, value := range map[string]string{"before": " a", "behind": "a ", "a tab": "\ta", "alone": " "} {
		l.add("white space around a value, "+name+", is nobody's content", func(x *X, c *streams) {
			c.get("/a", "x-a", value)
			for _, q := range x.Seen() {
				if got := q.Fields.Get("X-A"); got != strings.TrimSpace(value) {
					x.Errorf("the service saw %q", got)
				}
			}
			c.lives()
		})
	}
	l.add("a secret field stays out of tables", func(x *X, c *streams) {
		c.block.Reset()
		for _, f := range []hpack.HeaderField{
			{Name: ":method", Value: "GET"},
			{Name: ":scheme", Value: "http"},
			{Name: ":authority", Value: hostHTTP1},
			{Name: ":path", Value: "/a"},
			{Name: "authorization", Value: "Basic YTpi", Sensitive: true},
		} {
			_ = c.enc.WriteField(f)
		}
		id := c.begin()
		_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndStream: true, EndHeaders: true, BlockFragment: slices.Clone(c.block.Bytes())})
		c.await(id)
		if seen := x.Seen(); len(seen) != 1 || seen[0].Fields.Get("Authorization") != "Basic YTpi" {
			x.Errorf("the service saw %s", describe(seen))
		}
		c.lives()
	})
	return l
}

// rawUploadCases are bodies that end before, or after, the answer.
func rawUploadCases() []Case {
	var l rawList
	l.add("an answer before the end of the body", func(x *X, c *streams) {
		id := c.open(false, c.fields("POST", "/a", "content-length", "1000000")...)
		c.send(id, "hello", false)
		a := c.answers[id]
		c.until(func() bool { return a.Ended || a.Reset })
		if a.Status != 413 || a.Body.String() != "too large" || a.Reset && a.Code != http2.ErrCodeNo {
			x.Errorf("%d %q, reset %v %v", a.Status, a.Body.String(), a.Reset, a.Code)
		}
		if c.until(func() bool { return a.Reset }); a.Code != http2.ErrCodeNo { // RFC 9113 section 8.1
			x.Errorf("the client is not told to stop: %v", a.Code)
		}
		c.lives()
	}, then(func(s *Svc) {
		s.Head()
		s.Send(response("413 Content Too Large", "too large", "Connection: close"))
		s.X.Wait("never")
	})...)
	l.add("an answer while the body goes on", func(x *X, c *streams) {
		id := c.open(false, c.fields("POST", "/a")...)
		a := c.answers[id]
		for i, word := range []string{"one", "two", "three"} {
			c.send(id, word, i == 2)
			c.until(func() bool { return strings.HasSuffix(a.Body.String(), word) })
		}
		if c.await(id); a.Body.String() != "onetwothree" || !a.Whole() {
			x.Errorf("%q", a.Body.String())
		}
	}, func(s *Svc) {
		s.Head()
		s.Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		for _, word := range []string{"one", "two", "three"} {
			if got := s.ReadN(1 + 2 + len(word) + 2); got != fmt.Sprintf("%x\r\n%s\r\n", len(word), word) {
				s.X.Errorf("the service got %q", got)
			}
			s.Send(fmt.Sprintf("%x\r\n%s\r\n", len(word), word))
		}
		s.ReadN(len("0\r\n\r\n"))
		s.Send("0\r\n\r\n")
	})
	gone := func(name string, leave func(c *streams, id uint32)) {
		l.add("the service is freed: "+name, func(x *X, c *streams) {
			id := c.open(false, c.fields("POST", "/a")...)
			c.send(id, "half", false)
			x.Wait("reading")
			leave(c, id)
			x.Wait("gone")
			for _, q := range x.Seen() {
				if q.Complete {
					x.Errorf("the body looked whole: %q", q.Body)
				}
			}
		}, then(func(s *Svc) {
			s.Head()
			s.ReadN(len("4\r\nhalf\r\n"))
			s.X.Signal("reading")
			if !s.Gone(patience) {
				s.X.Errorf("the connection stays")
			}
			s.X.Signal("gone")
			s.End()
		})...)
	}
	gone("a stream is taken back", func(c *streams, id uint32) { _ = c.WriteRSTStream(id, http2.ErrCodeCancel) })
	gone("a connection is closed", func(c *streams, _ uint32) { c.Close() })
	gone("a connection error", func(c *streams, _ uint32) { _ = c.WriteRawFrame(http2.FrameData, 0, 0, []byte("a")) })
	l.add("a body is not sent twice", func(x *X, c *streams) {
		id := c.open(false, c.fields("POST", "/a", "content-length", "5")...)
		c.send(id, "hello", true)
		if a := c.await(id); a.Status/100 != 5 {
			x.Errorf("status %d", a.Status)
		}
		if n := len(x.Seen()); n != 1 {
			x.Errorf("the service saw it %d times", n)
		}
		c.lives()
	}, then(func(s *Svc) { s.Request(); s.End() })...)
	l.add("trailers without a body", func(x *X, c *streams) {
		id := c.open(false, c.fields("POST", "/a")...)
		_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.encode("x-sum", "0"), EndStream: true, EndHeaders: true})
		a := c.await(id)
		if seen := x.Seen(); a.Status != 200 || len(seen) != 1 || !seen[0].Complete || seen[0].Body != "" || seen[0].Fields.Has("X-Sum") {
			x.Errorf("%d, the service saw %s", a.Status, describe(seen))
		}
		c.lives()
	})
	l.add("a length with trailers behind it", func(x *X, c *streams) {
		id := c.open(false, c.fields("POST", "/a", "content-length", "5")...)
		c.send(id, "hello", false)
		_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.encode("x-sum", "5"), EndStream: true, EndHeaders: true})
		a := c.await(id)
		if seen := x.Seen(); a.Status != 200 || len(seen) != 1 || !seen[0].Complete || seen[0].Body != "hello" {
			x.Errorf("%d, the service saw %s", a.Status, describe(seen))
		}
		c.lives()
	})
	l.add("a slow reader holds the service back, not the gateway's memory", func(x *X, _ *streams) {
		c := x.dialHTTP2()
		c.stingy = true
		id := c.open(true, c.fields("GET", "/a")...)
		x.Wait("stuck")
		_ = c.WriteRSTStream(id, http2.ErrCodeCancel)
		c.stingy = false
	}, then(func(s *Svc) {
		s.Request()
		s.Send("HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
		piece := make([]byte, 1<<16)
		_ = s.Conn.SetWriteDeadline(time.Now().Add(settle * 20))
		for range 1_000_000_000 >> 16 {
			if _, err := s.Conn.Write(piece); err != nil {
				s.X.Signal("stuck")
				s.End()
			}
		}
		s.X.Errorf("the gateway took a gigabyte that nobody read")
		s.X.Signal("stuck")
	})...)
	return l
}
