package e2e

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

// TestPreflightsOfAStoppedClient: they go on to the service, without which no browser would show its visitor the challenge, but a
// flood of them does not.
func TestPreflightsOfAStoppedClient(t *testing.T) {
	t.Parallel()
	var reached atomic.Int32
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reached.Add(1)
		w.WriteHeader(204)
	}))
	t.Cleanup(service.Close)
	g := serve(t, service.URL)
	g.ban("ip:127.0.0.1", "1h")
	v := visitor(t)
	const sent = 600
	for range sent {
		r := v.do("OPTIONS", g.url+"/call", "", "Origin", "https://third.example", "Access-Control-Request-Method", "PUT")
		if r.StatusCode != 204 && (r.StatusCode != 403 || r.body != "") {
			t.Fatalf("answered with %d %v", r.StatusCode, r.Header)
		}
	}
	if n := reached.Load(); n < 120 || n > sent/2 {
		t.Errorf("of %d preflights %d reach the service", sent, n)
	}
}
