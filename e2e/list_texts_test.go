package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestTextsByTheHundredThousand: lists of a hundred thousand keys, words and domains, from files and by URL, decide over requests
// and messages.
func TestTextsByTheHundredThousand(t *testing.T) {
	t.Parallel()
	const entries = 100_000
	all := func(format string) string {
		var lines strings.Builder
		for i := range entries {
			fmt.Fprintf(&lines, format+"\n", i)
		}
		return lines.String()
	}
	domains := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, all("throwaway%d.example"))
	}))
	t.Cleanup(domains.Close)
	up := mirror(t)
	before := configured(t, `services: [{name: site, upstream: {urls: [%q]}}]`, up).metric("process_resident_memory_bytes")
	began := time.Now()
	g := configured(t, `
lists:
  lists:
    - {name: keys, of: keys, file: %q}
    - {name: words, of: words, file: %q}
    - {name: domains, of: domains, url: %q, refresh: 15m}
services:
  - name: site
    upstream: {urls: [%q]}
    rules:
      text: |
        do listCheck(list="keys", attribute="header.x-key") mark key
        do listCheck(list="words", attribute="header.x-text") mark word
        do listCheck(list="domains", attribute="header.x-text") mark domain
        if key stop as BLOCK
        if word stop as BLOCK
        if domain stop as BLOCK
        stop as OK
`, listFile(t, all("KEY-%06d")), listFile(t, all("badword%d")), domains.URL, up)
	v := visitor(t)
	ask := func(key, text string) int { return v.get(g.url+"/", "X-Key", key, "X-Text", text).StatusCode }
	eventually(t, "the list behind the URL is in force", func() bool { return ask("-", "at throwaway0.example") == 403 })
	took, memory := time.Since(began), g.metric("process_resident_memory_bytes")-before
	var l struct{ Sources []struct{ Entries int } }
	if err := json.Unmarshal(g.api("GET", "/api/lists", nil), &l); err != nil {
		t.Fatal(err)
	}
	for _, s := range l.Sources {
		if s.Entries != entries {
			t.Errorf("lists: %+v", l)
		}
	}
	for _, c := range []struct {
		key, text string
		want      int
	}{
		{"KEY-000000", "-", 403},
		{"KEY-099999", "-", 403},
		{"KEY-100000", "-", 200},
		{"-", "so badword77777 it is", 403},
		{"-", "so badword it is", 200},
		{"-", "see https://www.throwaway99999.example/page", 403},
		{"-", "see https://throwaway100000.example/page", 200},
	} {
		if got := ask(c.key, c.text); got != c.want {
			t.Errorf("key %q, text %q: %d, wanted %d", c.key, c.text, got, c.want)
		}
	}
	t.Logf("%d entries after %v, %.0f MB more than without", 3*entries, took, memory/1e6)
}
