package request

import (
	"strings"
	"testing"
)

func TestSplitHost(t *testing.T) {
	f := func(in, host, port string) {
		t.Helper()
		h, p, ok := SplitHost([]byte(in))
		if !ok || string(h) != host || string(p) != port {
			t.Errorf("%q: %q, %q, %t", in, h, p, ok)
		}
	}
	f("example.com", "example.com", "")
	f("Example.COM.", "Example.COM.", "")
	f("example.com:8080", "example.com", "8080")
	f("example.com:", "example.com", "")
	f("a_b-c.d~e", "a_b-c.d~e", "")
	f("192.0.2.1:80", "192.0.2.1", "80")
	f("[2001:db8::1]", "[2001:db8::1]", "")
	f("[2001:db8::1]:443", "[2001:db8::1]", "443")
	f("[::ffff:192.0.2.1]", "[::ffff:192.0.2.1]", "")

	for _, bad := range []string{
		"", ".", ":80", "a:b", "a:65536", "a:000080", "a:80:80", "a:8 0", "user@host", "a/b", "a b", "a\\b", "a,b", "a%2eb", "é",
		"[", "[]", "[:::::]", "[::1", "[::1]x", "[::1]80", "[192.0.2.1]", "[fe80::1%eth0]", "::1", "2001:db8::1", "a\x00",
		strings.Repeat("a", maxHost+1),
	} {
		if h, p, ok := SplitHost([]byte(bad)); ok {
			t.Errorf("%q is read as %q, %q", bad, h, p)
		}
		if got := HostName([]byte(bad)); got != nil {
			t.Errorf("%q has the name %q", bad, got)
		}
	}
}

func TestHostName(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		if got := string(HostName([]byte(in))); got != want {
			t.Errorf("%q: %q, wanted %q", in, got, want)
		}
		if got, ok := AppendHostName([]byte("dst"), []byte(in)); !ok || string(got) != "dst"+want {
			t.Errorf("%q appended: %q, %t", in, got, ok)
		}
	}
	f("example.com", "example.com")
	f("Example.COM:8080", "example.com")
	f("example.com.", "example.com")
	f("example.com.:80", "example.com")
	f("[2001:DB8::1]:80", "[2001:db8::1]")
	if got, ok := AppendHostName([]byte("dst"), []byte("a b")); ok || string(got) != "dst" {
		t.Errorf("%q, %t", got, ok)
	}
}

func TestSameAuthority(t *testing.T) {
	f := func(want bool, a, b string) {
		t.Helper()
		if got := SameAuthority([]byte(a), []byte(b), "80"); got != want {
			t.Errorf("%q and %q: %t", a, b, got)
		}
	}
	f(true, "a.example", "A.Example")
	f(true, "a.example:80", "a.example")
	f(true, "a.example:", "a.example:80")
	f(true, "[::1]", "[::1]:80")
	f(false, "a.example:81", "a.example")
	f(false, "a.example", "b.example")
	f(false, "user@a.example", "user@a.example")
}

func FuzzHost(f *testing.F) {
	for _, s := range []string{"example.com:80", "[::1]:443", "a.", ":", "[", "A.B.", "user@host:1", "[::1%x]", "1.2.3.4"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		host, port, ok := SplitHost(b)
		name := HostName(b)
		if ok != (name != nil) {
			t.Fatalf("%q: %t, %q", b, ok, name)
		}
		if !ok {
			return
		}
		if len(host) == 0 || len(host)+len(port) > len(b) || strings.ContainsAny(string(host), "/\\@ \t,%?#\x00") {
			t.Fatalf("%q: %q, %q", b, host, port)
		}
		if got, ok := AppendHostName(nil, b); !ok || string(got) != string(name) ||
			strings.ToLower(string(name)) != string(name) {
			t.Fatalf("%q: %q, %q", b, got, name)
		}
		if !SameAuthority(b, b, "80") {
			t.Fatalf("%q differs from itself", b)
		}
	})
}

// TestPlainHost: one answer for hosts of the configuration, of the private listener and of return URLs.
func TestPlainHost(t *testing.T) {
	f := func(want bool, hosts ...string) {
		t.Helper()
		for _, h := range hosts {
			if got := PlainHost(h); got != want {
				t.Errorf("%q: %t", h, got)
			}
		}
	}
	long := strings.Repeat("a", 63)
	f(true, "localhost", "a.example", "A.Example", "a-b_c.example", "192.0.2.1", "[2001:db8::1]",
		"xn--e1afmkfd.example", long+".example")
	f(false, "", ".", "a..b", ".a", "a.", "-a.example", "a-.example", "a~b", "a b", "a:1", "a:", "[192.0.2.1]",
		"[::1]:1", "[::1", "[fe80::1%eth0]", "*.a", "a@b", "a/b", "bücher.example", "ban\u212a.example",
		long+"a.example", strings.Repeat("a.", 127))
}
