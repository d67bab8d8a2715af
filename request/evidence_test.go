package request

import (
	"strings"
	"testing"
)

func TestParseEvidence(t *testing.T) {
	f := func(body string, want Evidence) {
		t.Helper()
		seal, got, ok := ParseEvidence([]byte(body))
		if !ok || got != want || string(seal) != "SEAL" {
			t.Errorf("%q: %+v, %q, %v; want %+v", body, got, seal, ok, want)
		}
	}
	f("1 SEAL 0", Evidence{Known: true})
	f("1 SEAL 3", Evidence{Known: true, Probes: ProbesAutomation})
	f("1 SEAL 28", Evidence{Known: true, Probes: ProbeUnpressed | ProbeAstray | ProbeInspected})
	for _, bad := range []string{"", "1", "1 SEAL", "2 SEAL 0", "1 SEAL 32", "1 SEAL -1", "1 SEAL 0 ", "1 " + strings.Repeat("S", maxEvidence) + " 0"} {
		if _, _, ok := ParseEvidence([]byte(bad)); ok {
			t.Errorf("%.60q is taken", bad)
		}
	}
}

func FuzzParseEvidence(f *testing.F) {
	f.Add([]byte("1 SEAL 3"))
	f.Fuzz(func(t *testing.T, body []byte) {
		seal, e, ok := ParseEvidence(body)
		if ok != e.Known || !ok && seal != nil || e.Probes > ProbesAll {
			t.Errorf("%q, %+v, %v", seal, e, ok)
		}
	})
}
