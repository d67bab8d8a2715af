package settings

import "testing"

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"", "abc", 3},
		{"abc", "", 3},
		{"same", "same", 0},
		{"kitten", "sitting", 3},
		{"upstraem", "upstream", 2},
		{"flaw", "lawn", 2},
	} {
		if got := Distance(c.a, c.b); got != c.want {
			t.Errorf("%q to %q: %d, not %d", c.a, c.b, got, c.want)
		}
		if Distance(c.b, c.a) != c.want {
			t.Errorf("%q to %q: not the same both ways", c.b, c.a)
		}
	}
}
