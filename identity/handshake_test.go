package identity

import (
	"strings"
	"testing"

	"antirobot/request"
)

// TestHandshakeSpoofing: fingerprints in fields count from trusted proxies only; what a trusted proxy's own connection
// shows is nobody's.
func TestHandshakeSpoofing(t *testing.T) {
	const real, forged, own = "t13d1516h2_8daaf6152771_e5627efa2ab1", "t13d1516h2_aaaaaaaaaaaa_e5627efa2ab1", "t13d1312h2_f57a46bbacb6_ab7e3b40a677"
	r := newBench(t, func(c *Config) {
		c.TrustedProxies, c.JA4Header, c.HTTP2Header = []string{"10.0.0.0/8"}, "X-Forwarded-JA4", "X-Forwarded-H2"
	}).Resolver
	silent := newBench(t, func(c *Config) { c.TrustedProxies = []string{"10.0.0.0/8"} }).Resolver
	f := func(r *Resolver, peer string, vouched bool, wantJA4, wantFrames string, fields ...string) {
		t.Helper()
		v := page(start, peer)
		v.JA4, v.Frames = []byte(own), []byte("own")
		for _, l := range fields {
			name, value, _ := strings.Cut(l, ": ")
			v.Fields = append(v.Fields, request.Field{Name: []byte(name), Value: []byte(value)})
		}
		v.Client = []byte("a proxy")
		r.Handshake(v, vouched)
		if direct := wantJA4 == own; (v.Client != nil) != direct {
			t.Errorf("%v: the certificate of the connection is %q", fields, v.Client)
		}
		if string(v.JA4) != wantJA4 || string(v.Frames) != wantFrames {
			t.Errorf("%v: %s %s, want %s %s", fields, v.JA4, v.Frames, wantJA4, wantFrames)
		}
	}
	f(r, "203.0.113.7", false, own, "own", "X-Forwarded-JA4: "+forged)
	f(r, "203.0.113.7", true, forged, "", "X-Forwarded-JA4: "+forged)
	f(r, "10.0.0.1", false, real, "1:2|00|0|m", "X-Forwarded-JA4: "+forged, "x-forwarded-ja4: "+real,
		"X-Forwarded-H2: 1:2|00|0|m")
	f(r, "10.0.0.1", false, "", "")
	f(r, "10.0.0.1", false, "", "", "X-Forwarded-JA4: "+real+"x", "X-Forwarded-H2: "+strings.Repeat("1:2;", 100))
	f(silent, "10.0.0.1", false, "", "", "X-Forwarded-JA4: "+real)
}

// TestCertificateIsALogin: the verified name of a certificate is its owner's subject, as a login is.
func TestCertificateIsALogin(t *testing.T) {
	b := newBench(t, nil)
	s, err := NewCookieSettings(DefaultServiceConfig())
	if err != nil {
		t.Fatal(err)
	}
	of := func(name string) Subject {
		t.Helper()
		v := page(start, "203.0.113.7")
		v.Client = []byte(name)
		var id Identity
		b.Resolve(&id, v, s)
		return id.Winner()
	}
	one, other, nobody := of("shop.partner.example"), of("other.partner.example"), of("")
	if one.Kind != KindL || other.Kind != KindL || one == other || nobody.Kind != KindIP ||
		one != of("shop.partner.example") {
		t.Errorf("subjects %v, %v and %v", one, other, nobody)
	}
}
