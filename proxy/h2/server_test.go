package h2

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/net/http2"

	"antirobot/proxy/h1"
)

func certificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"site.example"}, NotAfter: time.Now().
		Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// TestHandshake: the client's choice decides the protocol; data that starts with a preface where HTTP/2 was not chosen
// is not a request.
func TestHandshake(t *testing.T) {
	f := newFront(t, service(t, func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(r.Proto)) }),
		setup{tls: &tls.Config{
			Certificates: []tls.Certificate{certificate(t)},
			NextProtos:   []string{"h2", "http/1.1"},
		}})
	for _, c := range []struct {
		offer []string
		want  string
	}{{[]string{"h2", "http/1.1"}, "HTTP/2.0"}, {[]string{"http/1.1"}, "HTTP/1.1"}, {nil, "HTTP/1.1"}} {
		tr := &http.Transport{
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: true, NextProtos: c.offer},
			ForceAttemptHTTP2: len(c.offer) == 2,
		}
		res, err := (&http.Client{Transport: tr}).Get("https://" + f.addr + "/")
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.Proto != c.want || res.StatusCode != 200 {
			t.Errorf("%v: %s %d", c.offer, res.Proto, res.StatusCode)
		}
		tr.CloseIdleConnections()
	}
	nc, err := tls.Dial("tcp", f.addr, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(20 * time.Second))
	_, _ = nc.Write([]byte(http2.ClientPreface))
	b := make([]byte, 12)
	if _, err := nc.Read(b); err != nil || string(b) != "HTTP/1.1 505" {
		t.Errorf("%q, %v", b, err)
	}
}

// TestDrain: Shutdown sends GOAWAY, lets a request in progress finish, and accepts no other.
func TestDrain(t *testing.T) {
	began, goOn := make(chan struct{}), make(chan struct{})
	f := newFront(t, service(t, func(w http.ResponseWriter, _ *http.Request) {
		close(began)
		<-goOn
		w.WriteHeader(200)
	}), setup{})
	release := sync.OnceFunc(func() { close(goOn) })
	t.Cleanup(release) // before the service is awaited
	r, unused := dialRaw(t, f), dialRaw(t, f)
	id := r.open(true, get...)
	<-began
	f.awaitMetric(t, "antirobot_http2_open_connections", "2")
	ended := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		ended <- f.h1.Shutdown(ctx)
	}()
	awaitGoAway(t, r)
	awaitGoAway(t, unused)
	release()
	if status, code, gone := r.outcome(id); status != "200" {
		t.Errorf("the request under way got %q, %v, %v", status, code, gone)
	}
	if err := <-ended; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if !r.ends() || !unused.ends() {
		t.Error("a connection goes on")
	}
}

// tardy is a connection that begins to be served while everybody is asked to leave.
type tardy struct {
	net.Conn
	begins func()
}

func (c tardy) RemoteAddr() net.Addr {
	c.begins()
	return c.Conn.RemoteAddr()
}

// TestDrainFindsLateConnections: a connection that http2.Server learns of just after the others were asked to leave is
// asked too.
func TestDrainFindsLateConnections(t *testing.T) {
	f := newFront(t, "http://127.0.0.1:1", setup{})
	ours, theirs := net.Pipe()
	defer theirs.Close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.h2.ServeConn(tardy{ours, sync.OnceFunc(func() {
			f.h2.Drain()
			time.Sleep(50 * time.Millisecond) // the others have been asked
		})}, h1.Origin{})
	}()
	_ = theirs.SetDeadline(time.Now().Add(60 * time.Second))
	go func() { _, _ = io.WriteString(theirs, http2.ClientPreface+"\x00\x00\x00\x04\x00\x00\x00\x00\x00") }()
	awaitGoAway(t, &raw{t: t, Conn: theirs, Framer: http2.NewFramer(io.Discard, theirs)})
	theirs.Close()
	<-ended
}

func awaitGoAway(t *testing.T, r *raw) {
	t.Helper()
	for {
		f, err := r.ReadFrame()
		if err != nil {
			t.Fatalf("no GOAWAY: %v", err)
		}
		if g, ok := f.(*http2.GoAwayFrame); ok {
			if g.ErrCode != http2.ErrCodeNo {
				t.Errorf("GOAWAY with %v", g.ErrCode)
			}
			return
		}
	}
}

// TestShutdownCuts: a request still running after the grace period is cut, and Shutdown waits for its handler.
func TestShutdownCuts(t *testing.T) {
	left := make(chan struct{})
	f := newFront(t, service(t, func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		close(left)
	}), setup{})
	r := dialRaw(t, f)
	r.open(true, get...)
	f.awaitMetric(t, "antirobot_http2_open_streams", "1")
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if err := f.h1.Shutdown(ctx); err == nil {
		t.Error("Shutdown says that nothing was cut")
	}
	if n := f.metric("antirobot_http2_open_streams"); n != "0" {
		t.Errorf("%s streams after Shutdown", n)
	}
	<-left
}

// TestRequestsPerConnection: the last request is answered, and its connection is then closed gracefully.
func TestRequestsPerConnection(t *testing.T) {
	f := newFront(t, service(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200) }),
		setup{h1: func(c *h1.Config) { c.MaxRequestsPerConn = 3 }})
	c := client(t, f)
	for range 9 {
		if res, _ := fetch(t, c, newRequest(t, "GET", "/", nil)); res.StatusCode != 200 {
			t.Errorf("status %d", res.StatusCode)
		}
	}
	if n := f.metric("antirobot_http2_connections_total"); n != "3" {
		t.Errorf("%s connections for nine requests", n)
	}
}

// TestPanic: a handler that panics costs its stream, and is counted.
func TestPanic(t *testing.T) {
	f := newFront(t, "http://127.0.0.1:1", setup{handler: func(x *h1.Exchange, _ func()) {
		if string(x.View.Path) == "/panic" {
			panic("a test")
		}
		_ = x.Reply(200, nil, nil)
	}})
	c := client(t, f)
	if res, _ := fetch(t, c, newRequest(t, "GET", "/panic", nil)); res.StatusCode != 500 {
		t.Errorf("status %d", res.StatusCode)
	}
	if res, _ := fetch(t, c, newRequest(t, "GET", "/", nil)); res.StatusCode != 200 {
		t.Errorf("status %d", res.StatusCode)
	}
	if n := f.metric("antirobot_http_panics_total"); n != "1" {
		t.Errorf("%s panics", n)
	}
}

// TestRequests: a client's request arrives as HTTP/1.1, and the answer comes back.
func TestRequests(t *testing.T) {
	var seen string
	url := service(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen = fmt.Sprintf("%s %s %s host=%s cl=%d te=%v cookie=%q ip=%s x=%q body=%q trailer=%v", r.Proto, r.Method,
			r.RequestURI, r.Host,
			r.ContentLength, r.TransferEncoding, r.Header["Cookie"], r.Header.Get("X-Real-Ip"), r.Header["X-Two"], body,
			r.Trailer)
		switch r.URL.Path {
		case "/none":
			w.WriteHeader(204)
		case "/same":
			w.Header().Set("ETag", `"x"`)
			w.WriteHeader(304)
		case "/early":
			w.Header().Set("Link", "</a.css>; rel=preload")
			w.WriteHeader(103)
			fallthrough
		case "/trailers":
			w.Header().Set("Trailer", "X-Sum")
			_, _ = io.WriteString(w, "hello")
			w.(http.Flusher).Flush()
			w.Header().Set("X-Sum", "5")
		default:
			w.Header().Set("Connection", "X-Hop")
			w.Header().Set("X-Hop", "1")
			_, _ = io.WriteString(w, "ok")
		}
	})
	f := newFront(t, url, setup{})
	c := client(t, f)
	ask := func(want string, req *http.Request) (*http.Response, string) {
		t.Helper()
		res, body := fetch(t, c, req)
		if seen != want {
			t.Errorf("the service saw %s\n               want %s", seen, want)
		}
		return res, body
	}
	req := newRequest(t, "GET", "/a%2fb//c?d=e", nil)
	req.Header["X-Two"] = []string{"1", "2"}
	req.Header.Set("Cookie", "a=b; c=d") // the client sends it in crumbs
	res, body := ask(`HTTP/1.1 GET /a%2fb//c?d=e host=site.example cl=0 te=[] cookie=["a=b; c=d"] ip=127.0.0.1 x=["1" "2"] body="" trailer=map[]`, req)
	if res.StatusCode != 200 || body != "ok" || res.Header.Get("X-Hop") != "" || res.ContentLength != 2 {
		t.Errorf("%v %q", res, body)
	}
	ask(`HTTP/1.1 POST /p host=site.example cl=5 te=[] cookie=[] ip=127.0.0.1 x=[] body="hello" trailer=map[]`,
		newRequest(t, "POST", "/p", strings.NewReader("hello")))
	req = newRequest(t, "PUT", "/p", io.MultiReader(strings.NewReader("of unknown length")))
	req.Trailer = http.Header{"X-After": {"1"}}
	ask(`HTTP/1.1 PUT /p host=site.example cl=-1 te=[chunked] cookie=[] ip=127.0.0.1 x=[] body="of unknown length" trailer=map[X-After:[1]]`, req)
	res, body = ask(`HTTP/1.1 HEAD / host=site.example cl=0 te=[] cookie=[] ip=127.0.0.1 x=[] body="" trailer=map[]`,
		newRequest(t, "HEAD", "/", nil))
	if res.ContentLength != 2 || body != "" {
		t.Errorf("HEAD: %d %q", res.ContentLength, body)
	}
	for path, status := range map[string]int{"/none": 204, "/same": 304} {
		if res, body := fetch(t, c, newRequest(t, "GET", path, nil)); res.StatusCode != status || body != "" ||
			res.Header.Get("Content-Type") != "" {
			t.Errorf("%s: %v %q", path, res, body)
		}
	}
	if res, body := fetch(t, c, newRequest(t, "GET", "/trailers", nil)); body != "hello" ||
		res.Trailer.Get("X-Sum") != "5" {
		t.Errorf("%q, trailers %v", body, res.Trailer)
	}
	var early []string
	req = newRequest(t, "GET", "/early", nil)
	req = req.WithContext(httptrace.WithClientTrace(req.Context(),
		&httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			early = append(early, fmt.Sprint(code, " ", h.Get("Link")))
			return nil
		}}))
	if _, body := fetch(t, c, req); body != "hello" || !slices.Equal(early, []string{"103 </a.css>; rel=preload"}) {
		t.Errorf("%q, before it %q", body, early)
	}
	if n := f.metric("antirobot_http2_connections_total"); n != "1" {
		t.Errorf("%s connections", n)
	}
}

// TestView is what the verdict sees.
func TestView(t *testing.T) {
	var seen string
	f := newFront(t, "http://127.0.0.1:1", setup{handler: func(x *h1.Exchange, _ func()) {
		v := &x.View
		seen = fmt.Sprintf("%s %s %s %s %s %s %v %v %v", v.Method, v.Host, v.HostPort, v.Path, v.Query, v.Peer, v.HTTP2,
			v.HTTP10, v.TLS)
		for _, f := range v.Fields {
			seen += fmt.Sprintf("|%s: %s", f.Name, f.Value)
		}
		_ = x.Reply(200, nil, []byte("own"))
	}})
	r := dialRaw(t, f)
	id := r.open(true, ":method", "GET", ":scheme", "http", ":authority", "Site.Example:81", ":path", "/a?b",
		"user-agent", "x", "accept", "*/*", "cookie", "a=1", "cookie", "b=2")
	if status, _, _ := r.outcome(id); status != "200" {
		t.Fatalf("status %s", status)
	}
	const want = "GET site.example Site.Example:81 /a b 127.0.0.1 true false false|host: Site.Example:81|accept: " +
		"*/*|cookie: a=1; b=2|user-agent: x"
	if seen != want {
		t.Errorf("saw  %s\nwant %s", seen, want)
	}
}

// TestASlowStreamBlocksNoOther: a client that reads nothing of a large answer still gets other answers on the
// connection, and the unread answer is cut in the end.
func TestASlowStreamBlocksNoOther(t *testing.T) {
	f := newFront(t, service(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/large" {
			_, _ = w.Write(make([]byte, 8<<20))
			return
		}
		_, _ = io.WriteString(w, "ok")
	}), setup{h1: func(c *h1.Config) { c.WriteTimeout = 2 * time.Second }})
	r := dialRaw(t, f, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1000})
	large := r.open(true, ":method", "GET", ":scheme", "http", ":authority", "site.example", ":path", "/large")
	if status, _, _ := r.outcome(large); status != "200" {
		t.Fatalf("status %s", status)
	}
	for range 20 {
		if status, _, _ := r.outcome(r.open(true, get...)); status != "200" {
			t.Fatalf("beside it: status %s", status)
		}
	}
	if _, code, _ := r.outcome(large); code == 0 {
		t.Error("the answer that nobody took was not cut")
	}
	f.awaitMetric(t, "antirobot_http2_open_streams", "0")
}

// TestBodyByAMoment: a body that did not arrive by the given moment can still be forwarded.
func TestBodyByAMoment(t *testing.T) {
	var read []string
	patience, late := time.Minute, make(chan struct{})
	f := newFront(t, service(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }),
		setup{handler: func(x *h1.Exchange, forward func()) {
			b, err := x.ReadBodyBy(1000, x.View.At.Add(patience))
			read = append(read, fmt.Sprint(string(b), err))
			if err != nil {
				close(late)
			}
			forward()
		}})
	c := client(t, f)
	if _, body := fetch(t, c, newRequest(t, "POST", "/", strings.NewReader("at once"))); body != "at once" {
		t.Errorf("got %q", body)
	}
	patience = 200 * time.Millisecond
	pr, pw := io.Pipe()
	go func() {
		_, _ = io.WriteString(pw, "first ")
		<-late
		_, _ = io.WriteString(pw, "second")
		_ = pw.Close()
	}()
	if _, body := fetch(t, c, newRequest(t, "POST", "/", pr)); body != "first second" {
		t.Errorf("got %q", body)
	}
	if want := []string{"at once<nil>", h1.ErrBodyLate.Error()}; !slices.Equal(read, want) {
		t.Errorf("read %q, want %q", read, want)
	}
}

// echo answers every message of a WebSocket at /ws; other paths try to pass for one.
func echo(t *testing.T) string {
	return service(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/ws":
			c, err := websocket.Accept(w, r, nil)
			if err != nil {
				return
			}
			defer func() { _ = c.CloseNow() }()
			for {
				kind, b, err := c.Read(r.Context())
				if err != nil || c.Write(r.Context(), kind, append([]byte("echo "), b...)) != nil {
					return
				}
			}
		case "/false":
			w.Header().Set("Connection", "Upgrade")
			w.Header().Set("Upgrade", "websocket")
			w.Header().Set("Sec-WebSocket-Accept", "AAAAAAAAAAAAAAAAAAAAAAAAAAA=")
			w.WriteHeader(101)
		case "/forbidden":
			w.WriteHeader(403)
		default:
			_, _ = io.WriteString(w, r.Method+" "+r.Header.Get("Upgrade"))
		}
	})
}

// connect is the fields of a WebSocket's request, as RFC 8441 has them.
func connect(path string, more ...string) []string {
	return append([]string{
		":method", "CONNECT", ":protocol", "websocket", ":scheme", "http", ":authority", "site.example", ":path", path,
		"sec-websocket-version", "13",
	}, more...)
}

// message is a short text as a client frames it; code 8 closes.
func message(code byte, text string) []byte {
	return append([]byte{0x80 | code, 0x80 | byte(len(text)), 0, 0, 0, 0}, text...)
}

// data reads n bytes of a stream; fewer if it ends.
func (r *raw) data(id uint32, n int) (got string, ended bool) {
	for len(got) < n {
		f, err := r.ReadFrame()
		if err != nil {
			r.t.Fatalf("after %q: %v", got, err)
		}
		switch f := f.(type) {
		case *http2.DataFrame:
			if f.StreamID == id {
				got += string(f.Data())
				_ = r.WriteWindowUpdate(id, uint32(len(f.Data())+1))
				if f.StreamEnded() {
					return got, true
				}
			}
		case *http2.RSTStreamFrame:
			if f.StreamID == id {
				r.t.Fatalf("after %q: reset, %v", got, f.ErrCode)
			}
		}
	}
	return got, false
}

// TestWebSocket: a client is told that it may open WebSockets, and opens two beside an ordinary request. Messages flow
// both ways, and either side's end is the other's.
func TestWebSocket(t *testing.T) {
	f := newFront(t, echo(t), setup{})
	r := dialRaw(t, f)
	for offered := false; !offered; {
		frame, err := r.ReadFrame()
		if err != nil {
			t.Fatalf("no settings that offer WebSockets: %v", err)
		}
		if s, ok := frame.(*http2.SettingsFrame); ok && !s.IsAck() {
			v, _ := s.Value(http2.SettingID(8))
			offered = v == 1
		}
	}
	one := r.open(false, connect("/ws", "sec-websocket-key", "of no use")...)
	if status, code, _ := r.outcome(one); status != "200" {
		t.Fatalf("a WebSocket got %q, %v", status, code)
	}
	two := r.open(false, connect("/ws")...)
	if status, code, _ := r.outcome(two); status != "200" {
		t.Fatalf("another got %q, %v", status, code)
	}
	for _, id := range []uint32{one, two, one} {
		_ = r.WriteData(id, false, message(1, "hi"))
		if got, _ := r.data(id, 9); got != "\x81\x07echo hi" {
			t.Errorf("stream %d brought %q", id, got)
		}
	}
	f.awaitMetric(t, "antirobot_http_open_tunnels", "2")
	if status, _, _ := r.outcome(r.open(true, get...)); status != "200" {
		t.Errorf("a request beside them got %q", status)
	}
	_ = r.WriteData(one, false, message(8, "\x03\xe8"))
	if got, ended := r.data(one, 100); got != "\x88\x02\x03\xe8" || !ended {
		t.Errorf("closed with %q, %v", got, ended)
	}
	_ = r.WriteData(two, true, nil)
	if _, ended := r.data(two, 100); !ended {
		t.Error("a client's end did not end its stream")
	}
	f.awaitMetric(t, "antirobot_http_open_tunnels", "0")
}

// TestNoWebSocket: what is no WebSocket in the end never looks like one to the client.
func TestNoWebSocket(t *testing.T) {
	f := newFront(t, echo(t), setup{handler: func(x *h1.Exchange, forward func()) {
		if string(x.View.Path) == "/own" {
			_ = x.Reply(200, nil, []byte("a page"))
			return
		}
		forward()
	}})
	r := dialRaw(t, f)
	for path, want := range map[string]string{"/page": "502", "/false": "502", "/forbidden": "403", "/own": "400"} {
		if status, code, _ := r.outcome(r.open(false, connect(path)...)); status != want {
			t.Errorf("%s: %q, %v", path, status, code)
		}
	}
	other := connect("/ws")
	other[3] = "connect-udp"
	if status, code, _ := r.outcome(r.open(false, other...)); !strings.HasPrefix(status, "4") && code == 0 {
		t.Errorf("another protocol got %q", status)
	}
	if status, code, _ := r.outcome(r.open(true, append([]string{":protocol", "websocket"},
		get...)...)); !strings.HasPrefix(status, "4") && code == 0 {
		t.Errorf("a protocol for GET got %q", status)
	}
}

// TestSocketIsCut: tunnels over HTTP/2 end with the grace period, and with their client.
func TestSocketIsCut(t *testing.T) {
	f := newFront(t, echo(t), setup{})
	r := dialRaw(t, f)
	if status, _, _ := r.outcome(r.open(false, connect("/ws")...)); status != "200" {
		t.Fatalf("a WebSocket got %q", status)
	}
	_ = r.Close()
	f.awaitMetric(t, "antirobot_http_open_tunnels", "0")
	r = dialRaw(t, f)
	if status, _, _ := r.outcome(r.open(false, connect("/ws")...)); status != "200" {
		t.Fatalf("a WebSocket got %q", status)
	} // the front's own clean-up cuts it
}

// TestQuietAnswer: an answer may pause for longer than a write may take.
func TestQuietAnswer(t *testing.T) {
	f := newFront(t, service(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "one ")
		w.(http.Flusher).Flush()
		time.Sleep(300 * time.Millisecond)
		_, _ = io.WriteString(w, "two")
	}), setup{h1: func(c *h1.Config) { c.WriteTimeout = 100 * time.Millisecond }})
	if _, body := fetch(t, client(t, f), newRequest(t, "GET", "/", nil)); body != "one two" {
		t.Errorf("got %q", body)
	}
}
