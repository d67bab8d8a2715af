package e2e

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestNobodyTakesGatewaysDown: no answer that a visitor brings about makes nginx take one gateway after the other for down, so that nobody else
// is served: none with a large head, of the gateway or of the service, none that comes before the end of an upload.
func TestNobodyTakesGatewaysDown(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/moved" {
			w.Header().Set("Location", "/to?"+r.URL.RawQuery)
			w.WriteHeader(http.StatusFound)
		}
	}))
	t.Cleanup(s.Close)
	front := freePort(t)
	replace := []string{"listen 80;", "listen " + front + ";"}
	for n := range 3 {
		addr := freePort(t)
		g := startWith(t, "serve", "--config", configFile(t, "listen: [{address: %q}]\nidentity: {trusted_proxies: [127.0.0.1]}\ndefaults: {upstream: {urls: [%q]}}\n", addr, s.URL))
		g.ban("ip:127.0.0.1", "10m")
		replace = append(replace, fmt.Sprintf("10.0.0.1%d:8080", n+1), addr)
	}
	serveNginx(t, front, deployed(t, "fleet/nginx.conf", replace...))
	from := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	other := &http.Client{Transport: &http.Transport{DialContext: from.DialContext, DisableKeepAlives: true}}
	body, long := strings.Repeat("x", 48<<20), strings.Repeat("!", 40<<10)
	answer := func(field string) string {
		form := "new=1&" + field + "=" + long
		return fmt.Sprintf("Content-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%s", len(form), form)
	}
	for what, ask := range map[string][2]string{
		"a page":                      {"GET /a", ""},
		"a long URL":                  {"GET /a?" + strings.Repeat("x", 6000), ""},
		"a URL of bytes":              {"GET /a?" + strings.Repeat("\xff", 7500), ""},
		"a long address to come back": {"GET /a", "X-Retpath-Y: http://site.example/?" + strings.Repeat("x", 6000) + "\r\n"},
		"a path that has moved":       {"OPTIONS /moved?" + strings.Repeat("x", 7500), "Origin: http://other.example\r\nAccess-Control-Request-Method: GET\r\n"},
		"an upload":                   {"POST /a", fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body)},
		"a language of no people":     {"POST /checkcaptcha", answer("lang")},
		"a step of no ladder":         {"POST /checkcaptcha", answer("step")},
	} {
		for range 4 {
			rawly(t, front, ask[0], ask[1])
		}
		res, err := other.Get("http://" + front + "/")
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Errorf("%s: then others get %d", what, res.StatusCode)
		}
	}
}
