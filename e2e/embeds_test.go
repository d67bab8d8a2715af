package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestEmbedsOfPagesCostTheReaderNothing: a page of another site whose elements name the pages of a shop uses up nothing of its
// reader's; what other sites may embed is served.
func TestEmbedsOfPagesCostTheReaderNothing(t *testing.T) {
	t.Parallel()
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		types := map[string]string{"picture": "image/png", "script": "text/javascript", "data": "application/json"}
		what, _, _ := strings.Cut(r.URL.Path[1:], "/")
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		if typ := types[what]; typ != "" {
			w.Header().Set("Content-Type", typ)
		}
		if what == "widget" {
			w.Header().Set("Access-Control-Allow-Origin", "*")
		}
		_, _ = io.WriteString(w, "a "+what)
	}))
	t.Cleanup(shop.Close)
	g := serve(t, shop.URL, "--trusted-proxies", "127.0.0.1")
	const addr = "198.51.100.7"
	v := visitor(t)
	v.header.Set("X-Forwarded-For", addr)
	opens := func(path string) {
		t.Helper()
		v.get(g.url+path, "Sec-Fetch-Site", "none", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document").must(t, 200, "a ")
	}
	embeds := func(path, site, mode, dest string) *response {
		t.Helper()
		return v.get(g.url+path, "Sec-Fetch-Site", site, "Sec-Fetch-Mode", mode, "Sec-Fetch-Dest", dest,
			"Accept", "*/*", "Referer", "https://third.example/", "Origin", map[bool]string{true: "https://third.example"}[mode == "cors"])
	}
	opens("/page/1")
	for n := range 400 { // each is named ten times, so that nine times the gateway knows that it is a page
		r := embeds(fmt.Sprint("/page/", n/10), "cross-site", "no-cors", "image").must(t, 403, "cross-site request for a page\n")
		if typ := r.Header.Get("Content-Type"); !strings.HasPrefix(typ, "text/plain") || r.Header.Get("X-Antirobot-Verdict") != "blocked" {
			t.Fatalf("answered with %v", r.Header)
		}
	}
	embeds("/page/1", "cross-site", "cors", "empty").must(t, 403, "cross-site request for a page\n")
	embeds("/widget", "cross-site", "cors", "empty").must(t, 200, "a widget")
	for path, dest := range map[string]string{"/picture": "image", "/script": "script", "/data": "script"} {
		embeds(path, "cross-site", "no-cors", dest).must(t, 200, "")
	}
	embeds("/data", "cross-site", "cors", "empty").must(t, 200, "a data")
	embeds("/page/1", "same-site", "cors", "empty").must(t, 200, "a page")
	for n := range 3 {
		opens(fmt.Sprint("/page/later/", n))
	}
	eventually(t, "the reader's own pages are counted", func() bool { return g.session("ip:"+addr).Pages >= 4 })
	if s := g.session("ip:" + addr); s.Pages > 8 {
		t.Errorf("%d pages are counted for a reader who opened 4, and got 4 that other sites may embed", s.Pages)
	}
	g.ban("ip:"+addr, "1h")
	embeds("/page/1", "cross-site", "no-cors", "image").must(t, 403, "")
}
