package client

import (
	"antirobot/request"
)

// Software is the library whose ciphers a TLS handshake offers.
type Software uint8

// The libraries that are known from the start.
const (
	SoftwareUnknown Software = iota
	SoftwareGo
	SoftwareOpenSSL
	SoftwarePython
	SoftwareNode
	SoftwareGnuTLS
)

var softwareNames = [...]string{"", "Go", "OpenSSL", "Python", "Node.js", "GnuTLS"}

// String is the library's name; empty if it is unknown.
func (s Software) String() string {
	if int(s) < len(softwareNames) {
		return softwareNames[s]
	}
	return ""
}

// hellos are the middle parts of JA4, which stand for a sorted list of ciphers, by the library that offers them unless its
// user chooses others. Libraries have lists of their own, and keep them for years, resumed or not. Measured with the
// programs named, unless another source is; no browser that has been measured has any of them.
var hellos = [...]struct {
	ciphers  string
	software Software
}{
	{"f57a46bbacb6", SoftwareGo},      // Go 1.26, net/http
	{"9dc949149365", SoftwareGo},      // Go before 1.22; README of FoxIO-LLC/ja4: two programs written in Go
	{"e8f1e7e78f70", SoftwareOpenSSL}, // curl 7.88 with OpenSSL 3.0, of Debian 12
	{"85036bcba153", SoftwarePython},  // Python 3.11: urllib and requests, with OpenSSL 3.0; README of FoxIO-LLC/ja4
	{"a33745022dd6", SoftwareNode},    // Node.js 20: fetch, https, http2
	{"723694b0fccc", SoftwareGnuTLS},  // Wget 1.21 with GnuTLS 3.7, of Debian 12
}

// softwareOf reads a JA4.
func softwareOf(ja4 []byte) Software {
	if len(ja4) != 36 {
		return SoftwareUnknown
	}
	for i := range hellos {
		if string(ja4[11:23]) == hellos[i].ciphers {
			return hellos[i].software
		}
	}
	return SoftwareUnknown
}

// hello reads what the handshake says.
func (f *Facts) hello(v *request.View) {
	if len(v.JA4) > 0 {
		f.JA4, f.QUIC = max(1, request.Hash(v.JA4)), v.JA4[0] == 'q'
		f.Software = softwareOf(v.JA4)
	}
	if f.Direct {
		f.Lag = LagOf(v.Behind)
	}
	if len(v.Frames) > 0 {
		f.Frames = max(1, request.Hash(v.Frames))
	}
}

// falseHello reports whether a handshake is that of a library with which the claimed browser is not built. GNOME's browser,
// which claims to be Safari, uses GnuTLS.
func (c Claim) falseHello(s Software) bool {
	return s != SoftwareUnknown && c.Family.Browser() && (s != SoftwareGnuTLS || c.Family != FamilySafari && c.Family != FamilyWebKit)
}

// Handshake says whose a request's handshake is, and whether that contradicts its User-Agent.
func Handshake(v *request.View) (s Software, contradicts bool) {
	s = softwareOf(v.JA4)
	return s, s != SoftwareUnknown && ParseClaim(v.Get("User-Agent")).falseHello(s)
}
