package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// TestNobodyMakesBalancersOpen: where a balancer lets everybody through while the gateway is down, no request of somebody who is stopped makes
// it believe so: none with a head whose answer has a large one, none that can't be judged, none with a body that nobody reads. Nor does one that
// the balancer brings to the gateway for its answer pass for the balancer's own.
func TestNobodyMakesBalancersOpen(t *testing.T) {
	t.Parallel()
	address := func(url string) string { return strings.TrimPrefix(url, "http://") }
	for name, b := range map[string]struct {
		settings string
		run      func(t *testing.T, g *checker, service string) string
	}{
		"nginx auth_request": {"style: verdict", func(t *testing.T, g *checker, service string) string {
			return runNginx(t, "auth_request.conf", address(g.check), service)
		}},
		"nginx auth_request, as it was": {"style: verdict", func(t *testing.T, g *checker, service string) string {
			return runNginx(t, "auth_request.conf", address(g.check), service, "proxy_buffer_size 64k;", "", "proxy_buffers 4 64k;", "", "proxy_busy_buffers_size 128k;", "")
		}},
		"nginx X-Accel-Redirect": {"style: full", func(t *testing.T, g *checker, service string) string {
			return runNginx(t, "accel.conf", address(g.check), service)
		}},
		"nginx X-Accel-Redirect, as it was": {"style: full", func(t *testing.T, g *checker, service string) string {
			return runNginx(t, "accel.conf", address(g.check), service, "proxy_buffer_size 64k;", "", "proxy_buffers 4 64k;", "", "proxy_busy_buffers_size 128k;", "")
		}},
		"Caddy": {"style: verdict", func(t *testing.T, g *checker, service string) string {
			return runCaddy(t, address(g.check), service, "\nhttp://127.0.0.1:", "\nhttp://:", "\troute {", "\tbind 127.0.0.1\n\troute {") // any host
		}},
		"HAProxy": {"style: verdict", func(t *testing.T, g *checker, service string) string {
			return runHAProxy(t, address(g.check), service, "-m str human stop }\n", "-m str human stop } or { nbsrv(antirobot) eq 0 }\n")
		}},
		"HAProxy SPOE": {"style: verdict\nspoe: [\"127.0.0.1:0\"]", func(t *testing.T, g *checker, service string) string {
			return runHAProxySPOE(t, address(g.check), g.listening("SPOE"), service, "-m str human stop }\n", "-m str human stop } or { nbsrv(antirobot-spoe) eq 0 }\n")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got atomic.Int64
			s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { got.Add(1) }))
			t.Cleanup(s.Close)
			g := serveCheck(t, s.URL, b.settings, "")
			addr := address(b.run(t, g, address(s.URL)))
			if status := rawly(t, addr, "GET /", ""); status != 200 || got.Load() != 1 {
				t.Fatalf("a newcomer got %d", status)
			}
			g.ban("ip:127.0.0.1", "10m")
			body := strings.Repeat("x", 48<<20)
			for what, ask := range map[string][2]string{
				"a page":                      {"GET /a", ""},
				"a long URL":                  {"GET /a?" + strings.Repeat("x", 6000), ""},
				"a URL of escapes":            {"GET /a?" + strings.Repeat("%22", 1500), ""},
				"a URL of bytes":              {"GET /a?" + strings.Repeat("\xff", 5000), ""},
				"a long address to come back": {"GET /a", "X-Retpath-Y: http://site.example/?" + strings.Repeat("x", 6000) + "\r\n"},
				"a path that may not be":      {"GET /a%00", ""},
				"many fields":                 {"GET /a", strings.Repeat("X-A: b\r\n", 250)},
				"a balancer's question":       {"GET /check", "X-Forwarded-Method: GET\r\nX-Forwarded-Host: site.example\r\nX-Forwarded-Uri: /a\r\n"},
				"a balancer's report":         {"GET /check?style=answer", "X-Forwarded-Method: GET\r\nX-Forwarded-Host: site.example\r\nX-Forwarded-Uri: /a\r\nX-Antirobot-Answer: 200 image/png\r\n"},
				"a report by a query":         {"GET /a?style=answer", "X-Antirobot-Answer: 200 image/png\r\n"},
				"an upload":                   {"POST /a", fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body)},
				"a form":                      {"POST /a", fmt.Sprintf("Content-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%s", len(body), body)},
			} {
				status := rawly(t, addr, ask[0], ask[1])
				if n := got.Swap(1); n != 1 || status/100 == 2 && what != "a form" { // which is answered with the page
					t.Errorf("%s: %d, and the service was asked %d times", what, status, n-1)
				}
			}
		})
	}
}
