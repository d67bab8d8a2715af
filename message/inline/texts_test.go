package inline

import (
	"errors"
	"fmt"
	"testing"
)

func TestTexts(t *testing.T) {
	c := DefaultConfig()
	c.Sources = []Source{{Attribute: "user", From: "form", Key: "login"}, {Attribute: "user", From: "json", Key: "/login"}}
	f := func(kind, body, want string, wrong error) {
		t.Helper()
		got, err := c.Texts(Input{ContentType: kind, Body: []byte(body)})
		if fmt.Sprint(got) != want || !errors.Is(err, wrong) {
			t.Errorf("%s: %v, %v, want %s, %v", body, got, err, want, wrong)
		}
	}
	const form = "application/x-www-form-urlencoded"
	f(form, "a=b&login=ann", "[{user ann false}]", nil)
	f(form, "login=ann&LOGIN[]=bob", "[{user ann\nbob true}]", nil)
	f(form, "", "[]", nil)
	f("application/json", `{"login":"ann"}`, "[{user ann false}]", nil)
	f("application/json", `{"login":`, "[]", ErrUnreadable)
	f("text/plain", "login=ann", "[]", ErrUnreadable)
}
