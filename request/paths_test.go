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
		if string(p.Normal()) != string(NormalPath(nil, []byte(raw))) {
			t.Errorf("%q: the last is %q", raw, p.Normal())
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
	for _, s := range []string{"/", "//a/b", "/%2561/..%252f%5c..;x/b", "/%2%35", "/a%00/../b", "*", "", "/" + strings.Repeat("%25", 20) + "2e/../a"} {
		f.Add([]byte(s))
	}
	var p Paths
	f.Fuzz(func(t *testing.T, raw []byte) {
		given := bytes.Clone(raw)
		p.Read(raw)
		all := p.All()
		if !bytes.Equal(raw, given) || !bytes.Equal(all[0], raw) || !bytes.Equal(p.Normal(), NormalPath(nil, raw)) {
			t.Fatalf("%q: %q", raw, all)
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
		if (len(all) == 1) != bytes.Equal(NormalPath(nil, raw), raw) {
			t.Fatalf("%q: %q", raw, all)
		}
	})
}
