package request

import (
	"strings"
	"testing"
)

const browserAccept = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"

// accepting is a request with an Accept field.
func accepting(field []byte) *View {
	return &View{Fields: []Field{{Name: []byte("Accept"), Value: field}}}
}

// TestPrefersJSON holds the rule: JSON must be asked for by name, and nothing may rank above it.
func TestPrefersJSON(t *testing.T) {
	f := func(want bool, accept string) {
		t.Helper()
		if got := accepting([]byte(accept)).Accept().PrefersJSON(); got != want {
			t.Errorf("%q: %t", accept, got)
		}
	}
	f(true, "application/json")
	f(true, "APPLICATION/JSON; charset=utf-8")
	f(true, "application/json, text/plain, */*")
	f(true, "application/vnd.api+json")
	f(true, " text/html;q=0.5 , application/json ;q=0.9")
	f(true, "application/json;q=0.9, text/html;q=0.8")
	f(true, "application/json;charset=utf-8;q=1.000")
	f(true, `application/json;profile="a,b;q=0"`) // what is quoted divides nothing
	f(false, "")
	f(false, "*/*")
	f(false, browserAccept)
	f(false, "text/html, application/json")              // equal: a page
	f(false, "application/json;q=0.9, text/plain")       // something else ranks first
	f(false, "application/json;q=0.5, text/html")        //
	f(false, "application/json;q=0.5, */*;q=0.8")        //
	f(false, "application/json;q=0")                     // refused by name
	f(false, "application/json;q=oops")                  // nobody knows how much
	f(false, "application/json;q=9")                     //
	f(false, "application/xhtml+xml,application/json")   // pages have two names
	f(false, "application/jsonp")                        //
	f(false, strings.Repeat("application/json,", 1000))  // nobody honest sends that
	f(false, `text/html;a="application/json, text/html`) // a quote that is left open
}

// TestAcceptIsOneList: several fields are one list, and one that came first hides no other.
func TestAcceptIsOneList(t *testing.T) {
	field := func(s string) Field { return Field{Name: []byte("accept"), Value: []byte(s)} }
	v := View{Fields: []Field{field("application/json"), field("text/html")}}
	if a := v.Accept(); a.PrefersJSON() || !a.WantsHTML() {
		t.Errorf("%+v", a)
	}
	v.Fields = append(v.Fields, field(strings.Repeat(" ", maxAccept)))
	if a := v.Accept(); a != (Accept{Given: true}) {
		t.Errorf("too long together: %+v", a)
	}
	if a := (&View{}).Accept(); a != (Accept{}) {
		t.Errorf("none: %+v", a)
	}
}

func TestAcceptsCoding(t *testing.T) {
	f := func(want bool, s string) {
		t.Helper()
		if got := AcceptsCoding([]byte(s), "gzip"); got != want {
			t.Errorf("%q: %t", s, got)
		}
	}
	f(true, "gzip, deflate, br")
	f(true, "br;q=1.0, GZIP;q=0.5")
	f(true, "gzip ; q=0.001")
	f(false, "gzip;q=0")
	f(false, "gzip;q=x")
	f(false, "identity, *;q=0.5")
	f(false, "")
	f(false, strings.Repeat("gzip,", 1000))
}

func FuzzAccept(f *testing.F) {
	for _, s := range []string{"", "*/*", "application/json", browserAccept, "application/json;q=.5,text/html;q=0.4;;q=,", ";;;,,,q==", `a;b="\",application/json`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		a := accepting(b).Accept()
		if a.PrefersJSON() && !strings.Contains(strings.ToLower(string(b)), "json") {
			t.Errorf("%q prefers what it does not name", b)
		}
		for _, q := range []int{a.HTML, a.JSON, a.Feed, a.Best} {
			if q < 0 || q > 1000 || q > a.Best {
				t.Errorf("%q: %+v", b, a)
			}
		}
		if AcceptsCoding(b, "gzip") && !strings.Contains(strings.ToLower(string(b)), "gzip") {
			t.Errorf("%q accepts what it does not name", b)
		}
	})
}
