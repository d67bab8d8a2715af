package request

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func TestPaths(t *testing.T) {
	var p Paths
	f := func(raw string, want ...string) {
		t.Helper()
		p.Read([]byte(raw))
		var got []string
		for _, r := range p.All() {
			got = append(got, string(r))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %q, wanted %q", raw, got, want)
		}
		if normal := string(NormalPath(nil, []byte(raw))); raw != normal && got[len(got)-1] != normal {
			t.Errorf("%q: the last is %q", raw, got[len(got)-1])
		}
	}
	f("/", "/")
	f("/login", "/login")
	f("/%6cogin", "/%6cogin", "/login")
	f("/caf%c3%a9/x", "/caf%c3%a9/x", "/café/x")
	f("//login", "//login", "/login")
	f("//x/login", "//x/login", "/login", "/x/login")
	f("/login;x", "/login;x", "/login")
	f("/x/../login", "/x/../login", "/login")
	f("/x/%2e%2e/login", "/x/%2e%2e/login", "/x/../login", "/login")
	f("/x%2f..%2flogin", "/x%2f..%2flogin", "/x/../login", "/login")
	f(`/x\..\login`, `/x\..\login`, "/login")
	f("/%61dmin/../x", "/%61dmin/../x", "/admin/../x", "/x")
	f("/a/../%61dmin%2f..%2fpub", "/a/../%61dmin%2f..%2fpub", "/a/../admin/../pub", "/admin/../pub", "/pub")
	f("/x%00", "/x%00", "/x\x00")
	for _, way := range []string{
		"/login.", "/login..", "/login%20", "/login%2e", "/login%09", "/login%20.", "/login%3fx", "/login%23", "/login::$DATA", "/login%3f/../x",
		"/lo%c1%a7in", "/%c1%acogin", "/%e0%81%acogin", "/%f0%80%81%acogin", "/%u006cogin", "/%U006Cogin", "/x/%c0%ae%c0%ae/login", "/%c0%aflogin",
		"/x%c0%af..%c0%aflogin", "/x/..%20/login", "/.%20/login", "/l%6fgin%2e%2e", "/x%5c..%20%5clogin.", "/login%20;x",
		"///x/login", "////x/login", `/\/x/login`, `/\\x\login`, "//x;y/login", "/%20login", "/%09login%0b", "/x/%20../login", "/login%c2%a0", "/login\xa0",
		"/login%85", "/%ef%bb%bflogin", "/login%e2%80%83", "/login%1c", "/login:$DATA", "/login:$I30:$INDEX_ALLOCATION", "/x/..:$i30:$INDEX_ALLOCATION/login", "/(S(x))/login",
		"/(a(x)F(y))/login", "/lo/(S(x))gin", "/%28S%28x%29%29/login", "/x/(S(x))/../login",
	} {
		if p.Read([]byte(way)); !slices.ContainsFunc(p.All(), func(r []byte) bool { return string(r) == "/login" }) {
			t.Errorf("%q: %q", way, p.All())
		}
	}
	f("/login.", "/login.", "/login")
	f("/a.b/c.d", "/a.b/c.d")
	f("/a:b/$", "/a:b/$")
	f("/(a)/b c", "/(a)/b c")
	f("/(S(x)/login", "/(S(x)/login")
	f("/caf\xc3\xa0", "/caf\xc3\xa0")
	f("/login:x", "/login:x") // another stream of that file, and another method of that resource
	f("/caf\xc3\xa9", "/caf\xc3\xa9")
	f("/100%", "/100%")
	f("*", "*", "/*")
	f("", "", "/")
}

func TestPathsHasNUL(t *testing.T) {
	var p Paths
	for raw, want := range map[string]bool{"/a%00": true, "/a%2500.png": true, "/%0%30": true, "/a%000": true, "/a%0": false, "/a": false, "/%20": false} {
		if p.Read([]byte(raw)); p.HasNUL() != want {
			t.Errorf("%q: %t", raw, p.HasNUL())
		}
	}
}

// TestPathsAllocatesNothing: a hostile path costs no memory once there was one of its length.
func TestPathsAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	var p Paths
	raw := []byte("/a;x/..%2f%252e%252e/%2561dmin//b/./c")
	if n := testing.AllocsPerRun(100, func() { p.Read(raw) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzPaths(f *testing.F) {
	for _, s := range []string{"/", "//a/b", "/%2561/..%252f%5c..;x/b", "/%2%35", "/a%00/../b", "*", "", "/a.%20/b%3f/..%5c%c1%ac::$x", "/%u002e%u002e/%e0%80%af", "/(S(x))/%20a%c2%a0\xa0/(F(", "///\\x/a:$b", "/" + strings.Repeat("%25", 20) + "2e/../a"} {
		f.Add([]byte(s))
	}
	var p Paths
	f.Fuzz(func(t *testing.T, raw []byte) {
		given := bytes.Clone(raw)
		p.Read(raw)
		all := p.All()
		if !bytes.Equal(raw, given) || !bytes.Equal(all[0], raw) {
			t.Fatalf("%q: %q", raw, all)
		}
		if normal := NormalPath(nil, raw); !bytes.Equal(raw, normal) && !bytes.Equal(all[len(all)-1], normal) {
			t.Fatalf("%q: %q, and the normal form is not the last", raw, all)
		}
		for i := range all {
			for k := range i {
				if bytes.Equal(all[i], all[k]) {
					t.Fatalf("%q: %q twice in %q", raw, all[i], all)
				}
			}
			if len(all[i]) > len(raw)+1 {
				t.Fatalf("%q: %q is longer", raw, all[i])
			}
		}
		if normal := bytes.Equal(NormalPath(nil, raw), raw); len(all) == 1 && !normal ||
			len(all) > 1 && normal && !isLoose(raw) {
			t.Fatalf("%q: %q", raw, all)
		}
	})
}
