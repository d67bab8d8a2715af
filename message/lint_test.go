package message

import (
	"slices"
	"testing"

	"antirobot/rules"
	"antirobot/rules/texts"
)

// TestConfigWarnings: a domain knows what it inherits, and check-config what its rules hardly mean.
func TestConfigWarnings(t *testing.T) {
	c := DefaultConfig()
	d := &c.Partners[0].Domain
	d.Domains = []DomainConfig{{Name: "blog", Properties: []PropertyConfig{
		{Name: "messageDomain", Class: ClassMessageDomain, Attributes: []AttributeConfig{{Name: "title", Type: "Text"}}},
		{Name: "messageAnalyzer", Class: ClassFirewall, Rules: `do modelClassify(attribute="title") mark spam
do modelClassify(attribute="text", model="other")
do userFrequencyCheck(attribute="title", storage="disk")
if spma stop as SPAM
do listCheck(list="bad-word", attribute="title") mark bad
do listCheck(list="bad-words", attribute="title", match="domain") mark bad
do attributeCheck(attribute="country", value="DE")`},
	}}}
	at := "partners[0].domain.domains[0].properties[1].rules: "
	want := []string{
		at + "line 2, column 28: there is no attribute text",
		at + "line 2, column 42: there is no model other",
		at + "line 3, column 50: there is no storage disk",
		at + "line 4, column 4: no rule above sets the tag spma; did you mean spam?",
		at + "line 5, column 19: there is no list bad-word; did you mean bad-words?",
		at + `line 6, column 4: listCheck: bad-words is a list of words: nothing is found there with match="domain"`,
		at + "line 7, column 29: there is no attribute country",
	}
	lists := []rules.List{{Name: "bad-words", Texts: true, Of: texts.Words}}
	if got := c.Warnings(lists, true); !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}
