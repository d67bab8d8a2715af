package blackbox

import (
	"io"
	"net/http"
	"strings"

	"golang.org/x/net/http2"
)

// send sends a body in frames that the other side's default settings allow.
func (c *streams) send(id uint32, body string, end bool) {
	for len(body) > 16_000 {
		_ = c.WriteData(id, false, []byte(body[:16_000]))
		body = body[16_000:]
	}
	_ = c.WriteData(id, end, []byte(body))
}

// uploadCases are about bodies of requests and their trailers.
func uploadCases() []Case {
	var l http2List
	l.add("a body with its length, and one without", func(x *X, c *streams) {
		for _, more := range [][]string{{"content-length", "5"}, nil} {
			x.web().begin(nil)
			id := c.open(false, c.fields("POST", "/a", more...)...)
			c.send(id, "hello", true)
			c.await(id)
			if q := x.onlyCall(); q.Body != "hello" || !q.Whole || len(more) > 0 && q.Length != 5 {
				x.Errorf("%q: the service got %q, length %d", more, q.Body, q.Length)
			}
		}
	})
	l.add("an empty body that ends in a frame of its own", func(x *X, c *streams) {
		id := c.open(false, c.fields("POST", "/a")...)
		c.send(id, "", true)
		c.await(id)
		if q := x.onlyCall(); q.Body != "" || !q.Whole {
			x.Errorf("the service got %q", q.Body)
		}
		c.mustLive()
	})
	for name, body := range map[string]string{"shorter": "abc", "longer": "abcdefgh", "none": ""} {
		l.add("a body that is not as long as announced: "+name, func(x *X, c *streams) {
			id := c.open(false, c.fields("POST", "/a", "content-length", "5")...)
			c.send(id, body, true)
			a := c.await(id)
			if a.Status/100 == 2 {
				x.Errorf("status %d", a.Status)
			}
			for _, q := range x.called() {
				if q.Whole {
					x.Errorf("the service took %q for the whole body", q.Body)
				}
			}
		})
	}
	l.with("a body that is taken back never looks whole", func(x *X) serving {
		return func(c *call, w http.ResponseWriter, r *http.Request) {
			x.Signal("began")
			x.web().ok(c, w, r)
		}
	}, func(x *X, c *streams) {
		id := c.open(false, c.fields("POST", "/a")...)
		c.send(id, "half", false)
		x.Wait("began")
		_ = c.WriteRSTStream(id, http2.ErrCodeCancel)
		if q := x.onlyCall(); q.Whole {
			x.Errorf("the service took %q for the whole body", q.Body)
		}
		c.mustLive()
	})
	trailers := func(name string, check func(x *X, c *streams, a *streamed), end bool, fields ...string) {
		l.add("trailers: "+name, func(x *X, c *streams) {
			id := c.open(false, c.fields("POST", "/a", "trailer", "x-sum")...)
			c.send(id, "hello", false)
			_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.encode(fields...), EndStream: end, EndHeaders: true})
			check(x, c, c.await(id))
		})
	}
	trailers("they reach the service, or nobody", func(x *X, _ *streams, a *streamed) {
		q := x.onlyCall()
		if q.Body != "hello" || !q.Whole || a.Status != 200 || q.Header.Get("X-Sum") != "" || len(q.Trailer["X-Sum"]) > 0 && q.Trailer.Get("X-Sum") != "5" {
			x.Errorf("status %d; the service got %q, trailers %v", a.Status, q.Body, q.Trailer)
		}
	}, true, "x-sum", "5")
	never := func(x *X, c *streams, a *streamed) {
		if !a.Reset && !c.gone && !c.away && a.Status < 400 {
			x.Errorf("status %d", a.Status)
		}
		for _, q := range x.called() {
			if q.Whole {
				x.Errorf("the service took the request for whole: %v", q.Trailer)
			}
		}
	}
	trailers("a pseudo field", never, true, ":path", "/b")
	trailers("without an end", never, false, "x-sum", "5")
	trailers("upper case", never, true, "X-Sum", "5")
	notMerged := func(x *X, _ *streams, _ *streamed) {
		for _, q := range x.called() {
			if q.Header.Get("X-Forwarded-For") == "203.0.113.9" || q.Trailer.Get("X-Forwarded-For") != "" || q.Trailer.Get("Authorization") != "" ||
				q.Trailer.Get("Content-Length") != "" || q.Trailer.Get("Transfer-Encoding") != "" || q.Trailer.Get("Host") != "" || q.Host != x.env.host {
				x.Errorf("the service saw %v, trailers %v", q.Header, q.Trailer)
			}
		}
	}
	trailers("fields that must be heads'", notMerged, true, "content-length", "99", "host", "other.test", "x-forwarded-for", "203.0.113.9", "authorization", "x")
	trailers("a connection's", notMerged, true, "transfer-encoding", "chunked")
	l.add("ten megabytes", func(x *X, c *streams) {
		id := c.open(false, c.fields("POST", "/a")...)
		c.sendWithin(id, 10<<20)
		if q := x.onlyCall(); len(q.Body) != 10<<20 || !q.Whole {
			x.Errorf("the service got %d bytes", len(q.Body))
		}
	})
	l.with("the service reads a body before it has ended", func(x *X) serving {
		return func(c *call, w http.ResponseWriter, r *http.Request) {
			b := make([]byte, 5)
			_, _ = io.ReadFull(r.Body, b)
			x.Signal("read")
			x.web().body(c, r)
			_, _ = w.Write(b)
		}
	}, func(x *X, c *streams) {
		id := c.open(false, c.fields("POST", "/a")...)
		c.send(id, "hello", false)
		x.Wait("read")
		c.send(id, "more", true)
		if a := c.await(id); a.Body.String() != "hello" {
			x.Errorf("status %d %q", a.Status, clip(a.Body.String()))
		}
	})
	for name, hasty := range map[string]bool{"a client that waits for 100": false, "a client that does not wait for 100": true} {
		l.add(name, func(x *X, c *streams) {
			id := c.open(false, c.fields("POST", "/a", "expect", "100-continue", "content-length", "5")...)
			if a := c.answers[id]; !hasty {
				c.until(func() bool { return len(a.Interim) > 0 || a.Status > 0 })
			}
			c.send(id, "hello", true)
			if a := c.await(id); a.Status != 200 || !strings.HasPrefix(a.Body.String(), "for POST") || x.onlyCall().Body != "hello" {
				x.Errorf("status %d %q", a.Status, clip(a.Body.String()))
			}
		})
	}
	l.with("an answer before the body has come", func(*X) serving {
		return func(_ *call, w http.ResponseWriter, _ *http.Request) {
			_ = http.NewResponseController(w).EnableFullDuplex() // else the body is awaited
			http.Error(w, "no", http.StatusForbidden)
		}
	}, func(x *X, c *streams) {
		id := c.open(false, c.fields("POST", "/a")...)
		c.send(id, "hello", false)
		a := c.answers[id]
		c.until(func() bool { return a.Ended || a.Reset })
		if a.Status != 403 || a.Body.String() != "no\n" {
			x.Errorf("status %d %q, reset %v", a.Status, clip(a.Body.String()), a.Reset)
		}
		c.send(id, "more", true)
		c.mustLive()
	})
	return l
}

// sendWithin sends n bytes as the other side's windows allow, and waits for the answer.
func (c *streams) sendWithin(id uint32, n int) {
	stream, conn := 65_535, 65_535
	a := c.answers[id]
	initial := false
	for {
		for _, s := range c.says {
			if s.ID == http2.SettingInitialWindowSize && !initial {
				stream, initial = stream+int(s.Val)-65_535, true
			}
		}
		if k := min(stream, conn, n, 16_000); k > 0 {
			n, stream, conn = n-k, stream-k, conn-k
			_ = c.WriteData(id, n == 0, make([]byte, k))
			continue
		}
		if n == 0 || c.gone || a.Reset || a.Ended {
			break
		}
		f, err := c.ReadFrame()
		if err != nil {
			c.gone = true
			return
		}
		if u, ok := f.(*http2.WindowUpdateFrame); ok {
			if u.StreamID == 0 {
				conn += int(u.Increment)
			} else {
				stream += int(u.Increment)
			}
		}
		c.take(f)
	}
	c.await(id)
}
