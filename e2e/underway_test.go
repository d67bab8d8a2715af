package e2e

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// TestPitfall12RequestsUnderWay: a client of HTTP/2 has as many requests under way as its address may have, on however many
// connections; others go on.
func TestPitfall12RequestsUnderWay(t *testing.T) {
	t.Parallel()
	const most = 20
	in, release := make(chan struct{}, 10*most), make(chan struct{})
	free := sync.OnceFunc(func() { close(release) })
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hold" {
			in <- struct{}{}
			<-release
		}
		_, _ = io.WriteString(w, "ok")
	}))
	defer service.Close()
	defer free()
	addr := freePort(t)
	g := startWith(t, "serve", "--config", configFile(t, "listen: [{address: %q, h2c: true}]\nhttp: {max_requests_per_addr: %d}\ndefaults: {upstream: {urls: [%q]}}\n", addr, most, service.URL))
	get := func(tr *http.Transport, path string) int {
		r, err := (&http.Client{Transport: tr, Timeout: patience}).Get("http://" + addr + path)
		if err != nil {
			t.Error(err)
			return 0
		}
		_, _ = io.Copy(io.Discard, r.Body)
		r.Body.Close()
		return r.StatusCode
	}
	http2 := func() *http.Transport {
		p := new(http.Protocols)
		p.SetUnencryptedHTTP2(true)
		tr := &http.Transport{Protocols: p}
		t.Cleanup(tr.CloseIdleConnections)
		return tr
	}
	one, two := http2(), http2()
	var held sync.WaitGroup
	for n := range most {
		tr := one
		if n%2 == 1 {
			tr = two
		}
		held.Go(func() {
			if got := get(tr, "/hold"); got != 200 {
				t.Errorf("a request within the limit gets %d", got)
			}
		})
	}
	for range most {
		<-in
	}
	for name, tr := range map[string]*http.Transport{"the same connection": one, "a new one": http2()} {
		if got := get(tr, "/more"); got != 503 {
			t.Errorf("one more on %s gets %d", name, got)
		}
	}
	if got := get(&http.Transport{DisableKeepAlives: true}, "/more"); got != 200 {
		t.Errorf("one more over HTTP/1.1, with a connection of its own, gets %d", got)
	}
	if n := g.metric(`antirobot_http_limits_total{limit="requests_per_addr"}`); n != 2 {
		t.Errorf("%v are counted", n)
	}
	free()
	held.Wait()
	eventually(t, "a request after the others have ended", func() bool { return get(one, "/more") == 200 })
}
