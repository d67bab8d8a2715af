package demo

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// get returns the answer to one request of a browser without cookies.
func get(t *testing.T, h http.Handler, target string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest("GET", target, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

var pagePaths = []string{
	"/", "/articles/lighthouse", "/articles/river", "/articles/bread", "/gallery", "/guestbook", "/guestbook/rules", "/list", "/live",
	"/search", "/search?query=river", "/search?query=%22%3E%3Cscript%3E", "/play", "/play?problem=admin", "/nowhere",
}

func post(t *testing.T, h http.Handler, target, kind, body string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest("POST", target, strings.NewReader(body))
	r.Header.Set("Content-Type", kind)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

const urlencoded = "application/x-www-form-urlencoded"

// running runs a site on a loopback port; stop ends it and asserts that it ended properly.
func running(t *testing.T, opts Options) (addr string, stop func()) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, ln, opts) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		select {
		case err := <-served:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(60 * time.Second):
			t.Error("the site does not stop")
		}
		http.DefaultClient.CloseIdleConnections()
	}
	t.Cleanup(stop)
	return ln.Addr().String(), stop
}
