package message_test

import (
	"strings"
	"testing"

	"antirobot/rules/sources"
)

// TestLinksAreCounted: where a text has links, each is counted, also as the API counts it; a text without any is judged all
// the same.
func TestLinksAreCounted(t *testing.T) {
	for _, of := range []string{`type=106, attribute="text"`, `type=106, attribute="text.link.host"`, `type=105, attribute="text"`, `type=200, attribute="text.link.host"`} {
		w := newWorld(t)
		s := w.messages(&sources.Formulas{})
		setRules(t, s, "ann", "", strings.ReplaceAll(`do counterAdd(@)
do counterMark(@, as="bad")
do counterCheck(@, limit=2) mark often
do counterShareCheck(@, minimum=4) mark bad
do counterAddPair(@, unique="text", prefix="pairs")
if bad stop as BAD
if often stop as OFTEN
stop as OK`, "@", of))
		judge(t, s, "ann", "", "hello", "OK")
		judge(t, s, "ann", "", "hello, there is no link here", "OK")
		judge(t, s, "ann", "", "see http://evil.example/ please", "OK")
		judge(t, s, "ann", "", "twice: http://evil.example/ and http://EVIL.example", "OK")
		judge(t, s, "ann", "", "http://good.example/ or hxxp://evil[.]example", "OFTEN")
		judge(t, s, "ann", "", "only http://good.example/", "OK")
		judge(t, s, "ann", "", "http://evil.example/", "BAD")
		judge(t, s, "ann", "", "hello", "OK")
	}
}

// TestLinkAttributes: a text has the hosts, paths, lengths and shorteners of its links.
func TestLinkAttributes(t *testing.T) {
	w := newWorld(t)
	s := w.messages(&sources.Formulas{})
	f := func(rule, text string, want bool) {
		t.Helper()
		setRules(t, s, "ann", "", `do `+rule+` mark no if no stop as NO stop as YES`)
		judge(t, s, "ann", "", text, map[bool]string{true: "YES", false: "NO"}[want])
	}
	const two = "see http://a.example/x/y?z or https://bit.ly/abc"
	f(`hasAttribute(attribute="text.link.host")`, two, true)
	f(`hasAttribute(attribute="text.link.host")`, "none", false)
	f(`hasAttribute(attribute="from.link.host")`, "none", false)
	f(`attributeCheck(attribute="text.link.host", value="a.example bit.ly")`, two, true)
	f(`attributeCheck(attribute="text.link.path", value="/x/y /abc")`, two, true)
	f(`attributeCheck(attribute="text.link.count", value=2)`, two, true)
	f(`attributeCheck(attribute="text.link.count", value=0)`, "none", true)
	f(`attributeCheck(attribute="text.link.short", value=1)`, two, true)
	f(`attributeCheck(attribute="text.link.length", value=22)`, two, true)
	f(`rangeCheck(attribute="text.link.count", max=1)`, two, false)
	f(`userFrequencyCheck(attribute="text.link.path", count=0)`, "none", true)
	f(`userFrequencyCheck(attribute="text.link.path", count=0)`, two, false)
	f(`userFrequencyCheck(attribute="text, text.link.host", count=0)`, "none", true)
	f(`userFrequencyCheck(attribute="text, text.link.host", count=0)`, two, false)
	f(`listCheck(list="tor", attribute="text.link.host")`, "http://198.51.100.7/", false)
	setRules(t, s, "ann", "", `do counterAdd(type=1, attribute="from.link.host")`)
	d, _ := s.Domain("ann", "")
	if _, err := s.Judge(t.Context(), d, map[string]any{"text": "x"}, false); err == nil || !strings.Contains(err.Error(), "there is no attribute from") {
		t.Errorf("%v", err)
	}
}
