package message

import (
	"slices"
	"testing"
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
if spma stop as SPAM`},
	}}}
	at := "partners[0].domain.domains[0].properties[1].rules: "
	want := []string{
		at + "line 2, column 28: there is no attribute text",
		at + "line 2, column 42: there is no model other",
		at + "line 3, column 50: there is no storage disk",
		at + "line 4, column 4: no rule above sets the tag spma; did you mean spam?",
	}
	if got := c.Warnings(); !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}
