package location

import "testing"

// TestParse: what is read is spelled as browsers read it, and what they may read otherwise is not read.
func TestParse(t *testing.T) {
	f := func(raw, want string) {
		t.Helper()
		if u, ok := Parse(raw); u.Text != want || ok != (want != "") {
			t.Errorf("%q is read as %q, %v", raw, u.Text, ok)
		}
	}
	f("https://example.com", "https://example.com/")
	f("HTTPS://Example.COM:443/a?b=1&c=2#d", "https://example.com/a?b=1&c=2#d")
	f("http://example.com:443?a", "http://example.com:443/?a")
	f("https://example.com/<\u00e9>?\\", "https://example.com/%3C%C3%A9%3E?\\")
	f("//example.com/", "")
	f("javascript:alert(1)//https://example.com", "")
	f("https://user@example.com/", "")
	f("https://example.com\\@evil.com/", "")
	f("https://example.com/\\evil.com", "")
	f("https://example.com:/", "")
	f("https://example.com:0443/", "")
	f("https://exa\tmple.com/", "")
	f("https://ex\u00e4mple.com/", "")
}

func TestHost(t *testing.T) {
	f := func(rule, raw string, want bool) {
		t.Helper()
		h, err := ParseHost(rule)
		u, ok := Parse(raw)
		if err != nil || !ok {
			t.Fatalf("%s, %s: %v, %v", rule, raw, err, ok)
		}
		if h.Fits(&u) != want {
			t.Errorf("%s fits %s: %v", rule, raw, !want)
		}
	}
	f("example.org", "https://example.org/", true)
	f("example.org", "http://example.org:80/", true)
	f("example.org", "https://example.org:8443/", false)
	f("example.org:8443", "https://example.org:8443/", true)
	f("example.org:8443", "https://example.org/", false)
	f("example.org", "https://www.example.org/", false)
	f("*.example.org", "https://www.example.org/", true)
	f("*.example.org", "https://example.org/", false)
	f("*.example.org", "https://notexample.org/", false)
	for _, bad := range []string{"", "https://example.org", "example.org/path", "*", "*.*.org", "user@example.org"} {
		if h, err := ParseHost(bad); err == nil {
			t.Errorf("%q is read as %+v", bad, h)
		}
	}
}

func TestOrigin(t *testing.T) {
	f := func(rule, origin string, want bool) {
		t.Helper()
		o, err := ParseOrigin(rule)
		if err != nil {
			t.Fatal(err)
		}
		if o.Fits(origin) != want {
			t.Errorf("%s fits %s: %v", rule, origin, !want)
		}
	}
	f("https://App.example.org", "https://app.example.org", true)
	f("https://app.example.org", "http://app.example.org", false)
	f("https://app.example.org", "https://app.example.org:8443", false)
	f("https://*.example.org", "https://a.b.example.org", true)
	f("https://*.example.org", "https://example.org", false)
	f("https://*.example.org", "https://evil.com/.example.org", false)
	for _, bad := range []string{"", "null", "app.example.org", "https://example.org/path", "https://user@example.org"} {
		if o, err := ParseOrigin(bad); err == nil {
			t.Errorf("%q is read as %+v", bad, o)
		}
	}
}
