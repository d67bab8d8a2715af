package request

import (
	"strings"
	"testing"
)

func TestParseEvidence(t *testing.T) {
	f := func(body, accepted string, want Evidence) {
		t.Helper()
		seal, got, ok := ParseEvidence([]byte(body), []byte(accepted))
		if !ok || got != want || string(seal) != "SEAL" {
			t.Errorf("%q: %+v, %q, %v; want %+v", body, got, seal, ok, want)
		}
	}
	f("1 SEAL 0 de-AT 1.2.3.4.5 1.25", "de,en;q=0.5", Evidence{Known: true, Counts: [5]uint16{1, 2, 3, 4, 5}, Spread: 1.25})
	f("1 SEAL 3 en-US 0.0.0.0.0 ", "de-DE, fr;q=0.5", Evidence{Known: true, Probes: ProbesAutomation, Language: true, Spread: -1})
	f("1 SEAL 63 en 0.0.0.0.0 ", "*", Evidence{Known: true, Probes: ProbesAutomation | ProbesScreen | ProbeUTC, Spread: -1})
	f("1 SEAL 448 en 0.0.0.0.0 ", "*", Evidence{Known: true, Probes: ProbeUnpressed | ProbeAstray | ProbeInspected, Spread: -1})
	f("1 SEAL 0  0.0.999.0.0 0.00", "de", Evidence{Known: true, Counts: [5]uint16{2: 999}})
	f("1 SEAL 0 de 0.0.0.0.0 ", "", Evidence{Known: true, Spread: -1})
	for _, bad := range []string{
		"", "1", "2 SEAL 0 de 0.0.0.0.0 ", "1 SEAL 512 de 0.0.0.0.0 ", "1 SEAL -1 de 0.0.0.0.0 ", "1 SEAL 0 de 0.0.0.0 ", "1 SEAL 0 de 0.0.0.0.1000 ",
		"1 SEAL 0 de 0.0.0.0.0 NaN", "1 SEAL 0 de 0.0.0.0.0 -1", "1 SEAL 0 de 0.0.0.0.0  ", "1 " + strings.Repeat("S", maxEvidence) + " 0 de 0.0.0.0.0 ",
	} {
		if _, _, ok := ParseEvidence([]byte(bad), nil); ok {
			t.Errorf("%.60q is taken", bad)
		}
	}
}

func FuzzParseEvidence(f *testing.F) {
	f.Add([]byte("1 SEAL 3 en-US 0.1.2.3.4 1.5"), []byte("de-DE, fr;q=0.5"))
	f.Fuzz(func(t *testing.T, body, accepted []byte) {
		seal, e, ok := ParseEvidence(body, accepted)
		if ok != e.Known || !ok && seal != nil || e.Spread > 100 {
			t.Errorf("%q, %+v, %v", seal, e, ok)
		}
	})
}
