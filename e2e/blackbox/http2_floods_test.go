package blackbox

import (
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"

	"golang.org/x/net/http2"
)

// acceptOf proves that a key of a WebSocket was read (RFC 6455 section 4.2.2).
func acceptOf(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// large is a service whose answers have n bytes.
func large(n int) func(x *X) serving {
	return func(x *X) serving {
		return func(c *call, w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/large" {
				x.web().ok(c, w, r)
				return
			}
			w.Header().Set("Content-Length", fmt.Sprint(n))
			_, _ = io.WriteString(w, strings.Repeat("a", n))
		}
	}
}

// windowCases are what a client does with its windows.
func windowCases() []Case {
	var l http2List
	l.with("an answer waits for its window", large(300_000), func(x *X, _ *streams) {
		c := x.dialHTTP2(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		id := c.open(true, c.fields("GET", "/large")...)
		a := c.answers[id]
		c.until(func() bool { return a.Status > 0 })
		if a.Body.Len() > 0 {
			x.Errorf("%d bytes came without a window", a.Body.Len())
		}
		_ = c.WriteWindowUpdate(id, 1)
		c.until(func() bool { return a.Body.Len() > 0 || a.Reset })
		if a.Body.Len() != 1 {
			x.Errorf("%d bytes came in a window of one", a.Body.Len())
		}
		_ = c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 50_000})
		if c.await(id); !a.Whole() || a.Body.Len() != 300_000 {
			x.Errorf("%d bytes came, reset %v", a.Body.Len(), a.Reset)
		}
	})
	l.with("a window that shrinks below nothing", large(300_000), func(x *X, _ *streams) {
		c := x.dialHTTP2()
		c.stingy = true
		id := c.open(true, c.fields("GET", "/large")...)
		a := c.answers[id]
		c.until(func() bool { return a.Body.Len() == 65_535 })
		_ = c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 10})
		_ = c.WriteWindowUpdate(0, 1<<20)
		_ = c.WriteWindowUpdate(id, 65_525)
		_ = c.WritePing(false, [8]byte{1})
		c.until(func() bool { return c.pongs == 1 })
		if a.Body.Len() != 65_535 {
			x.Errorf("%d bytes came into a window of none", a.Body.Len())
		}
		_ = c.WriteWindowUpdate(id, 1<<20)
		if c.await(id); !a.Whole() || a.Body.Len() != 300_000 {
			x.Errorf("%d bytes came, reset %v", a.Body.Len(), a.Reset)
		}
	})
	l.with("a stream that is not read blocks no other", large(1<<20), func(x *X, _ *streams) {
		c := x.dialHTTP2(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1000})
		c.stingy = true
		id := c.open(true, c.fields("GET", "/large")...)
		a := c.answers[id]
		c.until(func() bool { return a.Body.Len() == 1000 })
		for range 10 {
			c.mustLive()
		}
		_ = c.WriteRSTStream(id, http2.ErrCodeCancel)
	})
	for name, play := range map[string]func(c *streams, id uint32){
		"too large, of a stream": func(c *streams, id uint32) { _, _ = c.WriteWindowUpdate(id, 1<<31-1), c.WriteWindowUpdate(id, 1<<31-1) },
		"too large, of all":      func(c *streams, _ uint32) { _, _ = c.WriteWindowUpdate(0, 1<<31-1), c.WriteWindowUpdate(0, 1<<31-1) },
		"too large, by settings": func(c *streams, _ uint32) {
			_ = c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 31})
		},
		"opened by nothing":         func(c *streams, id uint32) { _ = c.WriteRawFrame(http2.FrameWindowUpdate, 0, id, make([]byte, 4)) },
		"opened by nothing, of all": func(c *streams, _ uint32) { _ = c.WriteRawFrame(http2.FrameWindowUpdate, 0, 0, make([]byte, 4)) },
	} {
		l.with("a window "+name, large(1<<20), func(x *X, _ *streams) {
			c := x.dialHTTP2()
			c.stingy = true
			id := c.open(true, c.fields("GET", "/large")...)
			a := c.answers[id]
			c.until(func() bool { return a.Body.Len() > 0 })
			play(c, id)
			c.minds(a)
		})
	}
	l.with("more data than there is a window", func(x *X) serving {
		return func(*call, http.ResponseWriter, *http.Request) { <-x.done }
	}, func(x *X, c *streams) {
		id := c.open(false, c.fields("POST", "/a")...)
		a := c.answers[id]
		w := http2.NewFramer(c.Conn, nil) // of its own: until writes, too
		go func() {
			for range 200 { // 3 MB
				if w.WriteData(id, false, make([]byte, 16_000)) != nil {
					return
				}
			}
		}()
		c.minds(a)
	})
	return l
}

// minds expects that the stream or the connection ends with an error.
func (c *streams) minds(a *streamed) {
	if c.until(func() bool { return a.Reset || c.away }); !a.Reset && !c.away && !c.gone {
		c.x.Errorf("nobody minds")
	}
}

// floodCases are clients that cost more than they say. Their connection ends, or it goes on; others are served, and few of
// their requests reach the service.
func floodCases() []Case {
	var l http2List
	flood := func(name string, n int, prepare func(c *streams), frame func(c *streams, i int) error) {
		l.add("flood: "+name, func(x *X, c *streams) {
			other := x.dialHTTP2()
			other.mustLive()
			ended := make(chan struct{})
			prepare(c)
			go func() { // what comes is read, so that nobody waits
				defer close(ended)
				_, _ = io.Copy(io.Discard, c.Conn)
			}()
			cut := false
			for i := 0; i < n && !cut; i++ {
				cut = frame(c, i) != nil
			}
			c.Close()
			<-ended
			other.mustLive()
			x.env.settle()
			if got := len(x.called()); got > n/2 {
				x.Errorf("%d of %d requests reached the service", got, n)
			}
		})
	}
	nothing := func(*streams) {}
	flood("rapid reset", 2000, nothing, func(c *streams, _ int) error {
		return c.WriteRSTStream(c.open(true, c.fields("GET", "/a")...), http2.ErrCodeCancel)
	})
	asked := func(by string, mistake func(c *streams, id uint32) error) { // of a stream, which is reset (CVE-2025-8671)
		flood("resets that are asked for by "+by, 2000, nothing, func(c *streams, _ int) error {
			return mistake(c, c.open(true, c.fields("GET", "/a")...))
		})
	}
	asked("a window that does not grow", func(c *streams, id uint32) error { return c.WriteWindowUpdate(id, 0) })
	asked("a window that is too large", func(c *streams, id uint32) error { return c.WriteWindowUpdate(id, 1<<31-1) })
	asked("DATA behind the end", func(c *streams, id uint32) error { return c.WriteData(id, true, []byte("a")) })
	asked("a PRIORITY of its own", func(c *streams, id uint32) error { return c.WritePriority(id, http2.PriorityParam{StreamDep: id}) })
	flood("PING", 5000, nothing, func(c *streams, _ int) error { return c.WritePing(false, [8]byte{}) })
	flood("SETTINGS", 5000, nothing, func(c *streams, _ int) error { return c.WriteSettings() })
	flood("PRIORITY", 5000, nothing, func(c *streams, i int) error {
		return c.WritePriority(uint32(2*i+1), http2.PriorityParam{StreamDep: uint32(2*i + 3)})
	})
	flood("empty DATA", 5000, func(c *streams) { c.open(false, c.fields("POST", "/a")...) }, func(c *streams, _ int) error { return c.WriteData(1, false, nil) })
	flood("padding alone", 5000, func(c *streams) { c.open(false, c.fields("POST", "/a")...) }, func(c *streams, _ int) error {
		return c.WriteDataPadded(1, false, nil, []byte{0})
	})
	flood("CONTINUATION", 5000, func(c *streams) {
		_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.encode(c.fields("GET", "/a")...)})
	}, func(c *streams, i int) error {
		return c.WriteContinuation(1, false, c.encode(fmt.Sprintf("x-%d", i), "a"))
	})
	flood("empty CONTINUATION", 5000, func(c *streams) {
		_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.encode(c.fields("GET", "/a")...)})
	}, func(c *streams, _ int) error { return c.WriteContinuation(1, false, nil) })
	return l
}
