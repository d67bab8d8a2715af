package skeleton

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestRead(t *testing.T) {
	var r Reader
	f := func(in, want string) {
		t.Helper()
		if got, _ := r.Read(in); got != want {
			t.Errorf("%q reads %q, want %q", in, got, want)
		}
	}
	// What is plain stays as it is.
	for _, plain := range []string{
		"", "Hello, World!", "Привет, мир! Ёлка и йод", "win £1000 now, call 09061701461 from 1st to 22nd", "mp3 b2b covid19 4ever H2SO4",
		"он и я в доме", "I'm @home, e-mail: a@b.example $100", "加我微信领取红包", "カジノの無料ボーナス", "See https://example.com/a?b=1&c=2 (really)",
		"😀👍 ok…", "«цитата» — тире", "A. B. C.", "8 9 1 2 3", "it costs 5€ & more", "x < y > z", "Ελληνικά γράμματα", "ξένος", "한국어", "!a", "x!",
		"казино777", "шоу-бизнес", "ї і є ґ",
	} {
		f(plain, plain)
	}
	for _, disguised := range []string{
		"cаsinо", "сasinо", "c4sin0", "c@s1n0", "ｃａｓｉｎｏ", "𝐜𝐚𝐬𝐢𝐧𝐨", "ⓒⓐⓢⓘⓝⓞ", "c a s i n o", "c.a.s.i.n.o", "c-a-s-i-n-o", "cas\u200bino", "ca\u00adsino",
		"c\u3164asino", "c\u2800asino", "\u202ecasino\u202c", "cas\U000e0041ino", "&#99;asino", "&#x63;a&#115;ino", "&amp;#99;asino", "c<b></b>asino", "c<!-- x -->asino",
		"cäsïnö", "c\u0336a\u0336s\u0336i\u0336n\u0336o\u0336", "ᴄᴀsɪɴᴏ", "ᴄᴀꜱɪɴᴏ", "cɑsıno", "сαsιnο", "саsіnо", "ᏟᎪᏚiNᎾ", "c\u0301asino",
	} {
		got, marks := r.Read(disguised)
		if !strings.EqualFold(got, "casino") {
			t.Errorf("%q reads %q", disguised, got)
		}
		if marks == (Marks{}) && !strings.ContainsAny(disguised, "&<") && !strings.ContainsRune(disguised, 0x336) && !strings.ContainsRune(disguised, 0xe4) && !strings.ContainsRune(disguised, 0x301) {
			t.Errorf("%q left no mark", disguised)
		}
	}
	for _, disguised := range []string{"кaзинo", "каз1ин0"[:0] + "кaзинo", "к а з и н о", "каз\u200bино", "ка\u0301зино", "к.а.з.и.н.о", "каза\u034f"[:0] + "ка\u034fзино"} {
		f(disguised, "казино")
	}
	f("🅲🅰🆂🅸🅽🅾", "CASINO")
	f("🇨🇦🇸🇮🇳🇴", "CASINO")
	f("Пᴏддᴇᴧьнᴀя ʙᴀᴧюᴛᴀ", "Поддельная валюта")
	f("hxxp://evil[.]example/x", "http://evil.example/x")
	f("evil(dot)example", "evil.example")
	f("ｘ hxxp://evil[.]example &#99;asino", "x http://evil.example casino") // what is unusual before hides nothing
	f("и\u0306од", "йод")
	f("❤️", "❤")
}

// TestLook checks that a text in which nothing is found is its own skeleton: the short cut gives what the long way gives.
func FuzzLook(f *testing.F) {
	for _, s := range []string{"plain", "c a s i n o", "кaзино", "ｃ", "&lt;", "<b>", "h[.]x", "v1agra", "4 5 a b c d", "é", "hxxps://a", "a!b", "❤️", "\u00bd", "カ", "ﾅ", "\u3000", "€", "x\u0308"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !utf8.ValidString(s) {
			return
		}
		var r Reader
		read, marks := r.Read(s)
		if !utf8.ValidString(read) {
			t.Fatalf("%q reads %q", s, read)
		}
		if look(s) != 0 {
			return
		}
		long := r.plainForms(plainAddresses(withoutMarkup(s)))
		r.runes = append(r.runes[:0], []rune(long)...)
		r.words()
		if string(r.out) != s || marks != (Marks{}) {
			t.Fatalf("nothing is found in %q, which reads %q", s, r.out)
		}
	})
}

// TestReadIsLinear: a long text of what is looked at again and again takes milliseconds; it took 18 seconds.
func TestReadIsLinear(t *testing.T) {
	for _, part := range []string{"1 ", "<!--", "<b"} {
		var r Reader
		done := make(chan struct{})
		go func() {
			defer close(done)
			r.Read(strings.Repeat(part, (256<<10)/len(part)))
		}()
		select {
		case <-done:
		case <-time.After(2 * time.Minute):
			t.Fatalf("%q: not done", part)
		}
	}
}

// TestShortCut checks that usual texts take the short way, which costs no memory.
func TestShortCut(t *testing.T) {
	var r Reader
	for _, s := range []string{"An ordinary text, of 2 sentences. See https://example.com!", "Обычный текст — «как есть»…", "加我微信"} {
		if n := testing.AllocsPerRun(100, func() { r.Read(s) }); n != 0 {
			t.Errorf("%q: %v allocations", s, n)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	for name, s := range map[string]string{
		"plain":     strings.Repeat("An ordinary text, of sentences. ", 4),
		"russian":   strings.Repeat("Обычный текст из предложений. ", 4),
		"disguised": strings.Repeat("Зарaбaтывaй c kазинo 4erез сaйт ", 4),
	} {
		b.Run(name, func(b *testing.B) {
			var r Reader
			b.SetBytes(int64(len(s)))
			for b.Loop() {
				r.Read(s)
			}
		})
	}
}
