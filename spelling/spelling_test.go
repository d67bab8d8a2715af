package spelling

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	f := func(word, want string, names ...string) {
		t.Helper()
		if got := Nearest(word, names); got != want {
			t.Errorf("%q among %q: got %q, want %q", word, names, got, want)
		}
	}
	f("upstraem", "upstream", "verdict", "upstream")    // swapped
	f("upstram", "upstream", "verdict", "upstream")     // left out
	f("upsstream", "upstream", "verdict", "upstream")   // doubled
	f("upztream", "upstream", "verdict", "upstream")    // replaced
	f("UPSTREAM", "upstream", "verdict", "upstream")    // in capitals
	f("vredict", "verdict", "vedic", "verdict")         // the nearer one, though it stands behind
	f("do", "", "do", "to")                             // right already
	f("zebra", "", "verdict", "upstream")               // like none
	f("agent_a", "agent_b", "bgent_a0", "agent_b")      // equally near: begins alike
	f("rate_b", "rate_a", "rate_a", "rate_c")           // equally near and alike: the first
	f("", "", "verdict")                                // nothing was written
	f(strings.Repeat("x", 1000), "", "x")               // too long to be a slip
	f("x", "", strings.Repeat("x", 1000))               //
	f(strings.Repeat("a", maxWord), "", "b", "verdict") // as long as may be
	f(strings.Repeat("a", maxWord), strings.Repeat("a", maxWord+17), strings.Repeat("a", maxWord+17))
}

func TestSlips(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"", "abc", 3},
		{"same", "same", 0},
		{"kitten", "sitting", 3},
		{"upstraem", "upstream", 1},
		{"ca", "abc", 3}, // not 2: no byte is touched twice
		{"flaw", "lawn", 2},
	} {
		if got := slips(c.a, c.b, 10); got != c.want {
			t.Errorf("%q to %q: %d, not %d", c.a, c.b, got, c.want)
		}
		if slips(c.b, c.a, 10) != c.want {
			t.Errorf("%q to %q: not the same both ways", c.b, c.a)
		}
		if got := slips(c.a, c.b, 1); (got <= 1) != (c.want <= 1) {
			t.Errorf("%q to %q, at most 1: %d", c.a, c.b, got)
		}
	}
}

func FuzzNearest(f *testing.F) {
	f.Add("upstraem", "upstream verdict")
	f.Fuzz(func(t *testing.T, word, names string) {
		list := strings.Fields(names)
		if got := Nearest(word, list); got != "" && got == word {
			t.Errorf("%q is suggested for itself", got)
		}
	})
}
