package client

import (
	"testing"

	"antirobot/identity"
	"antirobot/request"
)

// TestHello: a browser with the handshake of a library contradicts itself at its first request; a library that says what
// it is does not.
func TestHello(t *testing.T) {
	const (
		chrome  = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0.0.0 Safari/537.36"
		firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:144.0) Gecko/20100101 Firefox/144.0"
		gnome   = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Safari/605.1.15"
		goHello = "t13d1312h2_f57a46bbacb6_ab7e3b40a677"
		gnuTLS  = "t13d291300_723694b0fccc_899037bd0b8c"
	)
	f := func(agent, ja4 string, software Software, contradicts bool) {
		t.Helper()
		for _, partial := range []bool{false, true} {
			v := &request.View{Path: []byte("/"), Target: []byte("/"), JA4: []byte(ja4), Partial: partial, Fields: []request.Field{{Name: []byte("User-Agent"), Value: []byte(agent)}}}
			var facts Facts
			facts.Read(v, &identity.Identity{}, nil)
			if facts.Software != software || (facts.Misfits&FalseHello != 0) != contradicts || (facts.JA4 != 0) != (ja4 != "") {
				t.Errorf("%s with %s: %q, misfits %b", agent, ja4, facts.Software, facts.Misfits)
			}
			if s, is := Handshake(v); s != software || is != contradicts {
				t.Errorf("%s with %s is told as %q, %v", agent, ja4, s, is)
			}
		}
	}
	f(chrome, "t13d1517h2_8daaf6152771_cb7bf5808d99", SoftwareUnknown, false)
	f(chrome, goHello, SoftwareGo, true)
	f(chrome, "t13d1909h1_9dc949149365_97f8aa674fd9", SoftwareGo, true)
	f(firefox, "t13i1616h2_86a278354501_3cbfd9057e0d", SoftwareUnknown, false) // of Debian's Firefox ESR 153
	f(firefox, "t13d3112h2_e8f1e7e78f70_b26ce05bbdd6", SoftwareOpenSSL, true)
	f(firefox, gnuTLS, SoftwareGnuTLS, true)
	f(gnome, gnuTLS, SoftwareGnuTLS, false)
	f("Go-http-client/2.0", goHello, SoftwareGo, false)
	f(chrome, "", SoftwareUnknown, false)
	f(chrome, "short", SoftwareUnknown, false)
}

// TestHelloOverQUIC: it is marked as what it is, whoever says so, and a library is known by it.
func TestHelloOverQUIC(t *testing.T) {
	var facts Facts
	v := &request.View{Path: []byte("/"), Target: []byte("/"), JA4: []byte("q13d0312h3_a33745022dd6_000000000000"), HTTP2: true}
	facts.Read(v, new(identity.Identity), nil)
	if facts.JA4 == 0 || !facts.QUIC || facts.Software != SoftwareNode {
		t.Errorf("JA4 %d, QUIC %v, software %v", facts.JA4, facts.QUIC, facts.Software)
	}
	v.JA4[0] = 't'
	if facts.Read(v, new(identity.Identity), nil); facts.JA4 == 0 || facts.QUIC {
		t.Errorf("over TCP: JA4 %d, QUIC %v", facts.JA4, facts.QUIC)
	}
}
