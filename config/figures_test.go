package config

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
)

// TestFiguresOfTheDocsAreTheDefaults: what the docs promise about limits and periods is what the defaults do. A figure that changes is
// changed in the sentence, too.
func TestFiguresOfTheDocsAreTheDefaults(t *testing.T) {
	c := Default()
	f := func(doc, sentence string, want map[string]string) {
		t.Helper()
		text, err := os.ReadFile("../docs/" + doc)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(strings.Join(strings.Fields(string(text)), " "), sentence) {
			t.Errorf("%s does not say %q any more", doc, sentence)
		}
		for path, figure := range want {
			if got := fmt.Sprint(setting(t, reflect.ValueOf(c), path)); got != figure {
				t.Errorf("%s says %q, but %s is %s, not %s", doc, sentence, path, got, figure)
			}
		}
	}
	const privacy, people = "privacy.md", "people.md"
	f(privacy, "until `processor.forget` (24 hours) after the ban", map[string]string{"processor.forget": "24h0m0s"})
	f(privacy, "24 hours, at most 128 MiB", map[string]string{"restart_log": "24h0m0s"})
	f(privacy, "14 days; the figures for plots 400 days", map[string]string{"journal.max_age": "336h0m0s"})
	f(privacy, "30 days after it was seen last", map[string]string{"verdict.keep": "720h0m0s"})
	f(privacy, "180 days, unless it is repeated", map[string]string{"labels.keep": "4320h0m0s"})
	f(privacy, "until it is decided on, at most 7 days; then a day without request, text and sender", map[string]string{"message.queue.max_age": "168h0m0s"})
	f(privacy, "With the defaults entries are forgotten at that age anyway", map[string]string{"journal.addresses_after": "336h0m0s"})
	f(people, "a picture is valid for half an hour", map[string]string{"captcha.key_ttl": "30m0s"})
	f(people, "A pass lasts 30 days", map[string]string{"captcha.pass.lifetime": "720h0m0s"})
	f(people, "If it is too large to be carried (64 KB)", map[string]string{"captcha.form_max_bytes": "65536"})
	f(people, "six digits, from a picture or a sound", map[string]string{"captcha.digits": "6"})
	f(people, "an address that has earned twenty passes within a day", map[string]string{"captcha.passes_per_day": "20"})
}

// setting returns the value at a path of keys.
func setting(t *testing.T, v reflect.Value, path string) any {
	t.Helper()
	for key := range strings.SplitSeq(path, ".") {
		field := reflect.Value{}
		for i := range v.NumField() {
			if tag, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("mapstructure"), ","); tag == key {
				field = v.Field(i)
			}
		}
		if !field.IsValid() {
			t.Fatalf("there is no %s in %s", key, path)
		}
		v = field
	}
	return v.Interface()
}
