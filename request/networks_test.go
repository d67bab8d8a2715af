package request

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

func TestParseNetwork(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		if got, err := ParseNetwork(in); err != nil || got.String() != want {
			t.Errorf("%q: got %v, %v; want %s", in, got, err, want)
		}
	}
	f("10.1.2.3", "10.1.2.3/32")
	f(" 10.1.2.3\t", "10.1.2.3/32")
	f("10.1.2.3/8", "10.0.0.0/8")
	f("0.0.0.0/0", "0.0.0.0/0")
	f("2001:DB8::1", "2001:db8::1/128")
	f("2001:db8::1/48", "2001:db8::/48")
	f("::/0", "::/0")
	f("::ffff:10.1.2.3", "10.1.2.3/32")
	f("::ffff:a01:203", "10.1.2.3/32")
	f("::ffff:10.0.0.0/104", "10.0.0.0/8")
	f("::ffff:10.1.2.3/128", "10.1.2.3/32")
	f("::ffff:0:0/96", "0.0.0.0/0")
	f("64:ff9b::203.0.113.7", "203.0.113.7/32")
	f("64:ff9b::203.0.113.0/120", "203.0.113.0/24")
	f("64:ff9b::10.0.0.0/104", "64:ff9b::a00:0/104")

	bad := func(in string, want error) {
		t.Helper()
		got, err := ParseNetwork(in)
		if err == nil || want != nil && !errors.Is(err, want) ||
			!strings.Contains(err.Error(), strings.TrimSpace(in)[:min(60, len(strings.TrimSpace(in)))]) {
			t.Errorf("%q: got %v, %v", in, got, err)
		}
	}
	bad("64:ff9b::/96", errTranslated)
	bad("", nil)
	bad("balancer", nil)
	bad("10.1.2", nil)
	bad("10.1.2.3/33", nil)
	bad("10.1.2.3/", nil)
	bad("10.1.2.3/08", nil)
	bad("10.1.2.3-10.1.2.9", nil)
	bad("fe80::1%eth0", ErrZone)
	bad("fe80::%eth0/64", ErrZone)
	bad("::ffff:0:0/95", ErrMapped)
	bad("::ffff:10.0.0.0/8", ErrMapped)
	bad(strings.Repeat("1", 1000), nil)
}

func TestParseAddr(t *testing.T) {
	for in, want := range map[string]string{"10.1.2.3": "10.1.2.3", "::ffff:10.1.2.3": "10.1.2.3", " ::1 ": "::1"} {
		if got, err := ParseAddr(in); err != nil || got.String() != want {
			t.Errorf("%q: got %v, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "10.0.0.0/8", "fe80::1%eth0", "[::1]", "10.1.2.3:80"} {
		if got, err := ParseAddr(in); err == nil {
			t.Errorf("%q is taken as %v", in, got)
		}
	}
}

func FuzzParseNetwork(f *testing.F) {
	for _, s := range []string{"10.0.0.0/8", "::ffff:10.0.0.0/104", "fe80::1%a", "::/0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := ParseNetwork(s)
		if err != nil {
			return
		}
		if p != p.Masked() || p.Addr().Is4In6() || p.Addr().Zone() != "" {
			t.Fatalf("%q: %v", s, p)
		}
		again, err := ParseNetwork(p.String())
		if err != nil || again != p {
			t.Fatalf("%q: %v, then %v, %v", s, p, again, err)
		}
		if a, err := netip.ParseAddr(strings.TrimSpace(s)); err == nil && !p.Contains(a.Unmap()) {
			t.Fatalf("%q does not hold itself: %v", s, p)
		}
	})
}
