package processor

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"antirobot/verdict/client"
)

var update = flag.Bool("update", false, "write docs/factors.md anew")

const factorsPage = "../../docs/factors.md"

// factorsDoc is docs/factors.md.
func factorsDoc() string {
	var b strings.Builder
	fmt.Fprintf(&b, `# The factors

What the slow half knows of a subject when it evaluates it: %d numbers, in the order of the vector that a formula gets.
A number that is not known is NaN, never 0: a recorded log line has no header fields but User-Agent and Referer, a new
subject has no gaps. *cheap* are those that are known before the first answer; a service with `+"`verdict.sync`"+` judges by them
inline. Pages are requests that somebody looks at the answers of; sub-resources (pictures, styles, scripts) are none. A reload is a load
of the last page's address within half an hour: the page may do so by itself. What is said of moves from page to page is said of the other loads.

This page is made of the table in verdict/processor/factors_table.go by `+"`go test ./verdict/processor -run TestFactorsDoc -update`"+`.
`, len(factors))
	titles := map[Group]string{
		Pace: "when it asks", Course: "what it asks for, and what it gets", Client: "what it says that it is",
		Company: "who else is there", History: "what is remembered of it",
	}
	var last Group
	for i, f := range factors {
		if f.Group != last {
			fmt.Fprintf(&b, "\n## %s: %s\n\n| no. | factor | unit | cheap | what it is |\n|---|---|---|---|---|\n", f.Group, titles[f.Group])
			last = f.Group
		}
		cheap := ""
		if f.Cheap {
			cheap = "yes"
		}
		fmt.Fprintf(&b, "| %d | `%s` | %s | %s | %s |\n", i, f.Name, f.Unit, cheap, f.Doc)
	}
	return b.String()
}

func TestFactorsDoc(t *testing.T) {
	want := factorsDoc()
	if *update {
		if err := os.WriteFile(factorsPage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(factorsPage)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/factors.md is stale: go test ./verdict/processor -run TestFactorsDoc -update")
	}
}

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
