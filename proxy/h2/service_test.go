package h2

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"antirobot/proxy/h1"
	"antirobot/proxy/upstream"
)

// http2Service is net/http's server, which speaks HTTP/2 alone: over TLS, or without.
func http2Service(t *testing.T, secure bool, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.Protocols = new(http.Protocols)
	if secure {
		s.Config.Protocols.SetHTTP2(true)
		s.EnableHTTP2 = true
		s.StartTLS()
	} else {
		s.Config.Protocols.SetUnencryptedHTTP2(true)
		s.Start()
	}
	t.Cleanup(s.Close)
	return s.URL
}

// toHTTP2 speaks HTTP/2 with the service.
func toHTTP2(c *upstream.Config) { c.Protocol, c.TLS.InsecureSkipVerify = "h2", true }

// plainClient speaks HTTP/1.1.
func plainClient(t *testing.T, f *front) *http.Client {
	t.Helper()
	tr := &http.Transport{DisableCompression: true, DialContext: func(ctx context.Context, network, _ string) (net.Conn,
		error,
	) {
		return new(net.Dialer).DialContext(ctx, network, f.addr)
	}}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 30 * time.Second}
}

// TestHTTP2Service: what a service that speaks HTTP/2 sees of a request, and what clients of both protocols see of its
// answer.
func TestHTTP2Service(t *testing.T) {
	for _, secure := range []bool{false, true} {
		var seen string
		f := newFront(t, http2Service(t, secure, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			seen = fmt.Sprintf("%s %s %s host=%s cl=%d cookie=%q ip=%s x=%q ua=%q body=%q trailer=%v", r.Proto,
				r.Method, r.RequestURI, r.Host,
				r.ContentLength, r.Header["Cookie"], r.Header.Get("X-Real-Ip"), r.Header["X-Two"],
				r.Header["User-Agent"], body, r.Trailer)
			switch r.URL.Path {
			case "/none":
				w.WriteHeader(204)
			case "/same":
				w.Header().Set("ETag", `"x"`)
				w.WriteHeader(304)
			case "/trailers":
				w.Header().Set("Trailer", "X-Sum")
				_, _ = io.WriteString(w, "hello")
				w.(http.Flusher).Flush()
				w.Header().Set("X-Sum", "5")
				w.Header().Set(http.TrailerPrefix+"X-Late", "6")
			case "/counted", "/nothing":
				text := map[string]string{"/counted": "hello"}[r.URL.Path]
				w.Header().Set("Content-Length", strconv.Itoa(len(text)))
				_, _ = io.WriteString(w, text)
				w.Header().Set(http.TrailerPrefix+"X-Sum", "5")
			case "/empty":
			default:
				w.Header()["X-Two"] = []string{"1", "2"}
				_, _ = io.WriteString(w, "ok")
			}
		}), setup{service: toHTTP2})
		for name, c := range map[string]*http.Client{"HTTP/2": client(t, f), "HTTP/1": plainClient(t, f)} {
			ask := func(want string, req *http.Request) (*http.Response, string) {
				t.Helper()
				res, body := fetch(t, c, req)
				if seen != want {
					t.Errorf("%s: the service saw %s\n               want %s", name, seen, want)
				}
				return res, body
			}
			req := newRequest(t, "GET", "/", nil)
			req.URL.Opaque = "//site.example//a%2fb//c?d=%zz"
			if name == "HTTP/2" {
				req.URL.Opaque = "//site.example//a%2fb//c?d=e" // http2.Server refuses the other
			}
			_, query, _ := strings.Cut(req.URL.Opaque, "?")
			req.Header = http.Header{
				"X-Two": {"1", "2"}, "Cookie": {"a=b; c=d"}, "Connection": {"X-Hop"},
				"X-Hop": {"1"}, "User-Agent": {"x/1"},
			}
			if name == "HTTP/2" {
				delete(req.Header, "Connection")
				delete(req.Header, "X-Hop")
			}
			res, body := ask(`HTTP/2.0 GET //a%2fb//c?`+query+` host=site.example cl=0 cookie=["a=b; c=d"] ip=127.0.0.1 x=["1" "2"] ua=["x/1"] body="" trailer=map[]`, req)
			if res.StatusCode != 200 || body != "ok" || res.ContentLength != 2 || len(res.Header["X-Two"]) != 2 {
				t.Errorf("%s: %v %q", name, res, body)
			}
			req = newRequest(t, "POST", "/p", strings.NewReader("hello"))
			req.Header["User-Agent"] = []string{""}
			ask(`HTTP/2.0 POST /p host=site.example cl=5 cookie=[] ip=127.0.0.1 x=[] ua=[] body="hello" trailer=map[]`,
				req)
			req = newRequest(t, "PUT", "/p", io.MultiReader(strings.NewReader("of unknown length")))
			req.Trailer = http.Header{"X-After": {"1"}}
			req.Header["User-Agent"] = []string{""}
			ask(`HTTP/2.0 PUT /p host=site.example cl=-1 cookie=[] ip=127.0.0.1 x=[] ua=[] body="of unknown length" trailer=map[X-After:[1]]`, req)
			for path, status := range map[string]int{"/none": 204, "/same": 304, "/empty": 200} {
				if res, body := fetch(t, c, newRequest(t, "GET", path, nil)); res.StatusCode != status || body != "" ||
					status == 200 && res.ContentLength != 0 {
					t.Errorf("%s %s: %v %q", name, path, res, body)
				}
			}
			if res, body := fetch(t, c, newRequest(t, "HEAD", "/", nil)); res.ContentLength != 2 || body != "" {
				t.Errorf("%s HEAD: %v %q", name, res, body)
			}
			if res, body := fetch(t, c, newRequest(t, "GET", "/trailers", nil)); body != "hello" ||
				res.Trailer.Get("X-Sum") != "5" || res.Trailer.Get("X-Late") != "6" {
				t.Errorf("%s: %q, trailers %v", name, body, res.Trailer)
			}
			for path, want := range map[string]string{"/counted": "hello", "/nothing": ""} {
				res, body := fetch(t, c, newRequest(t, "GET", path, nil))
				if got := res.Trailer.Get("X-Sum"); body != want || res.ContentLength != int64(len(want)) ||
					name == "HTTP/2" && got != "5" {
					t.Errorf("%s %s: %q, length %d, trailers %v", name, path, body, res.ContentLength, res.Trailer)
				}
			}
		}
	}
}

// TestBothStreamsOpen: as in gRPC, a request goes on while its answer does, a refusal is a head with trailers' fields
// only, and an end brings trailers that nothing announced.
func TestBothStreamsOpen(t *testing.T) {
	for _, secure := range []bool{false, true} {
		bothStreamsOpen(t, secure)
	}
}

// bothStreamsOpen plays it with a service over TLS, or without.
func bothStreamsOpen(t *testing.T, secure bool) {
	t.Helper()
	f := newFront(t, http2Service(t, secure, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		if r.Header.Get("Te") != "trailers" || r.URL.Path != "/talk" {
			w.Header().Set("Grpc-Status", "12")
			return
		}
		lines := bufio.NewScanner(r.Body)
		w.WriteHeader(200)
		w.(http.Flusher).Flush()
		for lines.Scan() {
			_, _ = fmt.Fprintf(w, "%s again\n", lines.Text())
			w.(http.Flusher).Flush()
		}
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
	}), setup{service: toHTTP2})
	c := client(t, f)
	for range 3 {
		pr, pw := io.Pipe()
		req := newRequest(t, "POST", "/talk", pr)
		req.Header.Set("Te", "trailers")
		res, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		back := bufio.NewReader(res.Body)
		for _, word := range []string{"a", "b"} {
			_, _ = io.WriteString(pw, word+"\n")
			if s, err := back.ReadString('\n'); s != word+" again\n" {
				t.Fatalf("got %q, %v", s, err)
			}
		}
		_ = pw.Close()
		if s, err := back.ReadString('\n'); s != "" || err != io.EOF || res.Trailer.Get("Grpc-Status") != "0" {
			t.Errorf("got %q, %v, trailers %v", s, err, res.Trailer)
		}
		_ = res.Body.Close()
	}
	if res, _ := fetch(t, c, newRequest(t, "POST", "/other",
		strings.NewReader("x"))); res.Header.Get("Grpc-Status") != "12" || res.StatusCode != 200 {
		t.Errorf("a refusal: %v", res)
	}
	r := dialRaw(t, f)
	id := r.open(true, ":method", "POST", ":scheme", "http", ":authority", "site.example", ":path", "/other")
	for {
		frame, err := r.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if head, ok := frame.(*http2.MetaHeadersFrame); ok && head.StreamID == id {
			if !head.StreamEnded() {
				t.Error("the end of a refusal is not in the frame of its head")
			}
			return
		}
	}
}

// held accepts nobody before it is opened.
type held struct {
	net.Listener
	opened chan struct{}
}

func (h held) Accept() (net.Conn, error) {
	<-h.opened
	return h.Listener.Accept()
}

// TestFewConnections: requests that come together while there is no connection to a service share the first ones.
func TestFewConnections(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request,
	) {
		w.WriteHeader(200)
	}))
	door := held{s.Listener, make(chan struct{})}
	s.Listener, s.EnableHTTP2 = door, true
	s.StartTLS()
	t.Cleanup(s.Close)
	f := newFront(t, s.URL, setup{service: func(c *upstream.Config) { toHTTP2(c); c.DialTimeout = time.Minute }})
	c, statuses := client(t, f), make(chan int)
	const all = 80 // of one connection of the client's
	for range all {
		go func() {
			res, err := c.Get("http://site.example/")
			if err != nil {
				statuses <- 0
				return
			}
			_ = res.Body.Close()
			statuses <- res.StatusCode
		}()
	}
	f.awaitMetric(t, "antirobot_http2_open_streams", strconv.Itoa(all))
	time.Sleep(50 * time.Millisecond) // all of them have looked for a connection
	close(door.opened)
	for range all {
		if status := <-statuses; status != 200 {
			t.Errorf("status %d", status)
		}
	}
	n, _ := strconv.Atoi(f.metricOf("antirobot_upstream_dials_total"))
	if n < 1 || n > all/4 {
		t.Errorf("%d connections for %d requests at once", n, all)
	}
}

// TestHTTP2ServiceFails: each way to fail has its status, and an answer that breaks off is cut.
func TestHTTP2ServiceFails(t *testing.T) {
	began, left := make(chan struct{}, 1), make(chan struct{}, 1)
	url := http2Service(t, false, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/cut":
			_, _ = w.Write(make([]byte, 50000))
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		case "/reset":
			panic(http.ErrAbortHandler)
		case "/early":
			w.WriteHeader(403)
		case "/slow":
			began <- struct{}{}
			<-r.Context().Done()
			left <- struct{}{}
		default:
			_, _ = io.Copy(io.Discard, r.Body)
		}
	})
	f := newFront(t, url, setup{
		service: func(c *upstream.Config) { toHTTP2(c); c.ResponseTimeout = 500 * time.Millisecond },
		h1:      func(c *h1.Config) { c.MaxBodyBytes, c.ReadTimeout = 10, 300*time.Millisecond },
	})
	for name, c := range map[string]*http.Client{"HTTP/2": client(t, f), "HTTP/1": plainClient(t, f)} {
		status := func(path string, body io.Reader, want int) {
			t.Helper()
			if res, _ := fetch(t, c, newRequest(t, "POST", path, body)); res.StatusCode != want {
				t.Errorf("%s %s: %d, want %d", name, path, res.StatusCode, want)
			}
		}
		status("/", strings.NewReader("hello"), 200)
		status("/", strings.NewReader("hello world"), 413)
		status("/", io.MultiReader(strings.NewReader("hello "), strings.NewReader("world")), 413)
		status("/reset", nil, 502)
		status("/slow", nil, 504)
		<-began
		<-left
		for path, want := range map[string]int{"/": 408, "/early": 403} {
			never, end := io.Pipe()
			status(path, never, want)
			_ = end.Close()
		}
		res, err := c.Do(newRequest(t, "GET", "/cut", nil))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(res.Body); err == nil {
			t.Errorf("%s: an answer that broke off looked whole", name)
		}
		_ = res.Body.Close()
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-began; cancel() }()
	if _, err := client(t, f).Do(newRequest(t, "GET", "/slow", nil).WithContext(ctx)); err == nil {
		t.Error("there was an answer")
	}
	<-left
	away := newFront(t, "http://127.0.0.1:1", setup{service: toHTTP2})
	if res, _ := fetch(t, client(t, away), newRequest(t, "GET", "/", nil)); res.StatusCode != 502 {
		t.Errorf("nobody there: %d", res.StatusCode)
	}
	old := newFront(t, service(t, func(http.ResponseWriter, *http.Request) {}), setup{service: toHTTP2})
	if res, _ := fetch(t, client(t, old), newRequest(t, "GET", "/", nil)); res.StatusCode != 502 {
		t.Errorf("a service without HTTP/2: %d", res.StatusCode)
	}
}
