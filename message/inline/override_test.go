package inline

import (
	"errors"
	"slices"
	"testing"
)

// TestOverrides: a method that a request claims is found wherever frameworks look for one.
func TestOverrides(t *testing.T) {
	const form, js = "application/x-www-form-urlencoded", "application/json"
	for _, c := range []struct {
		media, query, field, body string
		want                      []string
		err                       error
	}{
		{form, "", "X-Http-Method-Override", "a=1", []string{"PUT"}, nil},
		{"", "", "X-HTTP-Method", "", []string{"PUT"}, nil},
		{"", "", "X-Other", "", nil, nil},
		{"", "a=1&_method=PATCH", "", "", []string{"PATCH"}, nil},
		{form, "", "", "a=1&%5fmethod=put", []string{"PUT"}, nil},
		{js, "", "", `{"_method":"PUT"}`, []string{"PUT"}, nil},
		{parts, "", "", onePart("; name=_method", "PUT"), []string{"PUT"}, nil},
		{"text/plain", "", "", "_method=PUT", nil, nil},
		{js, "", "", `{`, nil, ErrUnreadable},
	} {
		header := func(name string) []string {
			if c.field != "" && slices.Contains(OverrideFields[:], name) && folded(name) == folded(c.field) {
				return []string{"PUT"}
			}
			return nil
		}
		got, err := DefaultConfig().Overrides(Input{ContentType: c.media, Query: c.query, Body: []byte(c.body), Header: header})
		if !slices.Equal(got, c.want) || !errors.Is(err, c.err) {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
	if HasFields("text/plain") || !HasFields(form+"; charset=x") {
		t.Error("a body of another type has fields")
	}
}
