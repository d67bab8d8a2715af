package console

import (
	"strings"
	"testing"
)

// listsAnswers are a source with two entries, and the lists made at run time.
var listsAnswers = map[string]string{
	"/api/lists": `{"sources":[{"name":"abuse","flag":"block","kind":"url","entries":2,"age_seconds":5,"decided":7,"decided_on":"2026-03-04","decided_entries":1,"counted_since":"2026-01-02T15:04:05Z"}]}`,
	"/api/lists/abuse": `{"items":[{"entry":"192.0.2.0/24","decided":7,"decided_on":"2026-03-04","counted_since":"2026-01-02T15:04:05Z"},
		{"entry":"192.0.3.0/24","silent":true,"counted_since":"2026-01-02T15:04:05Z"}]}`,
	"/api/lists/block": `{"items":[{"entry":"203.0.113.1","decided":3,"decided_on":"2026-03-05","counted_since":"2026-01-02T15:04:05Z"},
		{"entry":"203.0.113.2","silent":true,"counted_since":"2026-01-02T15:04:05Z"},{"entry":"203.0.113.3","counted_since":"2026-03-01T15:04:05Z"}]}`,
	"/api/lists/white": `{"items":[{"entry":"203.0.113.0/24","reason":"x"}]}`,
	"/api/lists/ban":   `{"items":[{"entry":"203.0.113.0/24","reason":"x"}]}`,
}

// The page of lists says how often each entry decided, or since when it did not; the filter leaves those of which it is known that
// they did not in 30 days, and tells how many are too young for that.
func TestEntriesThatDecided(t *testing.T) {
	b := open(t, newConsole(t, new(gate), nil)).signIn(viewerToken)
	for path, want := range map[string]struct{ has, lacks []string }{
		"/console/lists": {
			[]string{"203.0.113.1 ", "<td>3</td><td>2026-03-05</td>", "203.0.113.2 ", "203.0.113.3 ", "not since 2026-03-01", "<td>7</td><td>2026-03-04</td><td>1</td>", `href="/console/lists?list=abuse#entries"`},
			[]string{"192.0.2.0/24", "checked"},
		},
		"/console/lists?silent=1": {
			[]string{"203.0.113.2 ", "not since 2026-01-02", "checked", "3 more have not decided either"},
			[]string{"203.0.113.1 ", "203.0.113.3 "},
		},
		"/console/lists?list=abuse":          {[]string{"192.0.2.0/24", "192.0.3.0/24", "Counted since 2026-01-02", "from 2026-02-01"}, []string{"203.0.113.1 "}},
		"/console/lists?list=abuse&silent=1": {[]string{"192.0.3.0/24", `name="list" type="hidden" value="abuse"`}, []string{"192.0.2.0/24"}},
		"/console/lists?list=none":           {[]string{"203.0.113.1 "}, []string{"192.0.2.0/24"}},
	} {
		_, page, _ := b.ask(path, "")
		for _, text := range want.has {
			if !strings.Contains(page, text) {
				t.Errorf("%s lacks %q", path, text)
			}
		}
		for _, text := range want.lacks {
			if strings.Contains(page, text) {
				t.Errorf("%s has %q", path, text)
			}
		}
	}
}
