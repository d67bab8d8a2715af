package proxy

import (
	"net/http"
	"strings"
	"testing"

	"antirobot/bounded"
)

// TestProgramsAreLimited: a program that asks more often than programs may is told to wait, and neither a browser nor a
// neighbour is.
func TestProgramsAreLimited(t *testing.T) {
	e := newCheckEnv(t, func(c *CheckConfig) { c.Style = styleFull })
	e.check.core.programs.clients = bounded.NewRate(1<<40, 3, 16)
	ask := func(addr, agent string) *http.Response {
		return e.send("POST /hook HTTP/1.1\r\nHost: shop.example\r\nX-Forwarded-For: " + addr +
			"\r\nX-Forwarded-Proto: http\r\nAccept-Language: en\r\nAccept-Encoding: gzip\r\n" +
			"Content-Length: 0\r\nUser-Agent: " + agent + "\r\n\r\n")
	}
	const browser = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 " +
		"Safari/537.36"
	for range 3 {
		if res := ask("203.0.113.5", "Stripe/1.0"); res.StatusCode != 200 {
			t.Fatalf("%d within the limit", res.StatusCode)
		}
	}
	res := ask("203.0.113.5", "Stripe/1.0")
	if res.StatusCode != 429 || res.Header.Get("Retry-After") == "" ||
		!strings.HasPrefix(res.Header.Get("Content-Type"), "text/plain") ||
		res.Header.Get("X-Antirobot-Verdict") != "blocked" {
		t.Errorf("%d %v", res.StatusCode, res.Header)
	}
	if res := ask("203.0.113.5", browser); res.StatusCode != 200 {
		t.Errorf("a browser there: %d", res.StatusCode)
	}
	if res := ask("203.0.113.6", "Stripe/1.0"); res.StatusCode != 200 {
		t.Errorf("a neighbour: %d", res.StatusCode)
	}
}
