package blackbox

import (
	"bufio"
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"antirobot/servertest"
)

// The hosts by which the gateway tells in which protocol it speaks with the service.
const (
	hostHTTP1 = "h1.test"
	hostHTTP2 = "h2.test"
)

// gatewayHTTP2 starts the product's binary with a listener of HTTP/2 without TLS, so that cases can be raw.
func gatewayHTTP2(bin string) launcher {
	return func(t *testing.T, serviceURL string) (string, func()) {
		addr, dir := ports.Addr(t), t.TempDir()
		file := filepath.Join(dir, "antirobot.yaml")
		text := fmt.Sprintf(`listen: [{address: %q, h2c: true}]
admin: {listen: %q}
data_dir: %q
http: {max_conns_per_addr: 0}
defaults: {upstream: {urls: [%q]}}
services:
  - {name: one, hosts: [%s]}
  - {name: two, hosts: [%s], upstream: {protocol: h2}}
`, addr, ports.Addr(t), dir, serviceURL, hostHTTP1, hostHTTP2)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return addr, run(t, addr, bin, "serve", "--config", file)
	}
}

// nginxHTTP2 starts nginx with a listener of HTTP/2 alone; it speaks HTTP/1.1 with services.
func nginxHTTP2(bin string) launcher {
	return func(t *testing.T, serviceURL string) (string, func()) {
		text := strings.Replace(nginxConf, "listen %[2]s;", "listen %[2]s http2; http2_max_concurrent_streams 100;", 1)
		return startNginx(t, bin, text, serviceURL)
	}
}

// suiteStreams runs cases over HTTP/2 against what l starts, one after another. tries is as for suite.
func suiteStreams(t *testing.T, l launcher, cases []Case, host string, tries int, known map[string]bool) (results []result) {
	t.Helper()
	v := newWeb()
	defer v.Close()
	addr, stop := l(t, v.URL)
	defer stop()
	e := &env{addr: addr, host: host, web: v}
	for i := range cases {
		known := known[cases[i].ID()]
		fails := e.runHTTP2(&cases[i], known)
		for again := 1; again < tries && len(fails) > 0 && !known; again++ {
			fails = e.runHTTP2(&cases[i], known)
		}
		results = append(results, result{c: &cases[i], fails: fails})
	}
	return results
}

// runHTTP2 runs one case to its end, and waits until nothing of it can reach the service any more.
func (e *env) runHTTP2(c *Case, known bool) []string {
	x := &X{Case: c, env: e, known: known, done: make(chan struct{}), signals: map[string]chan struct{}{}, named: e.web.next()}
	x.guarded(func() { c.Run(x) })
	close(x.done)
	x.mu.Lock()
	fails, all := x.fails, x.streams
	x.mu.Unlock()
	for _, k := range all {
		k.Close()
	}
	e.settle()
	return fails
}

// settle sends a request of the suite's own, and waits until the service serves no other.
func (e *env) settle() {
	x := &X{Case: &Case{}, env: e, done: make(chan struct{}), signals: map[string]chan struct{}{}}
	x.guarded(func() {
		c := x.dialHTTP2()
		defer c.Close()
		c.mustLive()
	})
	for end := time.Now().Add(patience); e.web.busy.Load() > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}

// TestHTTP2 runs the cases over HTTP/2 against the binary, with a service that speaks HTTP/1.1 and with one of HTTP/2.
func TestHTTP2(t *testing.T) {
	t.Parallel()
	bin := binary(t)
	for _, host := range []string{hostHTTP1, hostHTTP2} {
		t.Run(host, func(t *testing.T) { report(t, suiteStreams(t, gatewayHTTP2(bin), http2Cases(), host, 1, nil), nil) })
	}
}

// TestReferenceHTTP2 runs them against nginx: an unlisted failure there is an error of the suite.
func TestReferenceHTTP2(t *testing.T) {
	t.Parallel()
	report(t, suiteStreams(t, nginxHTTP2(servertest.Need(t, "nginx")), http2Cases(), hostHTTP1, 3, nginxFailsHTTP2), nginxFailsHTTP2)
}

// streamedCases are about answers.
func streamedCases() []Case {
	var l http2List
	head := func(status int, fields ...string) func(*X) serving {
		return func(x *X) serving {
			return func(c *call, w http.ResponseWriter, r *http.Request) {
				x.web().body(c, r)
				for i := 0; i < len(fields); i += 2 {
					w.Header().Add(fields[i], fields[i+1])
				}
				w.WriteHeader(status)
			}
		}
	}
	l.with("HEAD has a length and no body", head(200, "Content-Length", "1234"), func(x *X, c *streams) {
		a := c.await(c.open(true, c.fields("HEAD", "/a")...))
		if !a.Whole() || a.Status != 200 || a.Body.Len() != 0 || a.Fields.Get("content-length") != "1234" {
			x.Errorf("%d %q, %d bytes", a.Status, a.Fields, a.Body.Len())
		}
		c.mustLive()
	})
	for _, status := range []int{204, 304} {
		l.with(fmt.Sprint(status, " has no body"), head(status, "ETag", `"a"`), func(x *X, c *streams) {
			a := c.get("/a")
			if !a.Whole() || a.Status != status || a.Body.Len() != 0 || status == 304 && a.Fields.Get("etag") != `"a"` || status == 204 && a.Fields.Has("content-length") {
				x.Errorf("%d %q, %d bytes", a.Status, a.Fields, a.Body.Len())
			}
			c.mustLive()
		})
	}
	l.with("names of an answer are small", head(200, "X-Upper-Case", "A", "Set-Cookie", "a=b", "Set-Cookie", "c=d"), func(x *X, c *streams) {
		a := c.get("/a")
		if a.Fields.Get("x-upper-case") != "A" || !slices.Equal(slices.DeleteFunc(a.Fields.All("set-cookie"), func(s string) bool { return s[1] != '=' || s[0] == 'i' }), []string{"a=b", "c=d"}) {
			x.Errorf("%q", a.Fields)
		}
		for _, f := range a.Fields {
			if strings.ToLower(f.Name) != f.Name {
				x.Errorf("a field is called %q", f.Name)
			}
		}
	})
	l.with("an interim answer is not the answer", func(x *X) serving {
		return func(c *call, w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Link", "</a.css>; rel=preload")
			w.WriteHeader(http.StatusEarlyHints)
			x.web().ok(c, w, r)
		}
	}, func(x *X, c *streams) {
		if a := c.get("/a"); !a.Whole() || a.Status != 200 || a.Body.String() != "for GET /a" {
			x.Errorf("%d %q", a.Status, clip(a.Body.String()))
		}
	})
	l.with("trailers of an answer", func(x *X) serving {
		return func(c *call, w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Trailer", "X-Sum")
			x.web().ok(c, w, r)
			w.Header().Set("X-Sum", "5")
		}
	}, func(x *X, c *streams) {
		if a := c.get("/a", "te", "trailers"); !a.Whole() || a.Trailer.Get("x-sum") != "5" || a.Fields.Has("x-sum") {
			x.Errorf("%d, trailers %q", a.Status, a.Trailer)
		}
	})
	l.with("pieces come as the service sends them", func(x *X) serving {
		return func(_ *call, w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "first")
			w.(http.Flusher).Flush()
			x.Wait("seen")
			_, _ = io.WriteString(w, " second")
		}
	}, func(x *X, c *streams) {
		id := c.open(true, c.fields("GET", "/a")...)
		a := c.answers[id]
		c.until(func() bool { return a.Body.String() == "first" })
		x.Signal("seen")
		if c.await(id); a.Body.String() != "first second" {
			x.Errorf("%q", clip(a.Body.String()))
		}
	})
	for name, announced := range map[string]bool{"with a length": true, "without one": false} {
		l.with("a cut answer does not look whole: "+name, func(*X) serving {
			return func(_ *call, w http.ResponseWriter, _ *http.Request) {
				if announced {
					w.Header().Set("Content-Length", "200000")
				}
				_, _ = w.Write(make([]byte, 100_000))
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			}
		}, func(x *X, c *streams) {
			if a := c.get("/a"); a.Whole() && a.Status < 500 {
				x.Errorf("%d, %d bytes", a.Status, a.Body.Len())
			}
			c.mustLive()
		})
	}
	l.with("who takes a request back frees the service", func(x *X) serving {
		return func(_ *call, _ http.ResponseWriter, r *http.Request) {
			x.Signal("began")
			<-r.Context().Done()
			x.Signal("left")
		}
	}, func(x *X, c *streams) {
		id := c.open(true, c.fields("GET", "/a")...)
		x.Wait("began")
		_ = c.WriteRSTStream(id, http2.ErrCodeCancel)
		x.Wait("left")
		c.mustLive()
	})
	l.with("who says goodbye still gets the answer", func(x *X) serving {
		return func(c *call, w http.ResponseWriter, r *http.Request) {
			x.Wait("goodbye")
			x.web().ok(c, w, r)
		}
	}, func(x *X, c *streams) {
		id := c.open(true, c.fields("GET", "/a")...)
		_ = c.WriteGoAway(0, http2.ErrCodeNo, nil)
		x.Signal("goodbye")
		if a := c.await(id); a.Body.String() != "for GET /a" {
			x.Errorf("%d %q, gone %v", a.Status, clip(a.Body.String()), c.gone)
		}
	})
	l.with("many at once, none mixed up", func(x *X) serving {
		return func(c *call, w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Duration(len(r.URL.Path)%5) * time.Millisecond)
			x.web().ok(c, w, r)
		}
	}, func(x *X, c *streams) {
		path := func(i int) string { return fmt.Sprintf("/%d/%s", i, strings.Repeat("a", i)) }
		var ids []uint32
		for i := range 60 {
			ids = append(ids, c.open(true, c.fields("GET", path(i))...))
		}
		for i, id := range ids {
			if a := c.await(id); !a.Whole() || a.Body.String() != "for GET "+path(i) {
				x.Errorf("%s got %d %q", path(i), a.Status, clip(a.Body.String()))
			}
		}
	})
	return l
}

// connectCases are the forms of CONNECT: none of them may open a way to another host.
func connectCases() []Case {
	var l http2List
	refuse := func(name string, fields ...string) {
		l.add("CONNECT: "+name, func(x *X, c *streams) {
			own := slices.Clone(fields)
			for i := range own {
				own[i] = strings.ReplaceAll(own[i], "HOST", x.env.host)
			}
			a := c.await(c.open(false, own...))
			if !a.Reset && !c.gone && !c.away && a.Status < 400 {
				x.Errorf("status %d", a.Status)
			}
			if n := len(x.called()); n != 0 {
				x.Errorf("it reached the service: %s", seen(x.called()))
			}
		})
	}
	refuse("a way to a host", ":method", "CONNECT", ":authority", "HOST:80")
	refuse("with a path", ":method", "CONNECT", ":scheme", "http", ":authority", "HOST:80", ":path", "/")
	refuse("without an authority", ":method", "CONNECT")
	refuse("UDP", ":method", "CONNECT", ":protocol", "connect-udp", ":scheme", "http", ":authority", "HOST", ":path", "/.well-known/masque/udp/192.0.2.6/443/")
	refuse("a protocol of GET", ":method", "GET", ":protocol", "websocket", ":scheme", "http", ":authority", "HOST", ":path", "/ws")
	refuse("a protocol without a path", ":method", "CONNECT", ":protocol", "websocket", ":scheme", "http", ":authority", "HOST")
	socket := func(x *X, c *streams) uint32 {
		return c.open(false, ":method", "CONNECT", ":protocol", "websocket", ":scheme", "http", ":authority", x.env.host, ":path", "/ws", "sec-websocket-version", "13")
	}
	l.with("CONNECT: a WebSocket", func(x *X) serving { return echoSocket }, func(x *X, c *streams) {
		c.until(func() bool { return len(c.says) > 0 })
		if v, ok := setting(c.says, http2.SettingEnableConnectProtocol); !ok || v != 1 {
			x.Fatalf("it is not offered: %v", c.says)
		}
		if x.env.host == hostHTTP2 {
			return // services of HTTP/2 are not asked for one
		}
		id := socket(x, c)
		a := c.answers[id]
		c.until(func() bool { return a.Status > 0 })
		for _, word := range []string{"one", strings.Repeat("two", 10_000)} {
			before := a.Body.Len()
			c.send(id, word, false)
			c.until(func() bool { return a.Body.Len() == before+len(word) })
			if a.Status != 200 || !strings.HasSuffix(a.Body.String(), word) {
				x.Errorf("status %d %q", a.Status, clip(a.Body.String()))
			}
		}
		_ = c.WriteData(id, true, nil)
		c.await(id)
		c.mustLive()
	})
	l.add("CONNECT: a WebSocket that the service refuses", func(x *X, c *streams) {
		id := socket(x, c)
		if a := c.await(id); a.Status/100 == 2 {
			x.Errorf("status %d: a page looks like a WebSocket", a.Status)
		}
		_ = c.WriteRSTStream(id, http2.ErrCodeCancel)
		c.mustLive()
	})
	return l
}

func setting(all []http2.Setting, id http2.SettingID) (uint32, bool) {
	for _, s := range all {
		if s.ID == id {
			return s.Val, true
		}
	}
	return 0, false
}

// echoSocket agrees to become a WebSocket, and says what it hears.
func echoSocket(_ *call, w http.ResponseWriter, r *http.Request) {
	nc, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotImplemented)
		return
	}
	defer nc.Close()
	_, _ = fmt.Fprintf(nc, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: %s\r\n\r\n", acceptOf(r.Header.Get("Sec-WebSocket-Key")))
	_, _ = io.Copy(nc, bufio.NewReader(rw))
}

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

// serving is what the service does in a case; nil: ok.
type serving = func(c *call, w http.ResponseWriter, r *http.Request)

// http2List gathers cases over HTTP/2.
type http2List []Case

func (l *http2List) add(name string, run func(x *X, c *streams)) {
	l.with(name, nil, run)
}

// with adds a case whose service does something of its own.
func (l *http2List) with(name string, serve func(x *X) serving, run func(x *X, c *streams)) {
	*l = append(*l, Case{Cat: "http2", Name: name, Run: func(x *X) {
		if serve != nil {
			x.web().begin(serve(x))
		}
		run(x, x.dialHTTP2())
	}})
}

func http2Cases() []Case {
	var out []Case
	for _, f := range []func() []Case{malformedCases, requestCases, uploadCases, streamedCases, connectCases, windowCases, floodCases} {
		out = append(out, f()...)
	}
	return out
}

// malformedCases are requests that RFC 9113 section 8 forbids, or that HTTP/1.1 could read differently. None may reach the
// service. The client gets 4xx or a reset, and if its connection is spared, the next request of it is served.
func malformedCases() []Case {
	var l http2List
	refuse := func(name string, fields func(c *streams) []string) {
		l.add("refused: "+name, func(x *X, c *streams) {
			a := c.await(c.open(true, fields(c)...))
			if !c.gone && !c.away {
				c.mustLive()
			}
			if n := len(x.called()); n != 0 {
				x.Errorf("it reached the service: %s", seen(x.called()))
			}
			if !a.Reset && !c.gone && !c.away && (a.Status < 400 || a.Status >= 500 && a.Status != 501) {
				x.Errorf("status %d %q", a.Status, clip(a.Body.String()))
			}
		})
	}
	with := func(name string, more ...string) {
		refuse(name, func(c *streams) []string { return c.fields("GET", "/a", more...) })
	}
	for _, b := range []struct{ name, bytes string }{{"CR", "\r"}, {"LF", "\n"}, {"CR LF", "\r\nx-smuggled: 1"}, {"NUL", "\x00"}} {
		with(b.name+" in a value", "x", "a"+b.bytes+"b")
		with(b.name+" in a name", "x"+b.bytes+"y", "a")
		with(b.name+" in a cookie", "cookie", "a=b"+b.bytes+"c")
		refuse(b.name+" in the path", func(c *streams) []string { return c.fields("GET", "/a"+b.bytes) })
		refuse(b.name+" in the method", func(c *streams) []string { return c.fields("GET"+b.bytes, "/a") })
		refuse(b.name+" in the authority", func(c *streams) []string {
			return []string{":method", "GET", ":scheme", "http", ":authority", c.x.env.host + b.bytes, ":path", "/a"}
		})
	}
	with("space in a name", "transfer encoding", "chunked")
	with("colon in a name", "x:y", "a")
	with("upper case in a name", "X-Upper", "a")
	with("an empty name", "", "a")
	with("a byte above 0x7f in a name", "x\xe9", "a")
	for _, f := range [][2]string{
		{"connection", "close"},
		{"connection", "x-a"},
		{"keep-alive", "timeout=5"},
		{"proxy-connection", "keep-alive"},
		{"transfer-encoding", "chunked"},
		{"upgrade", "websocket"},
		{"te", "gzip"},
		{"te", "trailers, deflate"},
	} {
		with(f[0]+": "+f[1], f[0], f[1])
	}
	with("two hosts", "host", "h1.test", "host", "h2.test")
	with("a host other than the authority", "host", "other.test")
	with("two lengths", "content-length", "0", "content-length", "5")
	with("a length that is not there", "content-length", "5")
	with("a signed length", "content-length", "+0")
	with("a length in hexadecimal", "content-length", "0x0")
	pseudo := func(name string, fields ...string) {
		refuse(name, func(c *streams) []string {
			for i := range fields {
				fields[i] = strings.ReplaceAll(fields[i], "HOST", c.x.env.host)
			}
			return fields
		})
	}
	pseudo("a pseudo field behind a field", ":method", "GET", ":scheme", "http", ":authority", "HOST", "accept", "*/*", ":path", "/a")
	pseudo("two methods", ":method", "GET", ":method", "POST", ":scheme", "http", ":authority", "HOST", ":path", "/a")
	pseudo("two paths", ":method", "GET", ":scheme", "http", ":authority", "HOST", ":path", "/a", ":path", "/b")
	pseudo("two authorities", ":method", "GET", ":scheme", "http", ":authority", "HOST", ":authority", "HOST", ":path", "/a")
	pseudo("two schemes", ":method", "GET", ":scheme", "http", ":scheme", "https", ":authority", "HOST", ":path", "/a")
	pseudo("an unknown pseudo field", ":method", "GET", ":scheme", "http", ":authority", "HOST", ":path", "/a", ":name", "x")
	pseudo("a pseudo field of answers", ":status", "200", ":method", "GET", ":scheme", "http", ":authority", "HOST", ":path", "/a")
	pseudo("no method", ":scheme", "http", ":authority", "HOST", ":path", "/a")
	pseudo("no scheme", ":method", "GET", ":authority", "HOST", ":path", "/a")
	pseudo("no path", ":method", "GET", ":scheme", "http", ":authority", "HOST")
	pseudo("an empty path", ":method", "GET", ":scheme", "http", ":authority", "HOST", ":path", "")
	pseudo("a path without a slash", ":method", "GET", ":scheme", "http", ":authority", "HOST", ":path", "a")
	pseudo("an absolute path", ":method", "GET", ":scheme", "http", ":authority", "HOST", ":path", "http://HOST/a")
	pseudo("* of a GET", ":method", "GET", ":scheme", "http", ":authority", "HOST", ":path", "*")
	pseudo("a path with a space", ":method", "GET", ":scheme", "http", ":authority", "HOST", ":path", "/a HTTP/1.1")
	pseudo("a method with a space", ":method", "GET /b", ":scheme", "http", ":authority", "HOST", ":path", "/a")
	pseudo("an authority with a user", ":method", "GET", ":scheme", "http", ":authority", "user@HOST", ":path", "/a")
	pseudo("no host at all", ":method", "GET", ":scheme", "http", ":path", "/a")
	return l
}

// requestCases are requests whose meaning may not change on the way.
func requestCases() []Case {
	var l http2List
	l.add("cookie crumbs are joined", func(x *X, c *streams) {
		c.get("/a", "cookie", "a=1", "x-a", "y", "cookie", "b=2", "cookie", "c=3")
		if got := x.onlyCall().Header["Cookie"]; !slices.Equal(got, []string{"a=1; b=2; c=3"}) {
			x.Errorf("the service saw the cookies %q", got)
		}
	})
	l.add("the authority is the host", func(x *X, c *streams) {
		c.get("/a?b=c", "host", x.env.host)
		if q := x.onlyCall(); q.Host != x.env.host || q.Target != "/a?b=c" {
			x.Errorf("the service saw the host %q, the target %q", q.Host, q.Target)
		}
	})
	l.add("host without an authority", func(x *X, c *streams) {
		c.await(c.open(true, ":method", "GET", ":scheme", "http", ":path", "/a", "host", x.env.host))
		if q := x.onlyCall(); q.Host != x.env.host {
			x.Errorf("the service saw the host %q", q.Host)
		}
	})
	l.add("fields of one name stay apart, in their order", func(x *X, c *streams) {
		c.get("/a", "x-a", "1", "x-b", "2", "x-a", "3", "x-a", "")
		if got := x.onlyCall().Header["X-A"]; !slices.Equal(got, []string{"1", "3", ""}) && strings.Join(got, ", ") != "1, 3, " {
			x.Errorf("the service saw %q", got)
		}
	})
	l.add("te: trailers is nobody's error", func(x *X, c *streams) {
		if a := c.get("/a", "te", "trailers"); a.Status != 200 {
			x.Errorf("status %d", a.Status)
		}
	})
	l.add("the scheme does not say how the client came", func(x *X, c *streams) {
		c.await(c.open(true, ":method", "GET", ":scheme", "https", ":authority", x.env.host, ":path", "/a"))
		for _, q := range x.called() {
			if got := q.Header.Get("X-Forwarded-Proto"); got != "http" {
				x.Errorf("X-Forwarded-Proto %q over a connection without TLS", got)
			}
		}
	})
	l.add("who the client is can't be forged", func(x *X, c *streams) {
		c.get("/a", "x-forwarded-for", "203.0.113.9", "x-real-ip", "203.0.113.9", "forwarded", "for=203.0.113.9", "proxy", "http://evil.test")
		if q := x.onlyCall(); strings.Contains(strings.Join(q.Header["X-Forwarded-For"], ","), "203.0.113.9") || q.Header.Get("X-Real-Ip") == "203.0.113.9" || q.Header.Get("Forwarded") != "" {
			x.Errorf("the service saw %v", q.Header)
		}
	})
	l.add("* of OPTIONS", func(x *X, c *streams) {
		c.await(c.open(true, c.fields("OPTIONS", "*")...))
		if q := x.onlyCall(); q.Target != "*" || q.Method != "OPTIONS" {
			x.Errorf("the service saw %s %s", q.Method, q.Target)
		}
	})
	l.add("a path stays as it is", func(x *X, c *streams) {
		c.get("//a/../b%2Fc/./d;e?f=%20&g=h?i")
		if q := x.onlyCall(); q.Target != "//a/../b%2Fc/./d;e?f=%20&g=h?i" {
			x.Errorf("the service saw %s", q.Target)
		}
	})
	l.add("an unknown method", func(x *X, c *streams) {
		c.await(c.open(true, c.fields("PROPFIND", "/a")...))
		if q := x.onlyCall(); q.Method != "PROPFIND" {
			x.Errorf("the service saw %s", q.Method)
		}
	})
	l.add("a head in pieces", func(x *X, c *streams) { // RFC 9113 section 6.10: of any length, none too
		long := strings.Repeat("v", 20_000)
		block := c.encode(c.fields("GET", "/a", "x-long", long, "x-last", "1")...)
		id := c.begin()
		_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndStream: true})
		for _, n := range []int{1, 0, 100, 15_000} {
			_ = c.WriteContinuation(id, false, block[:n])
			block = block[n:]
		}
		_ = c.WriteContinuation(id, true, block)
		c.await(id)
		if q := x.onlyCall(); q.Header.Get("X-Long") != long || q.Header.Get("X-Last") != "1" {
			x.Errorf("the service saw fields of %d bytes", len(q.Header.Get("X-Long")))
		}
	})
	l.add("padding and priorities are nobody's content", func(x *X, c *streams) {
		id := c.begin()
		_ = c.WriteHeaders(http2.HeadersFrameParam{
			StreamID: id, BlockFragment: c.encode(c.fields("POST", "/a")...), EndHeaders: true, PadLength: 200,
			Priority: http2.PriorityParam{StreamDep: 7, Exclusive: true, Weight: 3},
		})
		_ = c.WritePriority(id, http2.PriorityParam{StreamDep: 5})
		_ = c.WriteRawFrame(0x10, 0, 0, []byte("\x00\x00\x00\x01u=3")) // PRIORITY_UPDATE, RFC 9218
		_ = c.WriteRawFrame(0xbb, 0xff, id, []byte("unknown"))
		_ = c.WriteDataPadded(id, false, []byte("he"), make([]byte, 255))
		_ = c.WriteDataPadded(id, true, []byte("llo"), []byte{0})
		c.await(id)
		if q := x.onlyCall(); q.Body != "hello" {
			x.Errorf("the service got %q", q.Body)
		}
	})
	l.add("too large a head", func(x *X, c *streams) {
		id := c.open(true, c.fields("GET", "/a", "x-a", strings.Repeat("a", 16_000))...) // the largest frame
		c.await(id)
		var many []string
		for range 30 {
			many = append(many, "x-a", strings.Repeat("a", 16_000))
		}
		block := c.encode(c.fields("GET", "/huge", many...)...)
		id = c.begin()
		_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndStream: true, BlockFragment: block[:10]})
		for block = block[10:]; len(block) > 16_000; block = block[16_000:] {
			_ = c.WriteContinuation(id, false, block[:16_000])
		}
		_ = c.WriteContinuation(id, true, block)
		a := c.answers[id]
		if c.until(func() bool { return a.Ended || a.Reset || c.away }); a.Status != 431 && a.Status != 400 && !a.Reset && !c.away && !c.gone {
			x.Errorf("status %d", a.Status)
		}
		for _, q := range x.called() {
			if q.Target == "/huge" {
				x.Errorf("half a megabyte of head reached the service")
			}
		}
	})
	return l
}

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

// web is the service behind the proxy that speaks HTTP/1.1 and HTTP/2, by net/http, which is nobody's relative here.
type web struct {
	*httptest.Server

	busy atomic.Int64 // requests that are being served

	mu    sync.Mutex
	of    string // the case, as its requests name it
	calls []*call
	serve func(*call, http.ResponseWriter, *http.Request)
}

// fieldCase is the field by which a request names its case: one of an earlier case may come late.
const fieldCase = "X-Case"

// call is a request as the service saw it.
type call struct {
	Proto, Method, Target, Host string
	Length                      int64
	Header, Trailer             http.Header
	Body                        string
	Done                        bool // the body was read
	Whole                       bool // to its proper end
}

func newWeb() *web {
	v := new(web)
	v.Server = httptest.NewUnstartedServer(v)
	v.Config.ErrorLog = log.New(io.Discard, "", 0) // cases end handlers by panics
	v.Config.DisableGeneralOptionsHandler = true
	v.Config.Protocols = new(http.Protocols)
	v.Config.Protocols.SetHTTP1(true)
	v.Config.Protocols.SetUnencryptedHTTP2(true)
	v.Start()
	return v
}

// ServeHTTP implements http.Handler.
func (v *web) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v.busy.Add(1)
	defer v.busy.Add(-1)
	c := &call{Proto: r.Proto, Method: r.Method, Target: r.RequestURI, Host: r.Host, Length: r.ContentLength, Header: r.Header.Clone()}
	v.mu.Lock()
	of, serve := r.Header.Get(fieldCase), v.serve
	late := of != "" && of != v.of
	if !late {
		v.calls = append(v.calls, c)
	}
	v.mu.Unlock()
	if serve == nil || late || r.URL.Path == "/still-alive" {
		serve = v.ok
	}
	serve(c, w, r)
}

// body reads the rest of a request.
func (v *web) body(c *call, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	v.mu.Lock()
	defer v.mu.Unlock()
	c.Body, c.Trailer, c.Done, c.Whole = string(b), r.Trailer, true, err == nil
}

// ok is the answer unless a case says otherwise: it names the request, so that answers can't be mixed up.
func (v *web) ok(c *call, w http.ResponseWriter, r *http.Request) {
	v.body(c, r)
	_, _ = io.WriteString(w, "for "+r.Method+" "+r.RequestURI)
}

// next begins a case, and returns how its requests name it.
func (v *web) next() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	n, _ := strconv.Atoi(v.of)
	v.of, v.calls, v.serve = strconv.Itoa(n+1), nil, nil
	return v.of
}

// begin makes serve what requests get from now on; nil: ok.
func (v *web) begin(serve func(*call, http.ResponseWriter, *http.Request)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.calls, v.serve = nil, serve
}

// web is the service of the case.
func (x *X) web() *web { return x.env.web }

// called returns copies of the requests that the service has seen, but those of mustLive.
func (x *X) called() (all []call) {
	v := x.web()
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, c := range v.calls {
		if c.Target != "/still-alive" {
			all = append(all, *c)
		}
	}
	return all
}

// onlyCall is the only request that the service sees, read to its end. If none has come by now, none will.
func (x *X) onlyCall() call {
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		all := x.called()
		if len(all) == 1 && all[0].Done {
			return all[0]
		}
		if len(all) != 1 || time.Now().After(end) {
			x.Fatalf("the service saw %d requests: %s", len(all), seen(all))
		}
	}
}

func seen(all []call) string { return clip(fmt.Sprintf("%+v", all)) }
