package request

import (
	"net/netip"
	"testing"
)

// TestUnwrap: what stands for an IPv4 address that is reached from everywhere is that; nothing can be made to stand
// for one that configurations trust.
func TestUnwrap(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		a := netip.MustParseAddr(in)
		if got := Unwrap(a); got != netip.MustParseAddr(want) {
			t.Errorf("%s: got %v, wanted %s", in, got, want)
		}
		if n := testing.AllocsPerRun(10, func() { Unwrap(a) }); n != 0 {
			t.Errorf("%s: %v allocations", in, n)
		}
	}
	f("203.0.113.7", "203.0.113.7")
	f("::ffff:203.0.113.7", "203.0.113.7")
	f("::ffff:10.0.0.1", "10.0.0.1")
	f("64:ff9b::203.0.113.7", "203.0.113.7")
	f("64:ff9b::cb00:7107", "203.0.113.7")
	f("64:ff9b::cb00:7107%eth0", "203.0.113.7")
	for _, same := range []string{
		"64:ff9b::10.0.0.1", "64:ff9b::127.0.0.1", "64:ff9b::192.168.1.1", "64:ff9b::172.16.0.1", "64:ff9b::169.254.169.254",
		"64:ff9b::100.64.0.1", "64:ff9b::0.0.0.0", "64:ff9b::0.1.2.3", "64:ff9b::224.0.0.1", "64:ff9b::255.255.255.255",
		"64:ff9b::1:203.0.113.7", "64:ff9b:1::203.0.113.7", "64:ff9b:0:1::203.0.113.7", "2001:db8::203.0.113.7",
		"::203.0.113.7", "::1", "::ffff:0:203.0.113.7", // no form of IPv4 that visitors have
		"2002:cb00:7107::1", "2001:0:cb00:7107:8000:63bf:3fff:fdd2", // 6to4 and Teredo
	} {
		f(same, same)
	}
	f("fe80::1%eth0", "fe80::1")

	network := func(in, want string) {
		t.Helper()
		got, ok := unwrapNetwork(netip.MustParsePrefix(in))
		if ok != (want != "") || ok && got.Masked() != netip.MustParsePrefix(want) {
			t.Errorf("%s: got %v, %v, wanted %q", in, got, ok, want)
		}
	}
	network("64:ff9b::203.0.113.0/120", "203.0.113.0/24")
	network("64:ff9b::203.0.113.7/128", "203.0.113.7/32")
	network("64:ff9b::10.0.0.0/104", "64:ff9b::10.0.0.0/104")
	network("64:ff9b::/96", "")
	network("64:ff9b::/64", "")
	network("64:ff9b::128.0.0.0/97", "")
	network("64:ff9b:1::/48", "64:ff9b:1::/48")
	network("::/0", "::/0")
	network("2001:db8::/32", "2001:db8::/32")
}
