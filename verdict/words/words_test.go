package words

import (
	"strings"
	"testing"
)

func TestFactor(t *testing.T) {
	for _, tt := range []struct {
		l     Language
		name  string
		value float32
		want  string
	}{
		{English, "client_loads_1m", 33, "33 page loads in a minute"},
		{English, "targets", 30.1, "30 different pages"},
		{English, "answer_bytes", 123456, "mean size of its answers: 123456 bytes"},
		{English, "not_found_share", 0.5, "asks for what is not there: 50 % of its answers"},
		{English, "people_even", 0.998, "more even in its reading than the site's people: 99.8 % of them"},
		{English, "agent_library", 1, "says that it is an HTTP library or a command line tool"},
		{English, "cookies", 0, "brings no cookies"},
		{English, "of_tomorrow", 2, "of_tomorrow = 2"},
		{Russian, "client_loads_1m", 33, "открыто страниц за минуту: 33"},
		{"tlh", "days", 3, "3 days with a page"},
	} {
		if got := Factor(tt.l, tt.name, tt.value); got != tt.want {
			t.Errorf("%s in %s is told as %q, want %q", tt.name, tt.l, got, tt.want)
		}
	}
}

func TestReason(t *testing.T) {
	for reason, want := range map[string]string{
		"formula: agent_library, client_loads_1m": "says that it is an HTTP library or a command line tool; page loads in a minute (agent_library, client_loads_1m)",
		"formula: stay_typical":                   "typical time on a page (stay_typical)",
		"pace: more than 5 pages in 10s":          "pace: more than 5 pages in 10s",
		"formula: of_tomorrow":                    "formula: of_tomorrow",
	} {
		if got := Reason(English, reason); got != want {
			t.Errorf("%q is told as %q, want %q", reason, got, want)
		}
	}
}

// TestTexts: both languages have the same names, each text is short, and its value stands where Reason can leave it out.
func TestTexts(t *testing.T) {
	for l, other := range map[Language]Language{English: Russian, Russian: English} {
		for name, p := range texts[l] {
			if q, ok := texts[other][name]; !ok || q.valued != p.valued || q.share != p.share || (q.none == "") != (p.none == "") {
				t.Errorf("%s differs between %s and %s", name, l, other)
			}
			if p.valued && p.before != "" && !strings.Contains(p.before, ": ") {
				t.Errorf("%s in %s has no colon before its value: %q", name, l, p.before)
			}
			if n := len([]rune(p.before + p.after)); n < 4 || n > 100 {
				t.Errorf("%s in %s has %d characters", name, l, n)
			}
		}
	}
}
