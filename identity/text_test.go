package identity

import (
	"net/netip"
	"strings"
	"testing"
)

func TestParseSubject(t *testing.T) {
	hex := strings.Repeat("0f", 16)
	for in, want := range map[string]string{
		"ip:203.0.113.7":                      "ip:203.0.113.7",
		"ip:203.0.113.7/32":                   "ip:203.0.113.7",
		"ip:::ffff:203.0.113.7":               "ip:203.0.113.7",
		"ip:2001:db8:1:2::/64":                "ip:2001:db8:1:2::/64",
		"ip:2001:db8:1:2:3:4:5:6":             "ip:2001:db8:1:2::/64",
		"i:" + hex:                            "i:" + hex,
		"spravka:" + hex:                      "spravka:" + hex,
		"L:alice":                             "L:#2bd806c97f0e00af1a1fc3328fa763a9",
		"L:#" + hex:                           "L:#" + hex,
		"fuid:5f1e2d3c4b5a6978":               TextSubject(KindFuid, []byte("5f1e2d3c4b5a6978")).String(),
		"service:sid=a:b":                     TextSubject(KindService, []byte("sid=a:b")).String(),
		"L:#short":                            TextSubject(KindL, []byte("#short")).String(),
		"":                                    "",
		"alice":                               "",
		"l:alice":                             "",
		"none:x":                              "",
		"L:":                                  "",
		"ip:":                                 "",
		"ip:203.0.113.0/24":                   "",
		"ip:2001:db8::/48":                    "",
		"ip:fe80::1%eth0":                     "",
		"ip:203.0.113.7:80":                   "",
		"i:xyz":                               "",
		"i:" + hex + "00":                     "",
		"spravka:" + hex[:31] + "g":           "",
		"L:#" + hex[:31] + "g":                "",
		"L:" + strings.Repeat("a", maxText+1): "",
	} {
		s, err := ParseSubject(in)
		if got := s.String(); (err == nil) != (want != "") || (err == nil && got != want) {
			t.Errorf("%q: got %q, %v; want %q", in, got, err, want)
		}
		if err == nil {
			if back, err := ParseSubject(s.String()); err != nil || back != s {
				t.Errorf("%q prints as %q, which is %v, %v", in, s.String(), back, err)
			}
		}
	}
}

func TestAddrSubjectAndNets(t *testing.T) {
	a := netip.MustParseAddr
	if AddrSubject(a("fe80::1%eth0")) != (Subject{}) || AddrSubject(netip.Addr{}) != (Subject{}) {
		t.Error("a zone, or no address, is somebody")
	}
	if AddrSubject(a("2001:db8::1")) != AddrSubject(a("2001:db8::ffff:1")) ||
		AddrSubject(a("2001:db8::1")) == AddrSubject(a("2001:db8:0:1::1")) {
		t.Error("IPv6 goes by /64")
	}
	if AddrSubject(a("::ffff:1.2.3.4")) != AddrSubject(a("1.2.3.4")) {
		t.Error("mapped IPv4 is IPv4")
	}
	for in, want := range map[string]string{"1.2.3.4": "1.2.3.0/24", "::ffff:1.2.3.4": "1.2.3.0/24", "2001:db8:1:2::3": "2001:db8:1::/48", "fe80::1%eth0": "fe80::/48"} {
		if got := NetOf(a(in)).String(); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
	seen := map[uint64]netip.Addr{}
	for i := range 1 << 16 {
		n := netip.AddrFrom4([4]byte{byte(i >> 8), byte(i), 7, 1})
		if other, ok := seen[NetKey(NetOf(n))]; ok {
			t.Fatalf("%v and %v have one key", n, other)
		}
		seen[NetKey(NetOf(n))] = n
	}
	// Sealed into passes: must stay the same forever.
	if got := NetKey(NetOf(a("203.0.113.7"))); got != 0xa378ab553309c0f {
		t.Errorf("NetKey changed: %#x", got)
	}
}

func TestAgentFamily(t *testing.T) {
	const win, mac = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) ", "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) "
	groups := [][]string{ // equal within a group, different between
		{
			win + "AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36",
			win + "AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36",
		},
		{mac + "AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36"},
		{
			mac + "AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.4 Safari/605.1.15",
			mac + "AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Safari/605.1.15",
		},
		{win + "AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36 Edg/120.0.0.0"},
		{win + "AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 YaBrowser/24.1.0 Safari/537.36"},
		{
			"Mozilla/5.0 (Windows NT 10.0; rv:128.0) Gecko/20100101 Firefox/128.0",
			"Mozilla/5.0 (Windows NT 6.1; rv:115.0) Gecko/20100101 Firefox/115.0",
		},
		{"Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"},
		{
			"Mozilla/5.0 (Linux; Android 14) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Mobile Safari/537.36",
		},
		{
			"Mozilla/5.0 (iPhone; CPU iPhone OS 17_4 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.4 Mobile/15E148 Safari/604.1",
		},
		{"curl/8.5.0", "curl/7.1"},
		{"python-requests/2.31"},
		{"Wget"},
		{""},
	}
	seen := map[uint64]int{}
	for i, g := range groups {
		for _, ua := range g {
			h := AgentFamily([]byte(ua))
			if j, ok := seen[h]; ok && j != i {
				t.Errorf("%q is of the family of %q", ua, groups[j][0])
			}
			seen[h] = i
			if (h == 0) != (ua == "") {
				t.Errorf("%q: %d", ua, h)
			}
		}
	}
	if len(seen) != len(groups) {
		t.Errorf("%d families, want %d", len(seen), len(groups))
	}
	if AgentFamily([]byte(strings.Repeat("x", 1<<20))) == 0 {
		t.Error("a long one has no family")
	}
	// Sealed into passes: must stay the same forever.
	if got := AgentFamily([]byte("curl/8.5.0")); got != 0x25217d484070982e {
		t.Errorf("AgentFamily changed: %#x", got)
	}
}

func FuzzParseSubject(f *testing.F) {
	for _, s := range []string{"ip:203.0.113.7", "ip:2001:db8::/64", "L:alice", "L:#00", "i:00", "service:a=b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		s, err := ParseSubject(in)
		if err != nil {
			return
		}
		if back, err := ParseSubject(s.String()); err != nil || back != s || s.Kind == KindNone {
			t.Fatalf("%q is %v, which parses to %v, %v", in, s, back, err)
		}
	})
}

// TestNoAddress: of a mistyped address it is said that it is none.
func TestNoAddress(t *testing.T) {
	for _, in := range []string{"203.0.113", "203.0.113.777", "2001:::1", "7"} {
		if _, err := ParseSubject(in); err == nil || !strings.HasSuffix(err.Error(), "is no address") {
			t.Errorf("%q: %v", in, err)
		}
	}
}
