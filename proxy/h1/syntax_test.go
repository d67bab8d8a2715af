package h1

import (
	"testing"

	"pgregory.net/rapid"
)

// TestIsText compares the fast check with the table, byte by byte.
func TestIsText(t *testing.T) {
	for c := range 256 {
		for pos := range 20 {
			b := []byte("aaaaaaaa\taaa~aaaaaa\xff")
			b[pos] = byte(c)
			if isText(b) != all(b, isValue) {
				t.Errorf("byte %#x at %d", c, pos)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOf(rapid.Byte()).Draw(t, "b")
		if isText(b) != all(b, isValue) {
			t.Fatalf("differ on %q", b)
		}
	})
}

func TestKindOf(t *testing.T) {
	f := func(name string, want kind) {
		t.Helper()
		if got := kindOf([]byte(name)); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
	for name, k := range map[string]kind{
		"te": kTE, "Host": kHost, "DATE": kDate, "cookie": kCookie, "Expect": kExpect, "Trailer": kTrailer, "upgrade": kUpgrade,
		"Forwarded": kForwarded, "X-Real-IP": kForwarded, "Keep-Alive": kHop, "Connection": kConnection, "Max-Forwards": kMaxForwards,
		"Content-Length": kLength, "Proxy-Connection": kHop, "Transfer-Encoding": kEncoding, "Proxy-Authenticate": kHop,
		"Proxy-Authorization": kHop, "Proxy-Authentication-Info": kHop, "X-Forwarded-For": kForwarded, "x-forwarded-anything-at-all": kForwarded,
		"Content_Length": kLookalike, "content_LENGTH": kLookalike, "Transfer_Encoding": kLookalike, "Transfer-Encoding_": plain,
		"X_Forwarded-For": kLookalike, "x_forwarded_something_very_very_long": kLookalike, "x_real_ip": kLookalike, "Proxy_Connection": kLookalike,
		"max_forwards": plain, "my_header": plain, "an_unrelated_name_longer_than_the_buffer": plain, "": plain, "x": plain, "hosT2": plain,
	} {
		f(name, k)
	}
}
