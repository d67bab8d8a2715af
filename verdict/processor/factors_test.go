package processor

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"antirobot/verdict/client"
)

func TestFactorTable(t *testing.T) {
	list := factors
	if len(list) < 60 || len(list) > maxFactors {
		t.Fatalf("%d factors", len(list))
	}
	names := map[string]bool{}
	snake := regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
	perGroup := map[Group]int{}
	for i, f := range list {
		if !snake.MatchString(f.Name) || names[f.Name] || len(f.Name) > 64 {
			t.Errorf("factor %d: name %q", i, f.Name)
		}
		names[f.Name] = true
		if !strings.HasSuffix(f.Doc, ".") || strings.ContainsAny(f.Doc, "|\n") {
			t.Errorf("%s: doc %q", f.Name, f.Doc)
		}
		perGroup[f.Group]++
	}
	for _, g := range []Group{Pace, Course, Client, Company, History} {
		if perGroup[g] == 0 {
			t.Errorf("%d factors of group %s", perGroup[g], g)
		}
	}
}

// TestNothingIsKnownOfNobody: what can't be known of a subject at its first request is NaN and not 0, and recorded
// lines say nothing about header fields.
func TestNothingIsKnownOfNobody(t *testing.T) {
	e := event(time.Unix(1.8e9, 0), 1)
	e.Partial = true
	e.Claim = client.ParseClaim([]byte("Mozilla/5.0 (X11; Linux x86_64; rv:144.0) Gecko/20100101 Firefox/144.0"))
	var v vector
	v.scene = evidence{e: e}
	x := v.measure(false)
	for i, f := range factors {
		known := x[i] == x[i]
		switch f.Name {
		case "gap_spread", "target_share", "parts_missing",
			"cookie_age", "probes",
			"order_false", "hints_missing", "misfits", "cookie_dropped_share", "proxy_fields":
			if known {
				t.Errorf("%s is %v, not unknown", f.Name, x[i])
			}
		case "agent_browser", "agent_library", "version_age", "referer_none", "pages_1m", "clients":
			if !known {
				t.Errorf("%s is unknown", f.Name)
			}
		}
	}
}
