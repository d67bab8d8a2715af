package request

import "testing"

// TestWellKnownFiles: the files at fixed places are told from what only looks like them to one of two readers of the
// path.
func TestWellKnownFiles(t *testing.T) {
	f := func(method, path string, known, acme bool) {
		t.Helper()
		v := &View{Method: []byte(method), Path: []byte(path), Target: []byte(path)}
		if v.IsWellKnown() != known || v.IsACMEChallenge() != acme {
			t.Errorf("%s %s: well known %t, wanted %t; ACME %t, wanted %t", method, path, v.IsWellKnown(), known,
				v.IsACMEChallenge(), acme)
		}
	}
	f("GET", "/robots.txt", true, false)
	f("HEAD", "/sitemap.xml", true, false)
	f("GET", "/.well-known/security.txt", true, false)
	f("GET", "/.well-known/openid-configuration", true, false)
	f("GET", "/.well-known/acme-challenge/LoqXcYV8q5ONbJQxbmR7SCTNo3tiAXDfowyjxAjEuX0", true, true)

	f("POST", "/robots.txt", false, false)
	f("GET", "/Robots.txt", false, false)
	f("GET", "/robots.txt/", false, false)
	f("GET", "/a/robots.txt", false, false)
	f("GET", "/.well-known", false, false)
	for _, path := range []string{
		"/.well-known/../shop", "/.well-known/./x", "/.well-known//x", "/.well-known/%2e%2e/shop", "/.well-known/x;/../../shop", "/.well-known/a\\..\\b",
		"/.well-known/acme-challenge/../../shop", "/.well-known/acme-challenge/%2e%2e/shop", "/.well-known/..",
	} {
		f("GET", path, false, false)
	}
	f("GET", "/.well-known/acme-challenge/", true, false)
	f("GET", "/.well-known/acme-challenge/a/b", true, false)

	for _, v := range []*View{
		{Method: []byte("GET"), Path: []byte("/robots.txt"), Query: []byte("p=12")},
		{Method: []byte("GET"), Path: []byte("/robots.txt"), Body: true},
		{Method: []byte("GET"), Path: append([]byte("/.well-known/acme-challenge/"), make([]byte, 200)...)},
	} {
		if v.IsWellKnown() || v.IsACMEChallenge() {
			t.Errorf("%s?%s passes, with a body: %t", v.Path, v.Query, v.Body)
		}
	}
	if v := (&View{Method: []byte("GET"), Path: []byte("/.well-known/acme-challenge/a"), Query: []byte("q=node/1")}); v.IsACMEChallenge() {
		t.Error("an issuer's question has a query")
	}
	named := &View{Method: []byte("GET"), Path: []byte("/robots.txt"), Named: []byte("/shop")}
	if named.IsWellKnown() {
		t.Error("a field names another path than that of the well-known file")
	}
}
