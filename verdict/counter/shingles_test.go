package counter_test

import (
	"errors"
	"testing"

	"antirobot/verdict/counter"
)

func shingle(t *testing.T, typ uint16, text string) uint64 {
	t.Helper()
	s, err := counter.Shingles(nil, []counter.Piece{{Type: typ, Text: text}})
	if err != nil || len(s) != 1 || s[0].Type != typ {
		t.Fatalf("%d %q: %v, %v", typ, text, s, err)
	}
	return s[0].Hash
}

// Other systems compute the same numbers: these may never change.
func TestShinglesGolden(t *testing.T) {
	for _, c := range []struct {
		typ  uint16
		text string
		want uint64
	}{
		{counter.TypeAddress, "203.0.113.7", 0x3e9a497b294b9aba},
		{counter.TypeText, "Win 1000000 $ now!", 0x16b6837ef0c89e55},
		{7, "as it is", 0x9b1e8bbdc56d2389},
	} {
		if got := shingle(t, c.typ, c.text); got != c.want {
			t.Errorf("%d %q = %#016x; want %#016x", c.typ, c.text, got, c.want)
		}
	}
}

func TestShinglesNormalise(t *testing.T) {
	same := func(typ uint16, texts ...string) {
		t.Helper()
		for _, s := range texts[1:] {
			if shingle(t, typ, s) != shingle(t, typ, texts[0]) {
				t.Errorf("type %d: %q and %q differ", typ, s, texts[0])
			}
		}
	}
	differ := func(typ uint16, a, b string) {
		t.Helper()
		if shingle(t, typ, a) == shingle(t, typ, b) {
			t.Errorf("type %d: %q and %q are the same", typ, a, b)
		}
	}
	same(counter.TypeAddress, "203.0.113.7", "::ffff:203.0.113.7")
	same(counter.TypeAddress, "2001:db8:1:2::5", "2001:db8:1:2:ffff::1", "2001:0DB8:1:2::%eth0")
	differ(counter.TypeAddress, "203.0.113.7", "203.0.113.8")
	differ(counter.TypeAddress, "2001:db8:1:2::", "2001:db8:1:3::")
	same(counter.TypeNetwork, "203.0.113.7", "203.0.113.0/24", "203.0.113.128/25", "::ffff:203.0.113.0/120")
	same(counter.TypeNetwork, "2001:db8:1:2::5", "2001:db8:1::/48")
	same(counter.TypeAgent, "Mozilla/5.0  (X11)", " Mozilla/5.0 (X11)")
	differ(counter.TypeAgent, "curl/8", "Curl/8")
	same(counter.TypePath, "/a?b=1", "/a", "/a?")
	differ(counter.TypePath, "/a", "/a/")
	same(counter.TypeFrom, `"Bob <x>" <Bob@Example.org>`, "bob@example.org", " bob@example.org ")
	same(counter.TypeLink, "http://Example.org/a?b#c", "https://example.org:8443/a", "//example.org/a", "example.org/a")
	same(counter.TypeLink, "http://example.org", "http://example.org/")
	same(counter.TypeHost, "Example.org.", "example.org:443", "EXAMPLE.ORG")
	same(counter.TypeHost, "bücher.example", "xn--bcher-kva.example")
	same(counter.TypeHost, "[2001:db8::1]:80", "2001:DB8::1")
	same(counter.TypeText, "Win 1000 $ NOW!", "win  77\n$$$ now", "ｗｉｎ 5 now")
	differ(counter.TypeText, "win now", "winnow")
	same(counter.TypeSubject, "Re: ПРИВЕТ", "re привет")
	same(counter.TypeAttachmentName, "Invoice.PDF", "invoice.pdf")
	same(counter.TypeAttachmentDigest, "ABCDEF", "abcdef")
	differ(7, "a", "A")
	if shingle(t, 104, "x") == shingle(t, 8, "x") {
		t.Error("the type is not part of the shingle")
	}
}

func TestShinglesRefuse(t *testing.T) {
	for _, p := range []counter.Piece{
		{Type: counter.TypeAddress, Text: "localhost"},
		{Type: counter.TypeNetwork, Text: "203.0.0.0/16"},
		{Type: counter.TypeNetwork, Text: "x"},
		{Type: counter.TypeLink, Text: "http://"},
		{Type: counter.TypeLink, Text: "http://%zz"},
	} {
		dst, err := counter.Shingles([]counter.Shingle{{Type: 1}}, []counter.Piece{{Type: 7}, p})
		if !errors.Is(err, counter.ErrPiece) || len(dst) != 1 {
			t.Errorf("%d %q: %v, %v", p.Type, p.Text, dst, err)
		}
	}
}

func FuzzShingles(f *testing.F) {
	for _, s := range []string{"203.0.113.7", "2001:db8::/64", "http://a.b/c?d", "Win 10 $", "<a@b>", "[::1]:80", "\xff\x00"} {
		f.Add(uint16(15), s)
		f.Add(uint16(105), s)
		f.Add(uint16(104), s)
	}
	f.Fuzz(func(t *testing.T, typ uint16, text string) {
		a, err := counter.Shingles(nil, []counter.Piece{{Type: typ, Text: text}})
		b, _ := counter.Shingles(nil, []counter.Piece{{Type: typ, Text: text}})
		if err == nil && (len(a) != 1 || a[0] != b[0]) {
			t.Fatalf("%v and %v", a, b)
		}
	})
}

func BenchmarkShingles(b *testing.B) {
	pieces := []counter.Piece{
		{Type: counter.TypeAddress, Text: "203.0.113.7"},
		{Type: counter.TypeNetwork, Text: "203.0.113.7"},
		{Type: counter.TypeAgent, Text: "Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0"},
		{Type: counter.TypePath, Text: "/catalogue/item?id=7"},
		{Type: counter.TypeHost, Text: "www.example.org"},
		{Type: counter.TypeSession, Text: "ip:203.0.113.7"},
		{Type: counter.TypeText, Text: "Buy 2 of them now, they are cheap!"},
		{Type: counter.TypeLink, Text: "https://example.org/a/b?c=d"},
	}
	var dst []counter.Shingle
	b.ReportAllocs()
	for b.Loop() {
		dst, _ = counter.Shingles(dst[:0], pieces)
	}
}
