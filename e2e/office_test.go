package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

const officeConfig = `
identity: {trusted_proxies: [127.0.0.1]}
services:
  - name: site
    upstream: {urls: [%q]}
    verdict:
      threshold: 0.99
      limits: []
`

// TestRobotsWithCookiesInAnOffice: robots that keep cookies behind the address of an office are asked for what they read without the parts of pages, as
// one household; their colleagues, who load them, are not, nor is somebody who comes later.
func TestRobotsWithCookiesInAnOffice(t *testing.T) {
	t.Parallel()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if strings.HasSuffix(r.URL.Path, ".webp") {
			w.Header().Set("Content-Type", "image/webp")
		}
		_, _ = io.WriteString(w, "site got it")
	}))
	t.Cleanup(service.Close)
	g := configured(t, officeConfig, service.URL)
	n := 0
	reads := func(v *client, parts int) *response {
		n++
		r := v.get(fmt.Sprintf("%s/page/%d", g.url, n), "Sec-Fetch-Dest", "document", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Site", "none")
		for i := range parts {
			v.get(fmt.Sprintf("%s/picture/%d-%d.webp", g.url, n, i), "Sec-Fetch-Dest", "image", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Site", "same-origin")
		}
		return r
	}
	const office = "203.0.113.5"
	var colleagues, robots []*client
	for range 10 {
		colleagues, robots = append(colleagues, from(t, office)), append(robots, from(t, office))
	}
	for range 3 {
		for _, v := range colleagues {
			reads(v, 4).must(t, 200, "site got")
		}
	}
	got := 0
	eventually(t, "the robots are asked", func() bool {
		asked := 0
		for _, v := range robots {
			if r := reads(v, 0); r.StatusCode == 302 {
				asked++
			} else {
				got++
			}
		}
		return asked == len(robots)
	})
	if got > 200 {
		t.Errorf("the robots have read %d pages", got)
	}
	for i, v := range append(colleagues, from(t, office)) {
		if r := reads(v, 4); r.StatusCode != 200 {
			t.Errorf("colleague %d is stopped: %d %s", i, r.StatusCode, r.Header)
		}
	}
}
