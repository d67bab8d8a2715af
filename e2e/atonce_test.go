package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestHarvestAtOnce: one address that asks for a whole shop at once, on many connections, is judged by its first pages before it has all
// of it, however long the service takes for a page.
func TestHarvestAtOnce(t *testing.T) {
	t.Parallel()
	for _, takes := range []time.Duration{0, 100 * time.Millisecond} {
		shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(takes)
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = io.WriteString(w, "<p>price of "+r.URL.Path)
		}))
		t.Cleanup(shop.Close)
		addr := freePort(t)
		g := startWith(t, "serve", "--config", configFile(t, "listen: [{address: %q, h2c: true}]\nprocessor: {exempt: []}\ndefaults: {upstream: {urls: [%q]}}\n", addr, shop.URL))
		const connections, streams = 25, 80
		var got atomic.Int64
		var all sync.WaitGroup
		for c := range connections {
			tr := plainHTTP2(t)
			for s := range streams {
				all.Go(func() {
					req, err := http.NewRequest("GET", fmt.Sprintf("http://%s/product/%d", addr, c*streams+s), nil)
					if err != nil {
						t.Error(err)
						return
					}
					req.Header.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0")
					req.Header.Set("Accept", "text/html")
					res, err := tr.RoundTrip(req)
					if err != nil {
						return // as when a connection is refused
					}
					defer res.Body.Close()
					if body, _ := io.ReadAll(res.Body); strings.Contains(string(body), "price") {
						got.Add(1)
					}
				})
			}
		}
		all.Wait()
		n := got.Load()
		t.Logf("a service that takes %v: %d of %d pages", takes, n, connections*streams)
		if n == 0 || n > 400 { // some go on without a turn while the machine is busy
			t.Errorf("%d of %d pages were delivered at once", n, connections*streams)
		}
		if g.metric("antirobot_processor_bans_total") == 0 || g.metric("antirobot_requests_waited_total") == 0 {
			t.Error("nobody was banned, or had to wait")
		}
	}
}
