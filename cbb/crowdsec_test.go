package cbb

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const decisions = `[
 {"duration":"3h59m","id":1,"origin":"cscli","scenario":"crowdsecurity/http-probing","scope":"Ip","type":"ban","value":"192.0.2.1"},
 {"duration":"1h","id":2,"origin":"lists","scenario":"firehol","scope":"Range","type":"ban","value":"198.51.100.0/24"},
 {"duration":"1h","id":3,"origin":"lists","scenario":"x","scope":"Country","type":"ban","value":"AQ"},
 {"duration":"1h","id":4,"origin":"lists","scenario":"x","scope":"Ip","type":"ban","value":"192.0.2.9","simulated":true},
 {"duration":"1h","id":5,"origin":"CAPI","scenario":"ssh:bruteforce","scope":"ip","type":"captcha","value":"2001:db8::7"}]`

// TestCrowdSec asks a local API as a bouncer: the key is sent and read anew, what no decision names any more is let
// go, and an answer that is broken or refused leaves the last good one.
func TestCrowdSec(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("first\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	answer := decisions
	srv := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Api-Key") != "first" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		_, _ = w.Write([]byte(answer))
	})
	l := open(t, config(func(c *Config) {
		c.Lists = []ListConfig{
			{Name: "f", Flag: "block", URL: srv.URL + "/v1/decisions", Format: "crowdsec", KeyFile: key},
		}
	}), nil)
	expect := func(when string, want map[string]string) {
		t.Helper()
		for addr, word := range want {
			if got := said(l, addr, ""); got != word {
				t.Errorf("%s, %s: %s, not %s", when, addr, got, word)
			}
		}
	}
	if err := refresh(t, l, "f"); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{
		"192.0.2.1": "- - f -", "198.51.100.77": "- - f -", "2001:db8::7": "- - f -",
		"192.0.2.9": "- - - -",
	}
	expect("decisions", all)
	for _, broken := range []string{decisions[:200], `{"message":"access forbidden"}`, "", "<html>"} {
		answer = broken
		if err := refresh(t, l, "f"); err == nil {
			t.Errorf("%q is taken for decisions", broken)
		}
	}
	expect("after broken answers", all)
	if err := os.WriteFile(key, []byte("second"), 0o600); err != nil {
		t.Fatal(err)
	}
	answer = decisions
	if err := refresh(t, l, "f"); err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("a wrong key: %v", err)
	}
	elsewhere := serveText(t, "null")
	srv.become(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, http.StatusFound) })
	if err := refresh(t, l, "f"); err == nil || len(elsewhere.seen) > 0 {
		t.Errorf("the key was sent to another host: %v", err)
	}
	srv.become(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("null")) })
	if err := refresh(t, l, "f"); err != nil {
		t.Fatal(err)
	}
	expect("no decisions", map[string]string{"192.0.2.1": "- - - -"})
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	if err := refresh(t, l, "f"); err == nil || !strings.Contains(err.Error(), "key_file") {
		t.Errorf("no key: %v", err)
	}
}

func FuzzDecisions(f *testing.F) {
	for _, s := range []string{decisions, "null", "[]", "[{}]", `[{"scope":"Ip","value":"0.0.0.0/0"}]`, `[{"scope":"ip","value":7}]`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := newParser(limits{maxEntries: 100, maxBadShare: 1}).read(strings.NewReader(s), formatCrowdSec, 0)
		if err == nil && (d.entries > 100 || len(d.badLines) > keptBad) {
			t.Fatalf("bounds: %d entries, %d bad ones kept", d.entries, len(d.badLines))
		}
	})
}
