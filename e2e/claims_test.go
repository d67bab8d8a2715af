package e2e

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

const claimsConfig = `
services:
  - name: shop
    upstream: {urls: [%[1]q]}
    requests:
      bodies:
        - {route: POST /form, fields: [{attribute: a, from: form, key: a}]}
    rules:
      text: |
        do regexpCheck(regexp="DELETE$", attribute="method") mark harmless
        if not harmless stop as BLOCK
        stop as OK
`

// TestClaimedMethods: a rule over methods sees those that a request claims for a service that believes it.
func TestClaimedMethods(t *testing.T) {
	t.Parallel()
	up := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer up.Close()
	g := configured(t, claimsConfig, up.URL)
	v := visitor(t)
	for _, c := range []struct {
		method, target, body, field string
		status                      int
	}{
		{"DELETE", "/form", "", "", 403},
		{"POST", "/form", "a=1", "", 200},
		{"POST", "/form", "a=1", "PUT", 200},
		{"POST", "/any", "a=1", "delete", 403},
		{"POST", "/any?a=1&%5fmethod=Delete", "a=1", "", 403},
		{"POST", "/form", "a=1&_METHOD=delete", "", 403},
		{"POST", "/form", "a=1&_method=put", "", 200},
	} {
		fields := []string{"Content-Type", form}
		if c.field != "" {
			fields = append(fields, "X-HTTP-Method-Override", c.field)
		}
		if r := v.do(c.method, g.url+c.target, c.body, fields...); r.StatusCode != c.status {
			t.Errorf("%+v: %d", c, r.StatusCode)
		}
	}
}
