package captcha

import (
	"strings"
	"testing"

	"antirobot/identity"
)

// TestPassHasANameOfThisHost: over https and for a single host, the pass also comes under a name that browsers accept
// only from this host.
func TestPassHasANameOfThisHost(t *testing.T) {
	solve := func(url string, edit func(*Config, *ServiceConfig, *identity.ServiceConfig)) map[string]string {
		t.Helper()
		e := newEnv(t, edit)
		_, fields := e.visit(url + "/")
		fields.Set("rep", e.answerOf(fields.Get("key")))
		a := e.c.Check(
			e.request("POST", url+"/checkcaptcha", body("application/x-www-form-urlencoded", fields.Encode())),
		)
		if a.Outcome != OutcomeSolved {
			t.Fatalf("%s: status %d", url, a.Status)
		}
		return cookies(&a)
	}
	got := solve("https://example.com", nil)
	if host := got["__Host-spravka"]; host == "" || host != got["spravka"] || !strings.Contains(host, "; Path=/;") ||
		!strings.Contains(host, "; Secure") || strings.Contains(host, "Domain=") {
		t.Errorf("__Host-spravka=%s\nspravka=%s", host, got["spravka"])
	}
	if got := solve("http://example.com", nil); got["__Host-spravka"] != "" || got["spravka"] == "" {
		t.Errorf("on http: %v", got)
	}
	whole := func(_ *Config, _ *ServiceConfig, id *identity.ServiceConfig) { id.Domain = "example.com" }
	if got := solve("https://example.com", whole); got["__Host-spravka"] != "" || got["spravka"] == "" {
		t.Errorf("for a domain: %v", got)
	}
}
