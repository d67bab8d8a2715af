package request

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestNormalPath(t *testing.T) {
	f := func(raw, want string) {
		t.Helper()
		if got := string(NormalPath(nil, []byte(raw))); got != want {
			t.Errorf("%q: %q, want %q", raw, got, want)
		}
		if got := string(NormalPath([]byte("dst%2"), []byte(raw))); got != "dst%2"+want {
			t.Errorf("%q after other bytes: %q", raw, got)
		}
	}
	f("/", "/")
	f("", "/")
	f("*", "/*")
	f("/a/b", "/a/b")
	f("/a/b/", "/a/b/")
	f("//a///b", "/a/b")
	f("/./a/./b/.", "/a/b/")
	f("/a/../b", "/b")
	f("/a/..", "/")
	f("/a/b/../", "/a/")
	f("/../../a", "/a")
	f("/..", "/")
	f("/a/...", "/a/...")
	f("/%2e%2e/a", "/a")
	f("/x/%2E%2e/a", "/a")
	f("/x/.%2e/a", "/a")
	f("/x%2fa", "/x/a")
	f("/x%2Fa", "/x/a")
	f("/x/..%2fa", "/a")
	f("/a;x=y/b", "/a/b")
	f("/a;x=y", "/a")
	f("/x/..;/a", "/a")
	f("/x/..;y=z/a", "/a")
	f("/a%3bx/b", "/a/b")
	f("/;/a", "/a")
	f("/%61dmin", "/admin")
	f("/%2561dmin", "/admin")
	f("/%25252561dmin", "/admin")
	f("/%2%35%36%31dmin", "/admin")
	f("/x\\..\\a", "/a")
	f("/x%5c..%5ca", "/a")
	f("/a%00.png", "/a\x00.png")
	f("/free/x%00/../../product/1", "/product/1")
	f("/a%", "/a%")
	f("/a%2", "/a%2")
	f("/a%zz", "/a%zz")
	f("/50%25-off", "/50%-off")
	f("/%3f%23", "/?#")
	f("/caf%c3%a9", "/café")
	f("/.well-known/x", "/.well-known/x")
}

// TestNormalPathIsLinear: a path sixteen times as long takes some sixteen times as long, not 256 times. The shortest
// of several times counts, and on a busy machine it takes more of them until none was interrupted.
func TestNormalPathIsLinear(t *testing.T) {
	const short, longer, tries = 1 << 10, 16, 30
	for what, of := range map[string]struct {
		raw  func(n int) string
		want func(n int) string
	}{
		"escaped percent signs": {func(n int) string { return "/" + strings.Repeat("%25", n) }, func(n int) string { return "/" + strings.Repeat("%", n) }},
		"one escaped often":     {func(n int) string { return "/%" + strings.Repeat("25", n) }, func(int) string { return "/%" }},
		"names taken back":      {func(n int) string { return strings.Repeat("/a", n) + strings.Repeat("/..", n) }, func(int) string { return "/" }},
	} {
		took := func(n int) time.Duration {
			raw, began := []byte(of.raw(n)), time.Now()
			got := NormalPath(nil, raw)
			took := time.Since(began)
			if string(got) != of.want(n) {
				t.Fatalf("%s: %.20q of %d bytes", what, got, len(got))
			}
			return took
		}
		one, many := took(short), took(longer*short)
		for n := 0; n < tries && (n < 9 || many > 5*longer*one); n++ {
			one, many = min(one, took(short)), min(many, took(longer*short))
		}
		if many > 5*longer*one {
			t.Errorf("%s: %v, and %v for a path %d times as long", what, one, many, longer)
		}
	}
}

func FuzzNormalPath(f *testing.F) {
	for _, s := range []string{
		"/", "//a", "/./b", "/%2e%2e/c", "/a;x/..;y/b", "/%252e", "/%2%35", "/a%00b", "/x\\y", "*", "/a/../../b/.", "/%", "/%5c%3b%2f",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		n := NormalPath(nil, raw)
		if len(n) == 0 || n[0] != '/' || len(n) > len(raw)+1 {
			t.Fatalf("%q: %q", raw, n)
		}
		if again := NormalPath(nil, n); !bytes.Equal(again, n) {
			t.Fatalf("%q: %q, and again %q", raw, n, again)
		}
		if bytes.Contains(n, []byte("//")) || bytes.Contains(n, []byte("/../")) || bytes.Contains(n, []byte("/./")) ||
			bytes.ContainsAny(n, ";\\") {
			t.Fatalf("%q: %q", raw, n)
		}
		if isNormal(raw) && !bytes.Equal(n, raw) {
			t.Fatalf("%q is said to be normal and is not: %q", raw, n)
		}
	})
}
