package request

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestFold(t *testing.T) {
	for c := range 256 {
		want := byte(c)
		if c < utf8.RuneSelf {
			want = strings.ToLower(string(rune(c)))[0]
		}
		if got := Lower(byte(c)); got != want {
			t.Errorf("%#x: %#x, wanted %#x", c, got, want)
		}
	}
	f := func(a, b string, equal, asCGI bool) {
		t.Helper()
		if got := EqualFold([]byte(a), b); got != equal || EqualFold(b, []byte(a)) != equal {
			t.Errorf("%q and %q are equal: %t", a, b, got)
		}
		if got := EqualCGI([]byte(a), b); got != asCGI || EqualCGI(b, []byte(a)) != asCGI {
			t.Errorf("%q and %q are equal to a CGI program: %t", a, b, got)
		}
	}
	f("", "", true, true)
	f("Cookie", "cOOKIE", true, true)
	f("Cookie", "Cookies", false, false)
	f("X_Real-IP", "x-real_ip", false, true)
	f("X.Real~IP", "x-real_ip", false, true) // for PHP and lighttpd
	f("X-Real1IP", "X-Real-IP", false, false)
	f("[", "{", false, true) // 0x20 apart, and no letters
	f("@", "`", false, true)
	f("\u212a", "k\x80\x80", false, false) // the Kelvin sign is no k here
	f("é", "É", false, true)

	if !HasPrefixFold("Text/HTML; x", "text/html") || HasPrefixFold("text", "text/html") {
		t.Error("HasPrefixFold")
	}
	if !HasSuffixFold([]byte("a.CSS"), ".css") || HasSuffixFold([]byte("css"), ".css") {
		t.Error("HasSuffixFold")
	}
	if !HasPrefixCGI([]byte("X_FORWARDED-for"), "x-forwarded-") || HasPrefixCGI([]byte("x"), "x-forwarded-") {
		t.Error("HasPrefixCGI")
	}
	if got := string(AppendLower([]byte("A"), "BÉc")); got != "AbÉc" {
		t.Errorf("AppendLower: %q", got)
	}
}
