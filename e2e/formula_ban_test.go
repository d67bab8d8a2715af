package e2e

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"
)

// TestRulesBanADriver: a browser without a window that goes from page to page is stopped after a few requests, and the operator is told how it
// was recognised; a browser at the same pace is not stopped.
func TestRulesBanADriver(t *testing.T) {
	t.Parallel()
	g := configured(t, `
identity: {trusted_proxies: [127.0.0.1]}
services: [{name: shop, upstream: {urls: [%q]}}]
`, site(t).URL)
	const tool, person = "198.51.100.20", "198.51.100.30"
	v, b := from(t, tool), from(t, person)
	v.Jar = nil
	v.header.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/140.0.0.0 Safari/537.36")
	b.header.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:144.0) Gecko/20100101 Firefox/144.0")
	b.header.Set("Accept", "text/html,application/xhtml+xml")
	b.header.Set("Accept-Language", "en")
	stopped := 0
	for i := range 30 {
		if b.get(fmt.Sprintf("%s/page/%d", g.url, i)).StatusCode != 200 {
			t.Fatalf("the person is stopped with page %d", i)
		}
		if r := v.get(fmt.Sprintf("%s/page/%d", g.url, i)); stopped == 0 && r.StatusCode != 200 {
			stopped = i
		}
		time.Sleep(100 * time.Millisecond)
	}
	if stopped < 2 || stopped > 16 {
		t.Fatalf("stopped with request %d", stopped+1)
	}
	var a struct {
		Bans []struct {
			Reason string
			Score  float64
			Model  string
		}
		Session session
	}
	if err := json.Unmarshal(g.api("GET", "/api/subjects/ip:"+tool, nil), &a); err != nil {
		t.Fatal(err)
	}
	if len(a.Bans) != 1 || a.Bans[0].Reason != "proof: headless" || a.Bans[0].Score != 1 || a.Bans[0].Model != "" {
		t.Errorf("bans: %+v", a.Bans)
	}
	if a.Session.Pages < 20 || a.Session.Claims != "headless" || len(a.Session.Factors) < 40 {
		t.Errorf("session: %d pages of a %s, %d factors", a.Session.Pages, a.Session.Claims, len(a.Session.Factors))
	}
}
