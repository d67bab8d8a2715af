package identity

import (
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"antirobot/request"
)

func resolver(t testing.TB, header string, trusted ...string) *Resolver {
	return newBench(t, func(c *Config) {
		c.TrustedProxies = trusted
		if header != "" {
			c.ClientAddressHeader = header
		}
	}).Resolver
}

// TestForwardedSpoofing: pitfall 6, whose address counts when the client and proxies make different claims.
func TestForwardedSpoofing(t *testing.T) {
	proxies := []string{"::ffff:10.0.0.0/104", "2001:db8:ffff::/48"}
	for _, c := range []struct {
		name, header, peer string
		lines              []string // "Name: value"
		want               string   // address and protocol
	}{
		{"nobody is trusted by default", "", "203.0.113.7", []string{"X-Forwarded-For: 198.51.100.1", "X-Forwarded-Proto: https"}, "203.0.113.7 http"},
		{"trusted proxy", "", "10.0.0.1", []string{"X-Forwarded-For: 198.51.100.1", "X-Forwarded-Proto: https"}, "198.51.100.1 https"},
		{"no header", "", "10.0.0.1", nil, "10.0.0.1 http"},
		{"empty header", "", "10.0.0.1", []string{"X-Forwarded-For:"}, "10.0.0.1 http"},
		{"the client wrote the left part", "", "10.0.0.1", []string{"X-Forwarded-For: 1.1.1.1, 198.51.100.1"}, "198.51.100.1 http"},
		{"the client claims to be a proxy", "", "10.0.0.1", []string{"X-Forwarded-For: 1.1.1.1, 10.0.0.9, 198.51.100.1"}, "198.51.100.1 http"},
		{"two proxies", "", "10.0.0.1", []string{"X-Forwarded-For: 1.1.1.1, 198.51.100.1, 10.0.0.2"}, "198.51.100.1 http"},
		{"several lines are one list", "", "10.0.0.1", []string{"X-Forwarded-For: 1.1.1.1", "X-Forwarded-For: 198.51.100.1", "x-forwarded-for: 10.0.0.2"}, "198.51.100.1 http"},
		{"all are proxies", "", "10.0.0.1", []string{"X-Forwarded-For: 10.0.0.3, 10.0.0.2"}, "10.0.0.3 http"},
		{"garbage on the left", "", "10.0.0.1", []string{"X-Forwarded-For: ' or 1=1, 198.51.100.1"}, "198.51.100.1 http"},
		{"garbage on the right", "", "10.0.0.1", []string{"X-Forwarded-For: 198.51.100.1, junk"}, "10.0.0.1 http"},
		{"unknown", "", "10.0.0.1", []string{"X-Forwarded-For: 1.1.1.1, 198.51.100.1, unknown"}, "198.51.100.1 http"},
		{"unknown behind a proxy", "", "10.0.0.1", []string{"X-Forwarded-For: 198.51.100.1, Unknown, 10.0.0.2"}, "198.51.100.1 http"},
		{"nothing but unknown", "", "10.0.0.1", []string{"X-Forwarded-For: unknown"}, "10.0.0.1 http"},
		{"unknown ends nothing", "", "10.0.0.1", []string{"X-Forwarded-For: 1.1.1.1, unknown, 198.51.100.1"}, "198.51.100.1 http"},
		{"a hidden name", "", "10.0.0.1", []string{"X-Forwarded-For: 198.51.100.1, _gazonk"}, "198.51.100.1 http"},
		{"a socket of the proxy's machine", "", "10.0.0.1", []string{"X-Forwarded-For: 198.51.100.1, unix:"}, "198.51.100.1 http"},
		{"quotes", "", "10.0.0.1", []string{`X-Forwarded-For: "198.51.100.1"`}, "198.51.100.1 http"},
		{"quotes, port", "", "10.0.0.1", []string{`X-Forwarded-For: 1.1.1.1, "[2001:db8::7]:443"`}, "2001:db8::7 http"},
		{"garbage behind a proxy", "", "10.0.0.1", []string{"X-Forwarded-For: 1.1.1.1, junk, 10.0.0.2"}, "10.0.0.2 http"},
		{"empty elements", "", "10.0.0.1", []string{"X-Forwarded-For: ,198.51.100.1,, ,"}, "198.51.100.1 http"},
		{"port", "", "10.0.0.1", []string{"X-Forwarded-For: 198.51.100.1:4711"}, "198.51.100.1 http"},
		{"bad port", "", "10.0.0.1", []string{"X-Forwarded-For: 198.51.100.1:99999"}, "10.0.0.1 http"},
		{"IPv6", "", "10.0.0.1", []string{"X-Forwarded-For: 2001:db8::7"}, "2001:db8::7 http"},
		{"IPv6 in brackets", "", "10.0.0.1", []string{"X-Forwarded-For: [2001:db8::7]"}, "2001:db8::7 http"},
		{"IPv6 with port", "", "10.0.0.1", []string{"X-Forwarded-For: [2001:db8::7]:443"}, "2001:db8::7 http"},
		{"IPv6 with zone", "", "10.0.0.1", []string{"X-Forwarded-For: fe80::1%eth0"}, "fe80::1 http"},
		{"IPv6 with zone and port", "", "10.0.0.1", []string{"X-Forwarded-For: [fe80::1%eth0]:443"}, "fe80::1 http"},
		{"mapped IPv4", "", "10.0.0.1", []string{"X-Forwarded-For: ::ffff:198.51.100.1"}, "198.51.100.1 http"},
		{"mapped IPv4 of a proxy", "", "10.0.0.1", []string{"X-Forwarded-For: 198.51.100.1, ::ffff:10.0.0.2"}, "198.51.100.1 http"},
		{"mapped peer", "", "::ffff:10.0.0.1", []string{"X-Forwarded-For: 198.51.100.1"}, "198.51.100.1 http"},
		{"IPv6 proxy", "", "2001:db8:ffff::1", []string{"X-Forwarded-For: 198.51.100.1"}, "198.51.100.1 http"},
		{"octal", "", "10.0.0.1", []string{"X-Forwarded-For: 0198.51.100.1"}, "10.0.0.1 http"},
		{"IPv4 in brackets", "", "10.0.0.1", []string{"X-Forwarded-For: [198.51.100.1]"}, "10.0.0.1 http"},
		{"the other headers say nothing", "", "10.0.0.1", []string{"X-Real-IP: 1.1.1.1", "Forwarded: for=1.1.1.1;proto=https", "X-Forwarded-For: 198.51.100.1"}, "198.51.100.1 http"},
		{"X-Real-IP", "X-Real-IP", "10.0.0.1", []string{"X-Forwarded-For: 1.1.1.1", "X-Real-IP: 198.51.100.1"}, "198.51.100.1 http"},
		{"two X-Real-IP: the proxy's is the last", "X-Real-IP", "10.0.0.1", []string{"X-Real-IP: 1.1.1.1", "X-Real-IP: 198.51.100.1"}, "198.51.100.1 http"},
		{"protocol of a WebSocket", "", "10.0.0.1", []string{"X-Forwarded-For: 198.51.100.1", "X-Forwarded-Proto: wss"}, "198.51.100.1 https"},
		{"protocol of a plain WebSocket", "", "10.0.0.1", []string{"X-Forwarded-For: 198.51.100.1", "X-Forwarded-Proto: ws"}, "198.51.100.1 http"},
		{"protocol behind a hidden hop", "", "10.0.0.1", []string{"X-Forwarded-For: 198.51.100.1, unknown", "X-Forwarded-Proto: https, http"}, "198.51.100.1 https"},
		{"protocol from the client alone", "", "203.0.113.7", []string{"X-Forwarded-Proto: https"}, "203.0.113.7 http"},
		{"protocol appended: the proxy's", "", "10.0.0.1", []string{"X-Forwarded-For: 198.51.100.1", "X-Forwarded-Proto: https, http"}, "198.51.100.1 http"},
		{"protocol appended by two: the outer's", "", "10.0.0.1", []string{"X-Forwarded-For: 198.51.100.1, 10.0.0.2", "X-Forwarded-Proto: http, https, http"}, "198.51.100.1 https"},
		{"protocol overwritten by the inner of two", "", "10.0.0.1", []string{"X-Forwarded-For: 198.51.100.1, 10.0.0.2", "X-Forwarded-Proto: HTTPS"}, "198.51.100.1 https"},

		{"Forwarded", "Forwarded", "10.0.0.1", []string{"X-Forwarded-Proto: http", "Forwarded: for=198.51.100.1;proto=https;by=10.0.0.1"}, "198.51.100.1 https"},
		{"Forwarded, quoted IPv6", "Forwarded", "10.0.0.1", []string{`Forwarded: FOR="[2001:db8::7]:4711" ; Proto=http`}, "2001:db8::7 http"},
		{"Forwarded, the client's on the left", "Forwarded", "10.0.0.1", []string{"Forwarded: for=1.1.1.1;proto=https, for=198.51.100.1;proto=http"}, "198.51.100.1 http"},
		{"Forwarded, several lines", "Forwarded", "10.0.0.1", []string{"Forwarded: for=198.51.100.1;proto=https", "Forwarded: for=10.0.0.2;proto=http"}, "198.51.100.1 https"},
		{"Forwarded, open quote of the client", "Forwarded", "10.0.0.1", []string{`Forwarded: for="1.1.1.1, for=198.51.100.1`}, "198.51.100.1 http"},
		{"Forwarded, comma in quotes", "Forwarded", "10.0.0.1", []string{`Forwarded: for=198.51.100.1;by="a, for=1.1.1.1"`}, "198.51.100.1 http"},
		{"Forwarded, unknown", "Forwarded", "10.0.0.1", []string{"Forwarded: for=unknown"}, "10.0.0.1 http"},
		{"Forwarded, hidden", "Forwarded", "10.0.0.1", []string{"Forwarded: for=_gazonk"}, "10.0.0.1 http"},
		{"Forwarded, hidden port", "Forwarded", "10.0.0.1", []string{`Forwarded: for="198.51.100.1:_x1"`}, "198.51.100.1 http"},
		{"Forwarded, two for", "Forwarded", "10.0.0.1", []string{"Forwarded: for=1.1.1.1;for=198.51.100.1"}, "10.0.0.1 http"},
		{"Forwarded, no for", "Forwarded", "10.0.0.1", []string{"Forwarded: proto=https"}, "10.0.0.1 https"},
		{"Forwarded, hidden on the right", "Forwarded", "10.0.0.1", []string{`Forwarded: for=1.1.1.1, for="[fe80::1%eth0]";proto=wss, for="_x:_y"`}, "fe80::1 https"},
		{"Forwarded, no for on the right", "Forwarded", "10.0.0.1", []string{"Forwarded: for=198.51.100.1;proto=https, by=10.0.0.1"}, "198.51.100.1 https"},
		{"Forwarded, escapes", "Forwarded", "10.0.0.1", []string{`Forwarded: for="198.51\.100.1"`}, "10.0.0.1 http"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, s := resolver(t, c.header, proxies...), newService(t, nil)
			v := page(start, c.peer)
			v.TLS = false
			for _, l := range c.lines {
				name, value, _ := strings.Cut(l, ":")
				v.Fields = append(v.Fields, request.Field{Name: []byte(name), Value: []byte(strings.TrimSpace(value))})
			}
			var id Identity
			r.Resolve(&id, v, s)
			if got := id.Addr.String() + " " + id.Proto; got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if id.Winner() != AddrSubject(id.Addr) {
				t.Errorf("the winner is %v", id.Winner())
			}
		})
	}
}

// TestPeerWithoutAddress: a Unix socket, or a link-local peer with a zone, still has a subject.
func TestPeerWithoutAddress(t *testing.T) {
	b, s := newBench(t, nil), newService(t, nil)
	for peer, want := range map[netip.Addr]string{
		{}: "ip:::/64",
		netip.MustParseAddr("fe80::1:2:3:4%eth0"): "ip:fe80::/64",
	} {
		v := page(start, "203.0.113.7")
		v.Peer = peer
		var id Identity
		b.Resolve(&id, v, s)
		if got := id.Winner().String(); got != want || id.N != 1 {
			t.Errorf("%v: %s of %d", peer, got, id.N)
		}
	}
}

// TestForwardedPrefixIsHearsay: whatever a client sends, what the proxy appends decides.
func TestForwardedPrefixIsHearsay(t *testing.T) {
	for _, c := range []struct{ header, appended string }{
		{"X-Forwarded-For", "198.51.100.1"}, {"Forwarded", "for=198.51.100.1;proto=http"}, {"Forwarded", `for="198.51.100.1:99"`},
	} {
		r := resolver(t, c.header, "10.0.0.0/8")
		rapid.Check(t, func(rt *rapid.T) {
			said := rapid.OneOf(rapid.String(), rapid.StringMatching(`[ ,;="\\a-f0-9.:\[\]]*`)).Draw(rt, "said")
			v := page(start, "10.0.0.1")
			v.Fields = append(v.Fields, request.Field{Name: []byte(c.header), Value: []byte(said + ", " + c.appended)})
			if a, _ := r.trust.Load().client(v); a.String() != "198.51.100.1" {
				rt.Fatalf("%s after %q", a, said)
			}
		})
	}
}

// TestForwardedFlood: pitfall 12, a long list costs bounded work.
func TestForwardedFlood(t *testing.T) {
	r := resolver(t, "", "10.0.0.0/8")
	v := page(start, "10.0.0.1")
	v.Fields = append(
		v.Fields,
		request.Field{
			Name: []byte("X-Forwarded-For"), Value: []byte("198.51.100.1, " + strings.Repeat("10.0.0.3,", 50_000)),
		},
	)
	if a, _ := r.trust.Load().client(v); a.String() != "10.0.0.3" {
		t.Errorf("%s", a)
	}
	v.Fields[len(v.Fields)-1].Value = []byte("198.51.100.1" + strings.Repeat(",", 50_000))
	if a, _ := r.trust.Load().client(v); a.String() != "10.0.0.1" {
		t.Errorf("%s", a)
	}
}

func TestPartnerUser(t *testing.T) {
	f := func(want string, values ...string) {
		t.Helper()
		v := page(start, "203.0.113.7")
		for _, val := range values {
			v.Fields = append(v.Fields, request.Field{Name: []byte("x-real-ip"), Value: []byte(val)})
		}
		got := ""
		if a, ok := PartnerUser(v); ok {
			got = a.String()
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", values, got, want)
		}
	}
	f("")
	f("198.51.100.1", "198.51.100.1")
	f("2001:db8::1", "2001:db8::1")
	f("", "198.51.100.1", "198.51.100.2")
	f("", "198.51.100.1, 198.51.100.2")
	f("", "junk")
}

func FuzzForwarded(f *testing.F) {
	for _, s := range []string{
		"198.51.100.1, 10.0.0.2", "[2001:db8::7]:1", `for="[2001:db8::7]:1";proto=https, for=10.0.0.1`, `for="`, `";,="`, ",,,", "fe80::1%eth0",
		`"198.51.100.1", unknown`, "198.51.100.1, unix:", `for=_x;proto=wss, by=10.0.0.1`, `"[fe80::1%eth0]:0"`, `"198.51.100.1", unknown`, "198.51.100.1, unix:", `for=_x;proto=wss, by=10.0.0.1`, `"[fe80::1%eth0]:0"`,
	} {
		f.Add([]byte(s), "https")
	}
	rs := []*Resolver{resolver(f, "", "10.0.0.0/8", "::/1"), resolver(f, "Forwarded", "10.0.0.0/8", "::/1")}
	s := newService(f, nil)
	f.Fuzz(func(t *testing.T, value []byte, proto string) {
		for _, r := range rs {
			v := page(start, "10.0.0.1")
			v.Fields = append(
				v.Fields, request.Field{Name: []byte(r.trust.Load().header), Value: value},
				request.Field{Name: []byte("X-Forwarded-Proto"), Value: []byte(proto)},
			)
			var id Identity
			r.Resolve(&id, v, s)
			if !id.Addr.IsValid() || id.Addr.Zone() != "" || id.Addr.Is4In6() || !id.Net.Contains(id.Addr) ||
				id.N != 1 || id.Winner().Kind != KindIP {
				t.Fatalf("%q: %v in %v, %d subjects", value, id.Addr, id.Net, id.N)
			}
		}
	})
}
