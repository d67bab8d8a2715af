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
		{English, "return_typical", 123456, "typical time between visits: 123456 h"},
		{English, "not_found_share", 0.5, "asks for what is not there: 50 % of its answers"},
		{English, "revisit_share", 0.998, "comes back to pages that it has seen: 99.8 %"},
		{English, "agent_library", 1, "says that it is an HTTP library or a command line tool"},
		{English, "cookies_forged", 0, "brings no forged cookies"},
		{English, "of_tomorrow", 2, "of_tomorrow = 2"},
		{English, "clients", 1, "1 client behind it"},
		{English, "clients", 1.5, "1.5 clients behind it"},
		{Russian, "client_loads_1m", 33, "33 открытые страницы за минуту"},
		{Russian, "clients", 1, "1 клиент за ним"},
		{Russian, "clients", 2, "2 клиента за ним"},
		{Russian, "clients", 5, "5 клиентов за ним"},
		{Russian, "clients", 11, "11 клиентов за ним"},
		{Russian, "clients", 21, "21 клиент за ним"},
		{Russian, "clients", 1.5, "1.5 клиента за ним"},
		{Russian, "clients", 1e6, "1000000 клиентов за ним"},
		{Russian, "clients", 1e-5, "1e-05 клиента за ним"},
		{"tlh", "clients", 1, "1 client behind it"},
	} {
		if got := Factor(tt.l, tt.name, tt.value); got != tt.want {
			t.Errorf("%s in %s is told as %q, want %q", tt.name, tt.l, got, tt.want)
		}
	}
}

func TestSprintf(t *testing.T) {
	for _, tt := range []struct {
		l      Language
		format string
		args   []any
		want   string
	}{
		{English, "%d {visitor|visitors} of %s", []any{1, "{a|b}"}, "1 visitor of {a|b}"},
		{English, "%d {visitor|visitors}, %d {page|pages}, %d %%", []any{2, 1, 50}, "2 visitors, 1 page, 50 %"},
		{English, "%s {request|requests} {was|were} judged", []any{"1"}, "1 request was judged"},
		{Russian, "%d {запись|записи|записей}", []any{int64(22)}, "22 записи"},
		{English, "about %.0f {request|requests}, and {it is|they are} made", []any{1.3}, "about 1 request, and it is made"},
		{English, "%s {request|requests} of %s {subject|subjects}", []any{"1,001", "21,000.5"}, "1,001 requests of 21,000.5 subjects"},
		{Russian, "ничего", nil, "ничего"},
	} {
		if got := Sprintf(tt.l, tt.format, tt.args...); got != tt.want {
			t.Errorf("%q with %v is %q, want %q", tt.format, tt.args, got, tt.want)
		}
	}
}

func TestReason(t *testing.T) {
	for reason, want := range map[string]string{
		"formula: agent_library, client_loads_1m": "says that it is an HTTP library or a command line tool; page loads in a minute (agent_library, client_loads_1m)",
		"formula: stay_typical":                   "typical time on a page (stay_typical)",
		"pace: more than 5 pages in 10s":          "pace: more than 5 pages in 10s",
		"formula: of_tomorrow":                    "formula: of_tomorrow",
		"proof: false_crawler":                    "claims to be a search engine's crawler, and is not (false_crawler)",
		"proof: of_tomorrow":                      "proof: of_tomorrow",
	} {
		if got := Reason(English, reason); got != want {
			t.Errorf("%q is told as %q, want %q", reason, got, want)
		}
	}
}

// TestTexts: both languages have the same names, each text is short, and its value stands where Reason can leave it out.
func TestTexts(t *testing.T) {
	for l, other := range map[Language]Language{English: Russian, Russian: English} {
		for name, p := range texts[l]() {
			if q, ok := texts[other]()[name]; !ok || q.valued != p.valued || q.share != p.share || (q.none == "") != (p.none == "") {
				t.Errorf("%s differs between %s and %s", name, l, other)
			}
			if p.valued && p.before != "" && !strings.Contains(p.before, ": ") {
				t.Errorf("%s in %s has no colon before its value: %q", name, l, p.before)
			}
			if n := strings.Count(p.after, "|"); n != map[Language]int{English: 1, Russian: 2}[l]*strings.Count(p.after, "{") || strings.Contains(p.before, "{") {
				t.Errorf("%s in %s has too few or too many forms, or has them before its value: %q", name, l, p.before+p.after)
			}
			if n := len([]rune(p.before + agree(l, p.after, ""))); n < 4 || n > 100 {
				t.Errorf("%s in %s has %d characters", name, l, n)
			}
		}
	}
}
