package texts

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func setOf(t testing.TB, k Kind, entries ...string) *Set {
	t.Helper()
	s := New(k)
	for _, e := range entries {
		if err := s.Add(e); err != nil {
			t.Fatalf("%q: %v", e, err)
		}
	}
	return s
}

func TestWords(t *testing.T) {
	s := setOf(t, Words, "Казино", "Free Money", "1xbet", "ёлка", "赌场", "don't", "buy now today")
	var r Reader
	f := func(text, want string) {
		t.Helper()
		if got, _ := r.Find(s, ByKind, text); got != want {
			t.Errorf("%q has %q, want %q", text, got, want)
		}
	}
	f("Играй в КАЗИНО!", "казино")
	f("играй в kaзинo", "казино")
	f("к а з и н о тут", "казино")
	f("каз\u200bино", "казино")
	f("казиношный", "")
	f("free  MONEY, really", "free money")
	f("fr3e m0ney", "free money")
	f("free of money", "")
	f("it is free", "")
	f("1XBET.com", "1xbet")
	f("Елка", "елка")
	f("去赌场吧", "赌 场")
	f("赌 场", "赌 场")
	f("we dont know", "dont")
	f("buy now", "")
	f("buy now today", "buy now today")
	f("", "")
	if _, ok := r.Find(s, Whole, "Free money!"); !ok {
		t.Error("the whole text is an entry")
	}
	if _, ok := r.Find(s, Whole, "a casino has free money"); ok {
		t.Error("the whole text is no entry")
	}
	if _, ok := r.Find(s, ByHost, "казино"); ok {
		t.Error("words are no hosts")
	}
}

func TestDomains(t *testing.T) {
	s := setOf(t, Domains, "evil.example", "0.0.0.0 ads.example.net", "*.bad.org", "||worse.org^", "пример.рф", "MAILINATOR.com")
	var r Reader
	f := func(text, want string) {
		t.Helper()
		if got, _ := r.Find(s, ByHost, text); got != want {
			t.Errorf("%q has %q, want %q", text, got, want)
		}
	}
	f("see https://evil.example/x", "evil.example")
	f("see HTTPS://WWW.Evil.Example:8080?x", "evil.example")
	f("https://bank.example@evil.example/", "evil.example")
	f("see evil.example.", "evil.example")
	f("hxxp://evil[.]example", "evil.example")
	f("http://ev\u200bil.example", "evil.example")
	f("http://notevil.example", "")
	f("http://evil.example.com", "")
	f("x@mailinator.com", "mailinator.com")
	f("<x.y+z@a.mailinator.com>", "mailinator.com")
	f("http://a.b.ads.example.net/", "ads.example.net")
	f("http://example.net/", "")
	f("(bad.org)", "bad.org")
	f("[link](http://worse.org)", "worse.org")
	f(`<a href="http://x.bad.org/">`, "bad.org")
	f("http://ПРИМЕР.рф/путь", "xn--e1afmkfd.xn--p1ai")
	f("http://xn--e1afmkfd.xn--p1ai", "xn--e1afmkfd.xn--p1ai")
	f("é http://evil[.]example", "evil.example")
	f("plain text... with. points", "")
	if _, ok := r.Find(s, Whole, "EVIL.example."); !ok {
		t.Error("the whole text is an entry")
	}
	if _, ok := r.Find(s, Whole, "www.evil.example"); ok {
		t.Error("the whole text is a sub-domain of an entry")
	}
}

func TestKeys(t *testing.T) {
	s := setOf(t, Keys, "AbC-1", "+7 900 000", "13238")
	var r Reader
	f := func(as Match, text string, want bool) {
		t.Helper()
		if _, got := r.Find(s, as, text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
	f(ByKind, "AbC-1", true)
	f(ByKind, "abc-1", false)
	f(ByKind, "+7 900 000", true)
	f(ByKind, "use AbC-1", false)
	f(ByWord, "use AbC-1", true)
	f(ByWord, "use (AbC-1).", true)
	f(ByWord, "use AbC-12", false)
	f(ByHost, "13238", false)
}

func TestAddRefuses(t *testing.T) {
	f := func(k Kind, entry string) {
		t.Helper()
		if err := New(k).Add(entry); err == nil {
			t.Errorf("%s take %q", k, entry)
		}
	}
	for _, k := range []Kind{Words, Domains, Keys} {
		f(k, " ")
		f(k, strings.Repeat("a", maxKey+1))
		f(k, "a\xff")
	}
	f(Words, "...")
	f(Words, "<p>page</p>")
	f(Words, "aa bb cc dd ee ff gg hh ii")
	f(Domains, "example")
	f(Domains, "http://example.com/")
	f(Domains, "a@example.com")
	f(Domains, "two hosts.example")
	f(Domains, "a..example")
	f(Domains, strings.Repeat("a", 64)+".example")
}

func TestLinks(t *testing.T) {
	var r Reader
	f := func(text string, want ...string) {
		t.Helper()
		var got []string
		for _, l := range r.Links(text) {
			short := ""
			if l.Short() {
				short = " short"
			}
			got = append(got, fmt.Sprint(l.Host, l.Path, " ", l.Length, short))
		}
		if strings.Join(got, "|") != strings.Join(want, "|") {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	f("no link here. e.g. readme.md, 3.14 or a@example.com")
	f("see http://Example.com/a/b?c=d#e, and www.example.org!", "example.com/a/b 28", "www.example.org/ 15")
	f("bit.ly/xyz https://t.co", "bit.ly/xyz 10 short", "t.co/ 12 short")
	f("пишите на сайт пример.рф", "xn--e1afmkfd.xn--p1ai/ 9")
	f("http://127.0.0.1:8080/x http://[2001:db8::1]/y", "127.0.0.1/x 23", "2001:db8::1/y 22")
	f("h\u200bttp://exa\u00admple.com", "example.com/ 18")
	f("http://a.example@b.example/", "b.example/ 27")
	f("http://", "")
	f(strings.Repeat("http://a.example ", 2*maxLinks)[:17*65], strings.Split(strings.Repeat("a.example/ 16|", maxLinks), "|")[:maxLinks]...)
	r.Forget()
	if len(r.Links("")) != 0 {
		t.Error("a text without links has those of the one before")
	}
}

// TestAllocations: a look-up costs no memory, however long the list is.
func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	var r Reader
	for k, text := range map[Kind]string{
		Words: "An ordinary text of some words. Обычный текст", Domains: "See https://www.example.com/ and a@example.org", Keys: "AbC",
	} {
		s := setOf(t, k, "some.example")
		if n := testing.AllocsPerRun(100, func() { r.Find(s, ByKind, text) }); n != 0 {
			t.Errorf("%s: %v allocations", k, n)
		}
	}
}

func FuzzTexts(f *testing.F) {
	for _, s := range []string{
		"see http://Example.com/a?b", "a@b.example", "[::1]", "http://[", "www.", "пример.рф", "bit.ly/x", "c a s i n o", "赌场", "'", "don't", "http:\\\\x.y",
		"||a.b^", "0.0.0.0 a.b", "*.", "-.-", "a..b", "http://@", "http://a@b@c/", "x:80", "1.2.3.4", "\u3002", "http://a\u0301.b", "X..",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var r Reader
		for _, l := range r.Links(text) {
			if l.Host == "" || l.Path == "" || l.Length < 1 || strings.ContainsAny(l.Host, " /ABC") {
				t.Fatalf("%q has %+v", text, l)
			}
		}
		if !utf8.ValidString(text) {
			return
		}
		// What is taken into a list is found in it.
		for k, as := range map[Kind]Match{Words: ByWord, Domains: ByHost, Keys: Whole} {
			s := New(k)
			if s.Add(text) != nil {
				continue
			}
			look := strings.TrimSpace(text)
			if k == Domains {
				look = "http://" + onlyEntry(s) + "/"
			}
			if _, ok := r.Find(s, as, look); !ok {
				t.Fatalf("%q is in a list of %s and is not found", text, k)
			}
		}
	})
}

func onlyEntry(s *Set) string {
	for e := range s.entries {
		return e
	}
	return ""
}

// BenchmarkFind looks up texts of eighteen words in lists of a hundred thousand entries.
func BenchmarkFind(b *testing.B) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, k := range []Kind{Words, Domains, Keys} {
		s := New(k)
		for s.Len() < 100_000 {
			e := fmt.Sprintf("w%x", rnd.Uint64())
			switch {
			case k == Domains:
				e += ".example"
			case k == Words && rnd.IntN(4) == 0:
				e += " " + e
			}
			if err := s.Add(e); err != nil {
				b.Fatal(err)
			}
		}
		text := "An ordinary text of some words, see https://shop.example.com/a for more, or write to somebody@example.org: there are eighteen"
		b.Run(k.String(), func(b *testing.B) {
			var r Reader
			b.ReportAllocs()
			for b.Loop() {
				r.Find(s, ByKind, text)
			}
		})
	}
}

// TestLinksAreLinear: a long run of characters that a mail address may have, with hosts in it, is looked at once.
func TestLinksAreLinear(t *testing.T) {
	for _, piece := range []string{"a.bc+", "a.bc'", "a.bc+a.bc=", ".", "-", "ab.", "a@"} {
		for _, end := range []string{"", "@", "@b."} {
			text, quick := strings.Repeat(piece, 1<<17/len(piece))+end, false
			for n := 0; n < 3 && !quick; n++ { // a busy machine may need several
				var r Reader
				began := time.Now()
				r.Links(text)
				quick = time.Since(began) < time.Second
			}
			if !quick {
				t.Errorf("128 KiB of %q and %q take more than a second", piece, end)
			}
		}
	}
}
