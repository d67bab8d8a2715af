package inline

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestParseJSON(t *testing.T) {
	f := func(text string, want any) {
		t.Helper()
		got, err := parseJSON([]byte(text))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %#v, %v; want %#v", text, got, err, want)
		}
	}
	f("null", nil)
	f("\ufeff true ", true)
	f(`"a\u00e9"`, "aé")
	f("12345678901234567890.10", json.Number("12345678901234567890.10"))
	f("[]", []any{})
	f(`[1,["b",{}]]`, []any{json.Number("1"), []any{"b", object{}}})
	f(`{"a":1,"b":null,"a":"2"}`, object{{"a", json.Number("1")}, {"b", nil}, {"a", "2"}})
	f(strings.Repeat("[", maxDepth)+strings.Repeat("]", maxDepth), nested(maxDepth))
}

// nested is a list in a list in a list.
func nested(depth int) any {
	out := []any{}
	for range depth - 1 {
		out = []any{out}
	}
	return out
}

func TestParseJSONRefuses(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		if v, err := parseJSON([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, error %v; want %q", text, v, err, want)
		}
	}
	f("", "not JSON")
	f("\xff", "not UTF-8")
	f("{", "not JSON")
	f(`{"a"}`, "not JSON")
	f(`{1:2}`, "not JSON")
	f("[1,]", "not JSON")
	f("[1}", "not JSON")
	f("1 2", "something follows")
	f("[] ]", "something follows")
	f(strings.Repeat("[", maxDepth+1), "too deeply")
	f("["+strings.Repeat("1,", maxValues)+"1]", "too many values")
}

func FuzzParseJSON(f *testing.F) {
	f.Add([]byte(`{"a":[1,"b",null,{"a":false}],"a":1e9}`))
	f.Add([]byte("\ufeff[[[]]]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := parseJSON(text)
		var plain any
		if reference := json.Unmarshal([]byte(strings.TrimPrefix(string(text), "\ufeff")), &plain); err == nil && reference != nil {
			var tooBig *json.UnmarshalTypeError // encoding/json makes float64 of numbers
			if !errors.As(reference, &tooBig) {
				t.Errorf("%q is %v here, and %v for encoding/json", text, v, reference)
			}
		}
	})
}
