package h2

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"antirobot/proxy/h1"
)

// TestSmuggling: nothing that HTTP/1.1 could read differently reaches the service, and the connection goes on.
func TestSmuggling(t *testing.T) {
	var served atomic.Int64
	f := newFront(t, service(t, func(w http.ResponseWriter, r *http.Request) {
		served.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(200)
	}), setup{})
	with := func(more ...string) []string { return append(append([]string(nil), get...), more...) }
	path := func(p string) []string {
		return []string{":method", "GET", ":scheme", "http", ":authority", "site.example", ":path", p}
	}
	method := func(m string) []string {
		return []string{":method", m, ":scheme", "http", ":authority", "site.example", ":path", "/"}
	}
	host := func(h string) []string {
		return []string{":method", "GET", ":scheme", "http", ":authority", h, ":path", "/"}
	}
	for name, fields := range map[string][]string{
		"CR LF in a value":            with("x", "a\r\nTransfer-Encoding: chunked"),
		"LF in a value":               with("x", "a\nb: c"),
		"CR in a value":               with("x", "a\rb"),
		"NUL in a value":              with("x", "a\x00b"),
		"space before a value":        with("x", " a"),
		"space behind a value":        with("x", "a "),
		"tab behind a value":          with("x", "a\t"),
		"CR LF in a name":             with("x: y\r\nz", "a"),
		"colon in a name":             with("x:y", "a"),
		"space in a name":             with("transfer encoding", "chunked"),
		"NUL in a name":               with("x\x00", "a"),
		"empty name":                  with("", "a"),
		"upper case in a name":        with("X-Upper", "a"),
		"connection":                  with("connection", "close"),
		"keep-alive":                  with("keep-alive", "1"),
		"proxy-connection":            with("proxy-connection", "close"),
		"transfer-encoding":           with("transfer-encoding", "chunked"),
		"upgrade":                     with("upgrade", "websocket"),
		"te: gzip":                    with("te", "gzip"),
		"two lengths":                 with("content-length", "0", "content-length", "5"),
		"a length of letters":         with("content-length", "0x0"),
		"a signed length":             with("content-length", "+0"),
		"a length without a body":     with("content-length", "5"),
		"a list of lengths":           with("content-length", "0, 0"),
		"a pseudo field behind":       with(":path", "/b"),
		"an unknown pseudo field":     with(":proto", "x"),
		"a pseudo field of an answer": with(":status", "200"),
		"two hosts":                   with("host", "site.example", "host", "site.example"),
		"another host":                with("host", "other.example"),
		"expect: 200-ok":              with("expect", "200-ok"),
		"space in the path":           path("/a HTTP/1.1\r\nX: y"),
		"a single space in the path":  path("/a b"),
		"CR LF in the path":           path("/a\r\nX: y"),
		"NUL in the path":             path("/a\x00"),
		"tab in the path":             path("/a\tb"),
		"a fragment in the path":      path("/a#b"),
		"no slash in the path":        path("a"),
		"an empty path":               path(""),
		"an absolute path":            path("http://site.example/"),
		"asterisk for GET":            path("*"),
		"space in the method":         method("GET /x"),
		"CR LF in the method":         method("GET / HTTP/1.1\r\n\r\nGET"),
		"an empty method":             method(""),
		"CONNECT":                     method("CONNECT"),
		"a host with a space":         host("site.example x"),
		"a host with CR LF":           host("site.example\r\nX: y"),
		"a host with a path":          host("site.example/x"),
		"a host with a user":          host("user@site.example"),
		"a host with a bad port":      host("site.example:99999"),
		"a host with an escape":       host("site%2eexample"),
		"no host":                     host(""),
		"a bad scheme":                {":method", "GET", ":scheme", "gopher", ":authority", "a", ":path", "/"},
		"no scheme":                   {":method", "GET", ":authority", "a", ":path", "/"},
	} {
		t.Run(name, func(t *testing.T) {
			r := dialRaw(t, f)
			before := served.Load()
			status, code, gone := r.outcome(r.open(true, fields...))
			if n := served.Load() - before; n != 0 {
				t.Errorf("reached the service; status %s", status)
			}
			if !strings.HasPrefix(status, "4") && code == 0 {
				t.Errorf("status %q, code %v, gone %v", status, code, gone)
			}
			if gone {
				return
			}
			if status, _, _ := r.outcome(r.open(true, get...)); status != "200" {
				t.Errorf("the next request of the connection got %q", status)
			}
		})
	}
}

// TestWrongLengths: a body whose length differs from the announced one never looks complete to the service.
func TestWrongLengths(t *testing.T) {
	whole := make(chan string, 10)
	f := newFront(t, service(t, func(w http.ResponseWriter, r *http.Request) {
		if b, err := io.ReadAll(r.Body); err == nil {
			whole <- string(b)
		}
		w.WriteHeader(200)
	}), setup{})
	for name, body := range map[string]string{"shorter": "abc", "longer": "abcdefgh", "none": ""} {
		r := dialRaw(t, f)
		id := r.open(false, ":method", "POST", ":scheme", "http", ":authority", "site.example", ":path", "/",
			"content-length", "5")
		_ = r.WriteData(id, true, []byte(body))
		status, code, _ := r.outcome(id)
		if !strings.HasPrefix(status, "4") && code == 0 {
			t.Errorf("%s: status %q", name, status)
		}
	}
	select {
	case b := <-whole:
		t.Errorf("the service read %q as a whole body", b)
	default:
	}
}

// TestFloods: frames without payload, and requests that are cancelled at once, end their connection, are counted, and
// do not affect others.
func TestFloods(t *testing.T) {
	f := newFront(t, service(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200) }),
		setup{h2: func(c *Config) {
			c.MaxResets, c.MaxControlFrames = 50, 100
		}})
	other := dialRaw(t, f)
	for name, c := range map[string]struct {
		metric string
		frame  func(r *raw) error
	}{
		"rapid reset": {
			`antirobot_http2_floods_total{of="resets"}`,
			func(r *raw) error { return r.WriteRSTStream(r.open(true, get...), http2.ErrCodeCancel) },
		},
		"PING": {
			`antirobot_http2_floods_total{of="control_frames"}`,
			func(r *raw) error { return r.WritePing(false, [8]byte{}) },
		},
		"SETTINGS": {
			`antirobot_http2_floods_total{of="control_frames"}`,
			func(r *raw) error { return r.WriteSettings() },
		},
		"PRIORITY": {
			`antirobot_http2_floods_total{of="control_frames"}`,
			func(r *raw) error { return r.WritePriority(99, http2.PriorityParam{Weight: 1}) },
		},
		"unknown": {
			`antirobot_http2_floods_total{of="control_frames"}`,
			func(r *raw) error { return r.WriteRawFrame(0x77, 0, 0, nil) },
		},
		"empty DATA": {
			`antirobot_http2_floods_total{of="control_frames"}`,
			func(r *raw) error { return r.WriteData(1, false, nil) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := f.metric(c.metric)
			r := dialRaw(t, f)
			if name == "empty DATA" {
				r.open(false, ":method", "POST", ":scheme", "http", ":authority", "site.example", ":path", "/")
			}
			ended := make(chan bool, 1)
			go func() { ended <- r.calmed() }()
			for i := range 1000 {
				if c.frame(r) != nil {
					break
				}
				if i == 200 {
					time.Sleep(time.Millisecond) // let the other side see it
				}
			}
			if !<-ended {
				t.Error("the connection did not end")
			}
			if after := f.metric(c.metric); after == before {
				t.Errorf("%s stays %s", c.metric, after)
			}
		})
	}
	t.Run("CONTINUATION", func(t *testing.T) {
		r := dialRaw(t, f)
		_ = r.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: r.block(get...)})
		ended := make(chan bool, 1)
		go func() { ended <- r.calmed() }()
		for i := range 100_000 {
			if r.WriteContinuation(1, false, r.block(fmt.Sprintf("x-%d", i), strings.Repeat("a", 1000))) != nil {
				break
			}
		}
		if !<-ended {
			t.Error("the connection did not end")
		}
		f.awaitMetric(t, `antirobot_http2_floods_total{of="continuations"}`, "1")
	})
	if status, _, _ := other.outcome(other.open(true, get...)); status != "200" {
		t.Errorf("another client got %q", status)
	}
	f.awaitMetric(t, "antirobot_http2_open_connections", "1")
}

// TestLimits: the limits of HTTP/1 apply to each request.
func TestLimits(t *testing.T) {
	f := newFront(t, service(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(200)
	}), setup{
		h1: func(c *h1.Config) {
			c.MaxHeaderBytes, c.MaxHeaderFields, c.MaxBodyBytes = 4000, 20, 10
			c.ReadTimeout = 300 * time.Millisecond
		},
	})
	with := func(more ...string) []string { return append(append([]string(nil), get...), more...) }
	var many []string
	for i := range 20 {
		many = append(many, fmt.Sprintf("x-%d", i), "y")
	}
	for name, c := range map[string]struct {
		status string
		fields []string
	}{
		"target": {"414", []string{":method", "GET", ":scheme", "http", ":authority", "a", ":path", "/" +
			strings.Repeat("a", 1100)}},
		"fields": {"431", with(many...)},
		"head":   {"431", with("x", strings.Repeat("a", 3990))},
		"larger": {"431", with("x", strings.Repeat("a", 3000), "y", strings.Repeat("b", 3000))},
	} {
		r := dialRaw(t, f)
		if status, code, gone := r.outcome(r.open(true, c.fields...)); status != c.status {
			t.Errorf("%s: %q, %v, %v", name, status, code, gone)
		}
	}
	c := client(t, f)
	if res, _ := fetch(t, c, newRequest(t, "POST", "/", strings.NewReader("hello world"))); res.StatusCode != 413 {
		t.Errorf("a body that is too large got %d", res.StatusCode)
	}
	r := dialRaw(t, f)
	id := r.open(false, ":method", "POST", ":scheme", "http", ":authority", "a", ":path", "/", "content-length", "5")
	_ = r.WriteData(id, false, []byte("hel"))
	if status, code, _ := r.outcome(id); status != "408" && code == 0 {
		t.Errorf("a body that does not come got %q", status)
	}
}

// TestSmallHeaderTable: clients send requests, with the table that they begin with, before they have read how large
// theirs may be.
func TestSmallHeaderTable(t *testing.T) {
	f := newFront(t, service(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200) }),
		setup{h2: func(c *Config) { c.HeaderTableBytes = 1 }})
	r := dialRaw(t, f)
	fields := append(slices.Clone(get), "x-kept", "in the table")
	for n := range 2 { // the second refers to what the first has put into the table
		if status, code, gone := r.outcome(r.open(true, fields...)); status != "200" {
			t.Errorf("request %d got %q, %v, %v", n, status, code, gone)
		}
	}
}

// TestOneStreamTooMany: a client that opens more streams than it was told gets that one refused; the others go on.
func TestOneStreamTooMany(t *testing.T) {
	goOn := make(chan struct{})
	f := newFront(t, service(t, func(w http.ResponseWriter, _ *http.Request) {
		<-goOn
		w.WriteHeader(200)
	}), setup{h2: func(c *Config) { c.MaxStreams = 10 }})
	r := dialRaw(t, f)
	first := r.open(true, get...)
	for range 9 {
		r.open(true, get...)
	}
	if status, code, _ := r.outcome(r.open(true, get...)); status != "" || code == 0 {
		t.Errorf("one stream too many got %q", status)
	}
	close(goOn)
	if status, code, _ := r.outcome(first); status != "200" {
		t.Errorf("the first got %q, %v", status, code)
	}
}

const resetFloods = `antirobot_http2_floods_total{of="resets"}`

// mistakes are requests that have no answer yet when their client makes the gateway end them.
var mistakes = map[string]func(r *raw) uint32{
	"WINDOW_UPDATE of nothing": func(r *raw) uint32 {
		id := r.open(true, get...)
		_ = r.WriteWindowUpdate(id,
			0)
		return id
	},
	"WINDOW_UPDATE of too much": func(r *raw) uint32 {
		id := r.open(true, get...)
		_ = r.WriteWindowUpdate(id,
			1<<31-1)
		return id
	},
	"DATA behind the end": func(r *raw) uint32 {
		id := r.open(true, get...)
		_ = r.WriteData(id, true,
			nil)
		return id
	},
	"HEADERS behind the end": func(r *raw) uint32 {
		id := r.open(true, get...)
		r.next = id
		return r.open(true,
			get...)
	},
	"a PRIORITY of its own": func(r *raw) uint32 {
		id := r.open(true, get...)
		_ = r.WritePriority(id, http2.PriorityParam{StreamDep: id})
		return id
	},
	"more DATA than announced": func(r *raw) uint32 {
		id := r.open(false, append(slices.Clone(get), "content-length", "1")...)
		_ = r.WriteData(id, false, []byte("xy"))
		return id
	},
	"a name in upper case": func(r *raw) uint32 { return r.open(true, append(slices.Clone(get), "X-A", "b")...) },
}

// TestResetsThatAreAskedFor: a client whose mistakes make the gateway end its requests is cut as one that ends them
// itself (CVE-2025-8671), and no more of them reach the service.
func TestResetsThatAreAskedFor(t *testing.T) {
	const most = 50
	var served atomic.Int64
	f := newFront(t, service(t, func(_ http.ResponseWriter, r *http.Request) {
		served.Add(1)
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			<-r.Context().Done()
		}
	}), setup{h2: func(c *Config) { c.MaxResets = most }})
	for name, mistake := range mistakes {
		t.Run(name, func(t *testing.T) {
			before := f.metric(resetFloods)
			r := dialRaw(t, f)
			for n := range most + 2 {
				status, code, gone := r.outcome(mistake(r))
				if gone && n == most+1 && code == http2.ErrCodeEnhanceYourCalm {
					break
				}
				if gone || n == most+1 || code == http2.ErrCodeNo {
					t.Fatalf("request %d: status %q, %v, gone %v", n, status, code, gone)
				}
			}
			if after := f.metric(resetFloods); after == before {
				t.Errorf("%s stays %s", resetFloods, after)
			}
		})
	}
	if n := served.Load(); n > int64(len(mistakes)*(most+1)) {
		t.Errorf("%d requests reached the service", n)
	}
}

// TestResetsOfTheGateway: what the gateway ends for reasons of its own, and what its client had sent before it knew, is
// no mistake.
func TestResetsOfTheGateway(t *testing.T) {
	f := newFront(t, service(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "begun")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}), setup{
		h1: func(c *h1.Config) { c.MaxBodyBytes = 10 },
		h2: func(c *Config) { c.MaxResets = 5 },
	})
	r := dialRaw(t, f)
	for range 20 {
		id := r.open(true, get...)
		if status, _, gone := r.outcome(id); status != "200" || gone {
			t.Fatalf("a page got %q, gone %v", status, gone)
		}
		if _, code, gone := r.outcome(id); code != http2.ErrCodeInternal || gone {
			t.Fatalf("a page that was cut ended with %v, gone %v", code, gone)
		}
	}
	for range 5 {
		id := r.open(false, append(slices.Clone(get), "content-length", "100")...)
		if status, _, gone := r.outcome(id); status != "413" || gone {
			t.Fatalf("an upload got %q, gone %v", status, gone)
		}
		if _, code, gone := r.outcome(id); code != http2.ErrCodeNo || gone {
			t.Fatalf("it ended with %v, gone %v", code, gone)
		}
		for range 10 {
			_ = r.WriteData(id, false, []byte("on its way"))
		}
	}
	if status, _, gone := r.outcome(r.open(true, get...)); status != "200" || gone {
		t.Errorf("after them a page got %q, gone %v", status, gone)
	}
	if n := f.metric(resetFloods); n != "0" {
		t.Errorf("%s is %s", resetFloods, n)
	}
}

// TestSentInPieces: resets are found wherever what goes out is cut.
func TestSentInPieces(t *testing.T) {
	var out bytes.Buffer
	w := http2.NewFramer(&out, nil)
	_ = w.WriteSettings()
	_ = w.WriteRSTStream(1, http2.ErrCodeProtocol)
	_ = w.WriteData(3, true, []byte(strings.Repeat("\x03", 300)))
	_ = w.WriteRSTStream(1, http2.ErrCodeStreamClosed) // late
	_ = w.WriteRSTStream(5, http2.ErrCodeNo)
	_ = w.WriteRSTStream(5+2*lateStreams, http2.ErrCodeCancel)
	_ = w.WritePing(true, [8]byte{3, 3})
	_ = w.WriteRSTStream(7, http2.ErrCodeFlowControl)
	want := []http2.ErrCode{http2.ErrCodeProtocol, http2.ErrCodeNo, http2.ErrCodeCancel, http2.ErrCodeFlowControl}
	for size := 1; size <= out.Len(); size++ {
		var s sent
		var got []http2.ErrCode
		for piece := range slices.Chunk(out.Bytes(), size) {
			s.take(piece, func(code http2.ErrCode) { got = append(got, code) })
		}
		if !slices.Equal(got, want) {
			t.Errorf("in pieces of %d bytes: %v", size, got)
		}
	}
}
