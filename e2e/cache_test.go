package e2e

import (
	"net/http"
	"net/http/httptest"
	"testing"
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
