package processor

import (
	"strings"
	"testing"
)

// TestWords: every factor has words, counts stand before what is counted, and a later version's factor keeps its name.
func TestWords(t *testing.T) {
	f := func(name string, value float32, want string) {
		t.Helper()
		if got := FactorWords(name, value); got != want {
			t.Errorf("%s is told as %q, want %q", name, got, want)
		}
	}
	f("agent_library", 1, "says that it is an HTTP library or a command line tool")
	f("client_loads_1m", 33, "33 page loads in a minute")
	f("pages_10s", 9, "9 pages in the last ten seconds")
	f("not_found_share", 0.5, "asks for what is not there: 0.5")
	f("of_tomorrow", 2, "of_tomorrow = 2")
	for _, name := range FactorNames() {
		if words := FactorWords(name, 3); strings.Contains(words, name+" = ") || len(words) < 8 {
			t.Errorf("%s is told as %q", name, words)
		}
	}
	for reason, want := range map[string]string{
		"formula: agent_library, client_loads_1m": "says that it is an HTTP library or a command line tool; page loads in a minute (agent_library, client_loads_1m)",
		"pace: more than 5 pages in 10s":          "pace: more than 5 pages in 10s",
		"formula: of_tomorrow":                    "formula: of_tomorrow",
	} {
		if got := ReasonWords(reason); got != want {
			t.Errorf("%q is told as %q, want %q", reason, got, want)
		}
	}
}
