//go:build !race

package processor

import "testing"

// TestOrder: who opens more pages a minute, keeps no parts and never stays for long is rather a robot than who doesn't, as long as nothing else speaks against either,
// and nobody comes nearer to a doubt by that.
func TestOrder(t *testing.T) {
	calm := known{"agent_browser": 1, "clients": 1, "parts_missing": 0.5, "session_pages": 12, "client_loads_1m": 0.7, "stay_longest": 900}
	brisk := known{"client_loads_1m": 4, "parts_missing": 0, "stay_longest": 100}
	low, high := calm.raw(t), calm.and(brisk).raw(t)
	if low > -5 || high > -3+1e-6 || high < low+2 {
		t.Errorf("calm: %.2f, brisk: %.2f", low, high)
	}
	for last, pace := low, []float32{1.2, 1.7, 4}; len(pace) > 0; pace = pace[1:] {
		raw := calm.and(known{"client_loads_1m": pace[0]}).raw(t)
		if raw <= last {
			t.Errorf("%v pages a minute: %.2f, as for fewer: %.2f", pace[0], raw, last)
		}
		last = raw
	}
	first := known{"session_pages": 2}
	if a, b := calm.and(first).raw(t), calm.and(brisk).and(first).raw(t); b != a {
		t.Errorf("with two pages: %.2f and %.2f", a, b)
	}
	for name, sign := range map[string]known{"a library": {"agent_library": 1}, "a scanner": {"probes": 8}} {
		suspect := calm.and(sign)
		if a, b := suspect.raw(t), suspect.and(brisk).raw(t); a < -3 || a != b {
			t.Errorf("%s: %.2f, brisk: %.2f", name, a, b)
		}
	}
}
