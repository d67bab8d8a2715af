package formula

import (
	"strings"
	"testing"
)

const shop = `
version: shop-3
bias: -4
factors:
  - name: pages
    why: pages in a minute
    bins:
      - {from: 60, weight: 3}
      - {from: 30, below: 60, weight: 1.5}
      - {is: 0, weight: -0.5}
  - name: share
    unknown: 0.25
    bins:
      - below: 0.1
        weight: 1
rules:
  - name: many pages and no pictures
    weight: 2
    all:
      - {factor: pages, from: 20}
      - {factor: share, below: 0.05, unknown: true}
`

func TestCardRows(t *testing.T) {
	m := mustLoad(t, shop, "share", "pages", "other")
	f := func(pages, share, want float32) {
		t.Helper()
		x := []float32{share, pages, 0}
		if got := m.Raw(x); got != want {
			t.Errorf("pages %v, share %v: raw score %v, want %v", pages, share, got, want)
		}
		sumsUp(t, m, x)
	}
	f(10, 0.5, -4)
	f(0, 0.5, -4.5)
	f(29.999998, 0.5, -4)
	f(30, 0.5, -2.5) // from is inclusive
	f(60, 0.5, -1)   // below is exclusive
	f(1e9, 0.5, -1)
	f(10, 0.1, -4)
	f(10, 0.09999999, -3)
	f(20, 0.04, -4+1+2)
	f(20, nan, -4+.25+2) // unknown adds its own weight, and matches the rule
	f(nan, 0.04, -4+1)   // but it does not if the rule does not say so
	f(nan, nan, -4+.25)

	if got := m.Explain(nil, []float32{0.04, 60, 0}); got[0] != 2 || got[1] != 4 || got[2] != 0 {
		t.Errorf("contributions %v, want 2 4 0: the rule is shared", got)
	}
	if got := strings.Join(m.Needs(), " "); got != "share pages" {
		t.Errorf("needs %s", got)
	}
	if got := m.Reason(1); got != "pages in a minute" {
		t.Errorf("reason %q", got)
	}
	if v := m.Version(); !strings.HasPrefix(v, "shop-3-") || len(v) != len("shop-3-")+8 {
		t.Errorf("version %q", v)
	}
	if other := mustLoad(t, shop+"\n# another file\n", "share", "pages"); other.Version() == m.Version() {
		t.Error("two files have one version")
	}
	if mustLoad(t, `{"version": "v", "bias": 0, "factors": []}`, "a").Kind() != Card {
		t.Error("a score card may be written as JSON")
	}
}

// TestCardErrors: each problem is reported with its line, all of them at once.
func TestCardErrors(t *testing.T) {
	f := func(name, card string, want ...string) {
		t.Helper()
		_, err := Load([]byte(card), []string{"pages", "share"})
		for _, w := range want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %v\nwant …%s…", name, err, w)
			}
		}
	}
	replace := func(old, with string) string {
		if !strings.Contains(shop, old) {
			t.Fatalf("%q is not in the card", old)
		}
		return strings.Replace(shop, old, with, 1)
	}
	f("a factor", replace("name: share", "name: shaer"), `line 11: there is no factor "shaer"; did you mean "share"?`)
	f("a factor of a rule", replace("factor: pages", "factor: page"), `line 20: there is no factor "page"; did you mean "pages"?`)
	f("a key", replace("why:", "because:"), `line 6: an entry of factors has no key "because"; it may have bins, group, name, unknown, why`)
	f("a weight", replace("weight: 1.5", "weight: much"), `line 9: weight: "much" is not a number`)
	f("a weight beyond reason", replace("weight: 1.5", "weight: 1000"), `line 9: weight: 1000 is not between -100 and 100`)
	f("infinity", replace("weight: 1.5", "weight: .inf"), `line 9: weight: ".inf" is not a number`)
	f("an overlap", replace("from: 30, below: 60", "from: 30, below: 61"), `line 9: this bin overlaps the one of line 8`)
	f("is within another", replace("is: 0", "is: 45"), `line 10: this bin overlaps the one of line 9`)
	f("an empty span", replace("from: 30, below: 60", "from: 60, below: 30"), `line 9: from 60 is not under below 30`)
	f("no span", replace("is: 0, ", ""), `line 10: a bin needs from, below or is`)
	f("both", replace("is: 0", "is: 0, from: 1"), `line 10: a bin has either is, or from and below`)
	f("no weight", replace("from: 60, weight: 3", "from: 60"), `line 8: a bin needs weight`)
	f("twice", replace("name: share", "name: pages"), `line 11: factor pages has an entry already`)
	f("a key twice", replace("unknown: 0.25", "unknown: 1\n    unknown: 2"), `line 13: unknown occurs twice`)
	f("no version", replace("version: shop-3\n", ""), `a score card needs version`)
	f("a version", replace("shop-3", "shop 3"), `line 2: version: up to 32 letters`)
	f("a rule without conditions", replace("    all:\n      - {factor: pages, from: 20}\n      - {factor: share, below: 0.05, unknown: true}\n", ""), "line 17: a rule needs all")
	f("a condition without a factor", replace("factor: pages, ", ""), "line 20: a condition needs factor")
	f("truth", replace("unknown: true", "unknown: maybe"), `line 21: unknown: "maybe" is neither true nor false`)
	f("a list", replace("bins:\n      - {from: 60, weight: 3}\n      - {from: 30, below: 60, weight: 1.5}\n      - {is: 0, weight: -0.5}\n", "bins: 3\n"), `line 7: bins: a list is expected here`)
	f("YAML", replace("version: shop-3", "version: [shop-3"), "line ")
	f("several", strings.NewReplacer("name: share", "name: shaer", "weight: 1.5", "weight: much").Replace(shop), "line 9", "line 11")
	f("not YAML of ours", "just a text", "keys with values are expected here")
	f("an alias", "version: v\nbias: &b 1\nfactors:\n  - *b\n", "line 4")
}

// TestCardGroups: entries of a group add no more than the group may, explanations included; what speaks for people is
// not cut.
func TestCardGroups(t *testing.T) {
	const text = `version: t
bias: -4
groups: [{name: missing, most: 1.5}]
factors:
  - {name: pages, group: missing, bins: [{from: 10, weight: 1}, {below: 0, weight: -2}]}
  - {name: share, group: missing, bins: [{from: 0.5, weight: 1}]}
rules:
  - {name: both, group: missing, weight: 4, all: [{factor: pages, from: 10}, {factor: share, from: 0.5}]}
`
	m, err := Load([]byte(text), []string{"pages", "share"})
	if err != nil {
		t.Fatal(err)
	}
	f := func(pages, share, want float32) {
		t.Helper()
		x := []float32{pages, share}
		if got := m.Raw(x); abs(got-want) > 1e-5 {
			t.Errorf("%v: %v, want %v", x, got, want)
		}
		sum := m.Bias()
		for _, a := range m.Explain(nil, x) {
			sum += a
		}
		if abs(sum-want) > 1e-5 {
			t.Errorf("%v: the explanation adds up to %v, not %v", x, sum, want)
		}
	}
	f(0, 0, -4)
	f(10, 0, -3)
	f(10, 1, -2.5)
	f(-1, 1, -5)
	for bad, want := range map[string]string{
		"{name: missing, most: 0}":                           "most: 0 is not above 0",
		"{name: missing}":                                    "a group needs name and most",
		"{name: other, most: 2}":                             "there is no group",
		"{name: missing, most: 2}, {name: missing, most: 1}": "stands twice",
	} {
		_, err := Load([]byte(strings.Replace(text, "{name: missing, most: 1.5}", bad, 1)), []string{"pages", "share"})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want …%s…", bad, err, want)
		}
	}
}

// says checks the raw score of factors, and that the explanation adds up to it.
func says(t *testing.T, m *Model, want float32, x ...float32) {
	t.Helper()
	if got := m.Raw(x); abs(got-want) > 1e-5 {
		t.Errorf("%v: %v, want %v", x, got, want)
	}
	sumsUp(t, m, x)
}

// TestCardFamilies: of the groups of a family only the one that adds the most counts, and only the one that takes off the most.
func TestCardFamilies(t *testing.T) {
	const text = `version: t
bias: -4
groups: [{name: typed, most: 2, family: entry}, {name: door, most: 1.5, family: entry}, {name: way, most: 2}]
factors:
  - {name: a, group: typed, bins: [{is: 1, weight: 1}, {is: 2, weight: 3}, {is: 3, weight: -1}]}
  - {name: b, group: door, bins: [{is: 1, weight: 1.2}, {is: 2, weight: 3}, {is: 3, weight: -2}]}
  - {name: c, group: way, bins: [{is: 1, weight: 1}]}
`
	m := mustLoad(t, text, "a", "b", "c")
	f := func(a, b, c, want float32) {
		t.Helper()
		says(t, m, want, a, b, c)
	}
	f(1, 0, 1, -2)   // one sign of the family, and another group
	f(1, 1, 1, -1.8) // the larger of two
	f(2, 2, 0, -2)   // each by its own bound
	f(3, 1, 0, -3.8) // one for, one against: both count
	f(3, 3, 0, -6)   // the lower of two
	if _, err := Load([]byte(strings.Replace(text, "family: entry", `family: ""`, 1)), []string{"a", "b", "c"}); err == nil || !strings.Contains(err.Error(), "a name is expected") {
		t.Errorf("a family without a name: %v", err)
	}
}
