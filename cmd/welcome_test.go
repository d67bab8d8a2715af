package cmd

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"antirobot/admin"
	"antirobot/config"
)

// TestAdvice: serve says how to stop nobody, unless nobody is stopped.
func TestAdvice(t *testing.T) {
	f := func(settings string, observe bool, want string) {
		t.Helper()
		c, problems := config.Parse([]byte("services:\n  - {name: a, upstream: {urls: [http://127.0.0.1:1]}"+settings+"}\n"), nil)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		if observe {
			c.Observe()
		}
		if got := advice(c, observe); !strings.HasPrefix(got, want) {
			t.Errorf("%s, observing %v: %s", settings, observe, got)
		}
	}
	const look, stop, flag = "to look first without stopping anybody: --observe;", "to stop robots: verdict.mode enforce;", "to stop robots: start it without --observe;"
	f("", false, look)
	f("", true, flag)
	f(", verdict: {mode: observe}", false, stop)
	f(", verdict: {mode: observe}, paths: [{prefix: /a, verdict: {mode: enforce}}]", false, look)
	f(", verdict: {mode: observe}, paths: [{prefix: /a, verdict: {mode: enforce}}]", true, flag)
}

// TestNamed: where visitors come to is said by the name that the certificate is for.
func TestNamed(t *testing.T) {
	f := func(acme bool, address, want string) {
		t.Helper()
		c := config.Default()
		c.Listen = []config.Listener{{ACME: acme}}
		c.TLS.ACME.Hosts = []string{"www.example.com", "example.com"}
		if got := named(&c, address); got != want {
			t.Errorf("%s: %s", address, got)
		}
	}
	f(true, "[::]:443", "www.example.com")
	f(true, "127.0.0.1:8443", "www.example.com:8443")
	f(false, "[::]:443", "localhost:443 and to this machine's other addresses")
	f(false, "192.0.2.1:443", "192.0.2.1:443")
}

// TestHealthJSON: programs get the gateway's answer also where it is not ready; people get it in the error alone.
func TestHealthJSON(t *testing.T) {
	const answer = `{"ready":false,"waiting":["lists"]}`
	status := http.StatusServiceUnavailable
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprintln(w, answer)
	}))
	defer s.Close()
	f := func(wantOut string, ok bool, args ...string) {
		t.Helper()
		var out bytes.Buffer
		cmd := healthCommand()
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		cmd.SetOut(&out)
		cmd.SetArgs(append(args, "--admin", strings.TrimPrefix(s.URL, "http://"), "--data-dir", t.TempDir()))
		if err := cmd.Execute(); (err == nil) != ok || !ok && !strings.Contains(err.Error(), answer) || strings.TrimSpace(out.String()) != wantOut {
			t.Errorf("%v, status %d: %v, %q", args, status, err, out.String())
		}
	}
	f("", false)
	f(answer, false, "--json")
	status = http.StatusOK
	f(answer, true)
	f(answer, true, "--json")
}

// TestAttackWords: the text says that the share of challenged visitors grows.
func TestAttackWords(t *testing.T) {
	until := time.Date(2026, 11, 28, 4, 33, 51, 0, time.UTC)
	f := func(share float64, easing bool, want string) {
		t.Helper()
		if got := attackWords(&admin.AttackState{On: true, Until: until, Share: share, Easing: easing}); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	f(0, false, "under attack until 2026-11-28 04:33:51 UTC: 0 % of the visitors whom the site does not know are challenged now, and more and more until all of them are")
	f(1, true, "easing off until 2026-11-28 04:33:51 UTC: 100 % of the visitors whom the site does not know are still challenged")
	f(1, false, "under attack until 2026-11-28 04:33:51 UTC: 100 % of the visitors whom the site does not know are challenged")
}
