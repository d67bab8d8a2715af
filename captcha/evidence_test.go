package captcha

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"antirobot/identity"
	"antirobot/request"
)

// sealOf returns the seal that a served script has.
func sealOf(t *testing.T, a Response) string {
	t.Helper()
	line, script, ok := strings.Cut(string(a.Body), ";\n")
	var told struct{ Seal, To string }
	if err := json.Unmarshal([]byte(strings.TrimPrefix(line, "var antirobotSeal=")), &told); !ok || err != nil ||
		told.Seal == "" || !strings.HasPrefix(told.To, "/") {
		t.Fatalf("%v: %.300s", err, a.Body)
	}
	if len(a.Body) > 4096 || !strings.Contains(script, "sendBeacon") {
		t.Fatalf("the script has %d bytes", len(a.Body))
	}
	return told.Seal
}

// TestPitfall12EvidenceIsLimited: who takes one script after the other fills no store with what it tells, and keeps
// nobody else from telling.
func TestPitfall12EvidenceIsLimited(t *testing.T) {
	e := newEnv(t, func(_ *Config, s *ServiceConfig, _ *identity.ServiceConfig) { s.Evidence = true })
	taken := func(opts ...opt) bool {
		seal := sealOf(t, e.c.EvidenceScript(e.request("GET", "https://example.com/captcha/evidence.js", opts...)))
		opts = append([]opt{body("text/plain;charset=UTF-8", "1 "+seal+" 0")}, opts...)
		return e.c.Evidence(
			e.request("POST", "https://example.com/captcha/evidence", opts...),
		).Outcome == OutcomeEvidence
	}
	n := 0
	for range 2 * toldMany {
		if taken() {
			n++
		}
	}
	if n != toldMany {
		t.Errorf("%d of %d were taken, wanted %d", n, 2*toldMany, toldMany)
	}
	if !taken(from("198.51.100.9")) {
		t.Error("nobody else is listened to")
	}
	e.pass(time.Minute)
	if !taken() {
		t.Error("it is never listened to again")
	}
}

// TestEvidence: what a page says counts once, for the visitor whose script it was, at the service, within the hour; and
// only where the service has switched it on.
func TestEvidence(t *testing.T) {
	e := newEnv(t, func(_ *Config, s *ServiceConfig, _ *identity.ServiceConfig) { s.Evidence = true })
	const script, to = "https://example.com/captcha/evidence.js", "https://example.com/captcha/evidence"
	serve := func(opts ...opt) string { return sealOf(t, e.c.EvidenceScript(e.request("GET", script, opts...))) }
	tell := func(seal string, opts ...opt) Response {
		opts = append([]opt{body("text/plain;charset=UTF-8", "1 "+seal+" 1")}, opts...)
		a := e.c.Evidence(e.request("POST", to, opts...))
		if a.Status != 204 || len(a.Body) > 0 {
			t.Errorf("%d %s", a.Status, a.Body)
		}
		return a
	}
	taken := func(a Response) bool { return a.Outcome == OutcomeEvidence }
	seal := serve()
	if a := tell(seal); !taken(a) || !a.Evidence.Known || a.Evidence.Probes != request.ProbeWebdriver {
		t.Errorf("%+v", a)
	}
	if taken(tell(seal)) {
		t.Error("it counts twice")
	}
	if taken(tell(serve(), from("198.51.100.9"))) {
		t.Error("it counts for somebody else")
	}
	if taken(tell(serve(), service(e.newService("other", DefaultServiceConfig(), identity.DefaultServiceConfig())))) {
		t.Error("it counts elsewhere")
	}
	seal = serve()
	other := byte('A')
	if seal[len(seal)/2] == other {
		other = 'B'
	}
	if taken(tell(seal[:len(seal)/2] + string(other) + seal[len(seal)/2+1:])) {
		t.Error("a forged seal counts")
	}
	e.pass(evidenceTTL + time.Second)
	if taken(tell(seal)) {
		t.Error("it counts after an hour")
	}
	if a := e.c.Evidence(e.request("POST", to, body("text/plain", "nonsense"))); a.Status != 204 || taken(a) {
		t.Errorf("nonsense: %d", a.Status)
	}
	if a := e.c.Evidence(e.request("GET", to)); a.Status != 405 {
		t.Errorf("GET: %d", a.Status)
	}
	if got := e.svc.Route([]byte("/captcha/evidence")); got != EndpointEvidence {
		t.Errorf("route %v", got)
	}

	off := newEnv(t, nil)
	for _, path := range []string{"/captcha/evidence", "/captcha/evidence.js"} {
		if got := off.svc.Route([]byte(path)); got != EndpointStatic {
			t.Errorf("%s is there without being asked for", path)
		}
		if a := off.c.Static(off.request("GET", "https://example.com"+path), path); a.Status != 404 {
			t.Errorf("%s: %d", path, a.Status)
		}
	}
}
