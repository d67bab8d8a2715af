package e2e

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestEvidenceReachesTheFactors: what a page says of its browser is known of its visitor afterwards; a service that has not
// asked for it has no such script.
func TestEvidenceReachesTheFactors(t *testing.T) {
	t.Parallel()
	g := configured(t, `
services:
  - {name: shop, hosts: [localhost], upstream: {urls: [%q]}, captcha: {evidence: true}}
  - {name: other, hosts: ["127.0.0.1"], upstream: {urls: ["http://127.0.0.1:1"]}}
`, site(t).URL)
	shop := strings.Replace(g.url, "127.0.0.1", "localhost", 1)
	v := visitor(t)
	for range 4 {
		v.get(shop+"/page").must(t, 200, "/page")
	}
	script := v.get(shop+"/captcha/evidence.js").must(t, 200, "sendBeacon")
	var told struct{ Seal, To string }
	line, _, _ := strings.Cut(script.body, ";\n")
	if err := json.Unmarshal([]byte(strings.TrimPrefix(line, "var antirobotSeal=")), &told); err != nil {
		t.Fatalf("%v: %.200s", err, script.body)
	}
	v.do("POST", shop+told.To, "1 "+told.Seal+" 3", "Content-Type", "text/plain;charset=UTF-8").must(t, 204, "")
	eventually(t, "the factor", func() bool {
		return strings.Contains(string(g.api("GET", "/api/subjects/ip:127.0.0.1", nil)), `"page_automation"`)
	})
	visitor(t).get(g.url+"/captcha/evidence.js").must(t, 404, "")
}
