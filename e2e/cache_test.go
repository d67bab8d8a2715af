package e2e

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
)

// TestPitfall28NoCookieOnSharedAnswers: a cache between the gateway and its visitors may keep what the service allows, so
// such answers never set a visitor's cookie; other pages do.
func TestPitfall28NoCookieOnSharedAnswers(t *testing.T) {
	t.Parallel()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if c := r.URL.Query().Get("cache"); c != "" {
			w.Header().Set("Cache-Control", c)
		}
		_, _ = w.Write([]byte("<p>page</p>"))
	}))
	t.Cleanup(site.Close)
	g := serve(t, site.URL)
	for cache, want := range map[string]bool{
		"": true, "no-store": true, "private, max-age=60": true, "public": false, "max-age=60": false, "s-maxage=60": false,
	} {
		r := visitor(t).get(g.url+"/?cache="+url.QueryEscape(cache), "Accept", "text/html")
		if got := len(r.Header.Values("Set-Cookie")) > 0; got != want || r.StatusCode != 200 {
			t.Errorf("Cache-Control %q: %d with Set-Cookie %q", cache, r.StatusCode, r.Header.Values("Set-Cookie"))
		}
	}
}
