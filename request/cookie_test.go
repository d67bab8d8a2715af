package request

import (
	"bytes"
	"strings"
	"testing"
)

func cookieView(fields ...string) *View {
	v := new(View)
	for _, s := range fields {
		v.Fields = append(v.Fields, Field{Name: []byte("Cookie"), Value: []byte(s)}, Field{
			Name:  []byte("X"),
			Value: []byte("a=no"),
		})
	}
	return v
}

func TestCookies(t *testing.T) {
	f := func(want string, fields ...string) {
		t.Helper()
		var got []string
		for c := cookieView(fields...).Cookies(); c.Next(); {
			got = append(got, string(c.Name)+"="+string(c.Value))
		}
		if strings.Join(got, "|") != want {
			t.Errorf("%q: %q, wanted %q", fields, got, want)
		}
	}
	f("")
	f("", "")
	f("a=1", "a=1")
	f("a=1|b=2|a=3", "a=1; b=2", "a=3")
	f("a=1|b=2", "a=1;b=2;")
	f("a=1|b=2", "  a = 1\t;\tb=2  ")
	f("a=x=y", "a=x=y")
	f("a=", "a=")
	f("a=1", `a="1"`)
	f(`a="1`, `a="1`)
	f("a=|b=2", `a=""; b=2`)
	f("b=2", "novalue; =noname; b=2")
	f("A=1|a=2", "A=1; a=2")
}

// TestCookieCountIsBounded: whoever sends thousands pays for a bounded look, and junk counts like cookies.
func TestCookieCountIsBounded(t *testing.T) {
	v := cookieView(strings.Repeat("x;", maxCookies-1)+"a=1;b=2", "c=3")
	n := 0
	for c := v.Cookies(); c.Next(); n++ {
		if string(c.Name) != "a" {
			t.Errorf("%s was looked at", c.Name)
		}
	}
	if n != 1 {
		t.Errorf("%d cookies", n)
	}
}

func TestCookie(t *testing.T) {
	v := cookieView("a=1; b=2", "b=3; c=4")
	for name, want := range map[string]string{"a": "1", "b": "2", "c": "4"} {
		if got, ok := v.Cookie(name); !ok || string(got) != want {
			t.Errorf("%s: %q, %t", name, got, ok)
		}
	}
	if _, ok := v.Cookie("B"); ok {
		t.Error("the case of a cookie's name does not matter")
	}
}

func TestAppendCookiesWithout(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		if got := string(AppendCookiesWithout([]byte("dst"), []byte(in), []string{"spravka", "i"})); got != "dst"+want {
			t.Errorf("%q: %q, wanted %q", in, got, want)
		}
	}
	f("a=1; spravka=x; b=2", "a=1; b=2")
	f("spravka=x", "")
	f("i=1;i=2", "")
	f("spravka = x; a=1", "a=1")
	f("spravka; a", "a") // a service may read a name without a value
	f("a=1;;b=2", "a=1; b=2")
	f(`a="x y"`, `a="x y"`)
}

func FuzzCookies(f *testing.F) {
	for _, s := range []string{"", "a=1; b=2", `a="1;2"; b`, ";;==;", " \t= ;a", "a=1;a=2"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v := &View{Fields: []Field{{Name: []byte("cookie"), Value: b}}}
		names := map[string]bool{}
		for c := v.Cookies(); c.Next(); {
			if len(c.Name) == 0 || bytes.ContainsAny(c.Name, ";=") || bytes.IndexByte(c.Value, ';') >= 0 ||
				!bytes.Contains(b, c.Value) {
				t.Fatalf("%q: %q=%q", b, c.Name, c.Value)
			}
			if got, ok := v.Cookie(string(c.Name)); !names[string(c.Name)] && (!ok || !bytes.Equal(got, c.Value)) {
				t.Fatalf("%q: %q is %q, and by name %q", b, c.Name, c.Value, got)
			}
			names[string(c.Name)] = true
			rest := &View{
				Fields: []Field{
					{Name: []byte("cookie"), Value: AppendCookiesWithout(nil, b, []string{string(c.Name)})},
				},
			}
			if _, ok := rest.Cookie(string(c.Name)); ok {
				t.Fatalf("%q: %q is there after it was taken away", b, c.Name)
			}
		}
	})
}
