package message

import (
	"strings"
	"testing"
)

func TestConfig(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	if err := family().Validate(); err != nil {
		t.Error(err)
	}
	c := family()
	c.Authorisation = "hope"
	root := &c.Partners[0].Domain
	root.Name = "x"
	root.Properties[0].Class = "Nothing"
	root.Properties[1].Attributes = []AttributeConfig{{"text", "String"}, {"text", "Text"}}
	root.Properties[2].Rules = "stop SPAM"
	root.Properties[3].NumChunks = 1
	root.Properties[4].Model = "magic"
	root.Domains[0].Name = "a/b"
	c.Partners = append(c.Partners, c.Partners[0])
	err := c.Validate()
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		`authorisation: "hope"`, `partners[0].domain.name: the root`, `partners[0].domain.properties[0].class: "Nothing"`,
		`partners[0].domain.properties[1].attributes[0].type: "String"`, `partners[0].domain.properties[1].attributes[1].name: "text" occurs twice`,
		`partners[0].domain.properties[2].rules: line 1, column 6`, `partners[0].domain.properties[3].num_chunks`, `partners[0].domain.properties[4].model: "magic"`,
		`partners[0].domain.domains[0].name: "a/b"`, `partners[1].name: "default" occurs twice`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %s in\n%v", want, err)
		}
	}
	c = DefaultConfig()
	c.Authorisation, c.Partners[0].Secret = "keys", "short"
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "partners[0].secret: needs at least 16") {
		t.Error(err)
	}
}
