package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"antirobot/servertest"
)

// TestPitfall28NoCookieOnSharedAnswers: a cache between the gateway and its visitors may keep what the service allows, so
// such answers never set a visitor's cookie; other pages do.
func TestPitfall28NoCookieOnSharedAnswers(t *testing.T) {
	t.Parallel()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		for name, values := range r.URL.Query() {
			w.Header()[name] = values
		}
		if r.URL.Path == "/304" {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = w.Write([]byte("<p>page</p>"))
	}))
	t.Cleanup(site.Close)
	g := serve(t, site.URL)
	for target, want := range map[string]bool{
		"/": true, "/?Cache-Control=no-store": true, "/?Cache-Control=private,+max-age%3D60": true, "/?Cache-Control=public": false,
		"/?Cache-Control=max-age%3D60": false, "/?Cache-Control=s-maxage%3D60": false,
		"/?Cache-Control=no-store&CDN-Cache-Control=max-age%3D60": false, "/?Cache-Control=private&Surrogate-Control=max-age%3D60": false,
		"/304": false, "/304?Cache-Control=private": true,
	} {
		r := visitor(t).get(g.url+target, "Accept", "text/html")
		if got := len(r.Header.Values("Set-Cookie")) > 0; got != want || r.StatusCode/100 != 2 && r.StatusCode != http.StatusNotModified {
			t.Errorf("%s: %d with Set-Cookie %q", target, r.StatusCode, r.Header.Values("Set-Cookie"))
		}
	}
}

// TestPitfall28NothingSharedByGuesses: Apache's cache keeps what says only when it was last modified, and whatever cookie comes with it, so
// that all visitors would be one. With what the gateway says of its cookie, the cache keeps the answer without it.
func TestPitfall28NothingSharedByGuesses(t *testing.T) {
	t.Parallel()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Last-Modified", "Thu, 01 Jan 2015 16:00:00 GMT")
		if r.URL.Path == "/expires" {
			w.Header().Set("Cache-Control", "must-revalidate")
			w.Header().Set("Expires", "Thu, 01 Dec 2033 16:00:00 GMT")
		}
		_, _ = w.Write([]byte("<p>page</p>"))
	}))
	t.Cleanup(site.Close)
	g, _, plain := http2Gateway(t, site.URL, "identity: {trusted_proxies: [127.0.0.1]}\n")
	g.url = "http://" + plain
	for protocol, tr := range map[string]*http.Transport{"HTTP/1.1": new(http.Transport), "HTTP/2": plainHTTP2(t)} {
		defer tr.CloseIdleConnections()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.url+"/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", "text/html")
		r, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if cc := r.Header.Values("Cache-Control"); len(r.Cookies()) != 1 || len(cc) != 1 || cc[0] != `private="set-cookie"` {
			t.Errorf("%s: Set-Cookie %q, Cache-Control %q", protocol, r.Header.Values("Set-Cookie"), cc)
		}
	}
	apache := runApacheCache(t, plain)
	for path, first := range map[string]int{"/": 1, "/expires": 0} {
		for n := range 2 {
			r := visitor(t).get(apache+path, "Accept", "text/html", "X-Forwarded-For", fmt.Sprintf("203.0.113.%d", n)).must(t, 200, "page")
			if got := len(r.Header.Values("Set-Cookie")); got != first*(1-n) {
				t.Errorf("%s: visitor %d gets %d cookies; %s", path, n, got, r.Header.Get("X-Cache"))
			}
			if hit := strings.HasPrefix(r.Header.Get("X-Cache"), "HIT"); hit != (n == 1) {
				t.Errorf("%s: visitor %d: %s", path, n, r.Header.Get("X-Cache"))
			}
		}
	}
}

// runApacheCache runs Apache as a shared cache in front of a gateway.
func runApacheCache(t *testing.T, gateway string) string {
	t.Helper()
	bin := servertest.Need(t, "apache2")
	addr, dir := freePort(t), t.TempDir()
	kept := filepath.Join(dir, "kept")
	if err := os.Mkdir(kept, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{filepath.Dir(dir), dir, kept} { // Apache's workers are other users
		if err := os.Chmod(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	conf := fmt.Sprintf("CacheRoot %s\nCacheEnable disk /\nCacheHeader on\nProxyPass / http://%s/\n", kept, gateway)
	return apache(t, bin, addr, dir, conf, "cache", "cache_disk")
}
