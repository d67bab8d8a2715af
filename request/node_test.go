package request

import (
	"strings"
	"testing"
)

// TestParseNode: one answer for the fields of proxies and for those of balancers that ask.
func TestParseNode(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		got := ""
		if a, ok := ParseNode([]byte(in)); ok {
			got = a.String()
		}
		if got != want {
			t.Errorf("%q: %q, wanted %q", in, got, want)
		}
	}
	f("192.0.2.1", "192.0.2.1")
	f("192.0.2.1:80", "192.0.2.1")
	f("192.0.2.1:_hidden", "192.0.2.1") // RFC 7239
	f("::ffff:192.0.2.1", "192.0.2.1")
	f("[::ffff:192.0.2.1]:80", "192.0.2.1")
	f("2001:db8::1", "2001:db8::1")
	f("2001:db8::1:443", "2001:db8::1:443") // no port without brackets
	f("[2001:db8::1]", "2001:db8::1")
	f("[2001:db8::1]:443", "2001:db8::1")
	f("[192.0.2.1]", "") // brackets hold IPv6 alone
	f("[192.0.2.1]:80", "")
	f("192.0.2.1:0", "192.0.2.1")
	f("192.0.2.1:65536", "")
	f("192.0.2.1:", "")
	f("192.0.2.1:+80", "")
	f("192.0.2.1:_", "")
	f(" 192.0.2.1", "")
	f("fe80::1%eth0", "fe80::1")
	f("[fe80::1%eth0]:80", "fe80::1")
	f("192.0.2.1%eth0", "")
	f(`"192.0.2.1"`, "192.0.2.1")
	f(`"192.0.2.1:80"`, "192.0.2.1")
	f(`"[2001:db8::1]:443"`, "2001:db8::1")
	f(`"192.0.2.1`, "")
	f(`"" 192.0.2.1"`, "")
	f(`""`, "")
	f("unknown", "")
	f("_hidden", "")
	f("unix:", "")
	f("192.0.2.1, 192.0.2.2", "")
	f("192.0.2.01", "")
	f("", "")
	f("[]", "")
	f("[2001:db8::1", "")
	f("[2001:db8::1]x", "")
	f(strings.Repeat("1", 100), "")
}

func TestIsHidden(t *testing.T) {
	f := func(in string, want bool) {
		t.Helper()
		if IsHidden([]byte(in)) != want {
			t.Errorf("%q: wanted %v", in, want)
		}
	}
	f("unknown", true)
	f("Unknown", true)
	f(`"unknown"`, true)
	f("unknown:4711", true)
	f("_gazonk", true)
	f("_gazonk:_port", true)
	f("unix:", true)
	f("", false)
	f("_", false)
	f("unix", false)
	f("unix:/run/x", false)
	f("unknown.example", false)
	f("192.0.2.1", false)
	f("::1", false)
	f("-", false)
}

func TestParseNodeDoesNotAllocate(t *testing.T) {
	b := []byte("[2001:db8::1]:443")
	if n := testing.AllocsPerRun(100, func() { ParseNode(b) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
