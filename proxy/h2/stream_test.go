package h2

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"antirobot/proxy/h1"
)

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
