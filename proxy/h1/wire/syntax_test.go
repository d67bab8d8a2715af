package wire

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
			if IsText(b) != All(b, Value) {
				t.Errorf("byte %#x at %d", c, pos)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOf(rapid.Byte()).Draw(t, "b")
		if IsText(b) != All(b, Value) {
			t.Fatalf("differ on %q", b)
		}
	})
}

func TestKindOf(t *testing.T) {
	f := func(name string, want Kind) {
		t.Helper()
		if got := KindOf([]byte(name)); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
	for name, k := range map[string]Kind{
		"te": TE, "Host": Host, "DATE": Date, "cookie": Cookie, "Expect": Expect, "Trailer": Trailer,
		"upgrade":   Upgrade,
		"Forwarded": Forwarded, "X-Real-IP": Forwarded, "Keep-Alive": Hop, "Connection": Connection,
		"Max-Forwards":   MaxForwards,
		"Content-Length": Length, "Proxy-Connection": Hop, "Transfer-Encoding": Encoding, "Proxy-Authenticate": Hop,
		"Proxy-Authorization": Hop, "Proxy-Authentication-Info": Hop, "X-Forwarded-For": Forwarded,
		"x-forwarded-anything-at-all": Forwarded,
		"Content_Length":              Lookalike, "content_LENGTH": Lookalike, "Transfer_Encoding": Lookalike,
		"Transfer-Encoding_": Plain,
		"X_Forwarded-For":    Lookalike, "x_forwarded_something_very_very_long": Lookalike, "x_real_ip": Lookalike,
		"Proxy_Connection": Lookalike,
		"X.Forwarded.For":  Lookalike, "X-Real~IP": Lookalike, "Content.Length": Lookalike, "my.header": Plain,
		"max_forwards": Plain, "my_header": Plain, "an_unrelated_name_longer_than_the_buffer": Plain, "": Plain,
		"x": Plain, "hosT2": Plain,
	} {
		f(name, k)
	}
}
