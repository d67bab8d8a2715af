package e2e

import (
	"fmt"
	"net/http"
	"testing"
)

// TestPrefetchesCostNothing: a page that a browser loads ahead of time is declined where its person would be challenged or pay,
// and neither the pass nor the session counts it; whoever is free to read gets it.
func TestPrefetchesCostNothing(t *testing.T) {
	t.Parallel()
	g := serve(t, site(t).URL)
	v := visitor(t)
	v.header.Set("Accept-Language", "en")
	v.header.Set("Accept-Encoding", "identity")
	prefetch := func(path string, want int) {
		t.Helper()
		for _, field := range []string{"Sec-Purpose", "Purpose"} {
			r := v.get(g.url+path, field, "prefetch")
			if r.StatusCode != want || want == 503 && r.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s with %s: %d %v", path, field, r.StatusCode, r.Header)
			}
		}
		if r := v.get(g.url+path, "Sec-Purpose", "prefetch;prerender"); r.StatusCode != want {
			t.Errorf("%s as prerender: %d", path, r.StatusCode)
		}
	}
	prefetch("/free", 200)
	g.ban("ip:127.0.0.1", "10m")
	prefetch("/stopped", 503)
	v.get(g.url+"/", "Sec-Purpose", "prefetched").must(t, 302, "") // no prefetch
	program := visitor(t)
	program.header = http.Header{"User-Agent": {"curl/8.5.0"}}
	if r := program.get(g.url+"/stopped", "Purpose", "prefetch"); r.StatusCode != 403 || r.Header.Get("X-Antirobot-Verdict") == "" {
		t.Errorf("a program that calls its request a prefetch: %d %v", r.StatusCode, r.Header)
	}
	g.solve(v, "/")
	for i := range 40 {
		prefetch(fmt.Sprint("/next/", i), 503)
	}
	pages := 0
	for ; pages < 200; pages++ {
		if r := v.get(g.url + "/x"); r.StatusCode != 200 {
			break
		}
	}
	if pages < 98 || pages > 100 {
		t.Errorf("the pass paid for %d pages, wanted 100, less those that the way back took", pages)
	}
}
