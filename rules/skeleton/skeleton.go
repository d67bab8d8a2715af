// Package skeleton turns a text into what a reader sees, so that rules and models judge that and not the disguise:
//
//  1. HTML entities are decoded, and invisible tags removed.
//  2. Invisible characters are removed.
//  3. Letters in other forms (full-width, mathematical, circled, small capitals, with marks) and look-alikes of
//     other alphabets (Unicode Technical Standard 39) become plain.
//  4. A word in two alphabets, or with digits and signs for letters, becomes a word of one alphabet.
//  5. Letters that stand apart are joined, and obfuscated addresses (hxxp, [.]) restored.
//
// Case and white space stay.
package skeleton

import (
	"html"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Marks counts the differences between a text and its skeleton.
type Marks struct {
	Hidden int // invisible characters
	Shapes int
	Mixed  int // words of two alphabets, or with digits or signs for letters
	Spaced int // words with letters apart
}

// Reader makes skeletons. The zero value is ready for use, by one goroutine at a time.
type Reader struct {
	runes []rune
	out   []byte
	marks Marks
}

// Read returns the skeleton of valid UTF-8.
func (r *Reader) Read(text string) (string, Marks) {
	found := look(text)
	if found == 0 {
		return text, Marks{}
	}
	r.marks = Marks{}
	if found&hasMarkup != 0 {
		text = plainAddresses(withoutMarkup(text))
		found = look(text)
	}
	if found&hasForms != 0 {
		text = r.plainForms(text)
	}
	r.runes = r.runes[:0]
	for _, c := range text {
		r.runes = append(r.runes, c)
	}
	r.words()
	return string(r.out), r.marks
}

// Plain decodes, removes invisible characters and makes letters plain, but folds and joins nothing: in an address
// each letter counts.
func (r *Reader) Plain(text string) string {
	found := look(text)
	if found&hasMarkup != 0 {
		text = plainAddresses(withoutMarkup(text))
		found = look(text)
	}
	if found&hasForms != 0 {
		text = r.plainForms(text)
	}
	return text
}

// withoutMarkup decodes entities, also twice encoded ones, and removes invisible tags.
func withoutMarkup(text string) string {
	for range 2 {
		if !strings.Contains(text, "&") {
			break
		}
		text = html.UnescapeString(text)
	}
	if !strings.Contains(text, "<") {
		return text
	}
	var b strings.Builder
	whole, last := len(text), strings.LastIndex(text, "-->") // where a comment may still end
	for {
		at := strings.IndexByte(text, '<')
		if at < 0 {
			break
		}
		b.WriteString(text[:at])
		n := unseenTag(text[at:], whole-len(text)+at < last)
		if n == 0 {
			b.WriteByte('<')
			n = 1
		}
		text = text[at+n:]
	}
	b.WriteString(text)
	return b.String()
}

func unseenTag(s string, ends bool) int {
	if strings.HasPrefix(s, "<!--") {
		if !ends {
			return 0
		}
		return strings.Index(s, "-->") + len("-->")
	}
	end := strings.IndexByte(s[:min(len(s), 257)], '>')
	if end < 0 {
		return 0
	}
	name, _, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(s[1:end], "/"), "/"), " ")
	switch strings.ToLower(name) {
	case "b", "i", "u", "s", "em", "strong", "span", "font", "small", "big", "sub", "sup", "mark", "wbr", "bdo", "bdi":
		return end + 1
	}
	return 0
}

func plainAddresses(text string) string {
	return addresses.Replace(text)
}

var addresses = strings.NewReplacer("[.]", ".", "(.)", ".", "[dot]", ".", "(dot)", ".", "[точка]", ".", "(точка)", ".",
	"[at]", "@", "(at)", "@", "hxxp://", "http://", "hxxps://", "https://", "hXXp://", "http://", "hXXps://",
	"https://")

func (r *Reader) plainForms(text string) string {
	r.out = r.out[:0]
	before := rune(0)
	for _, c := range text {
		switch {
		case c < utf8.RuneSelf || Cyrillic(c):
		case invisible(c):
			// Emoji are joined with these.
			if before < 0x2190 {
				r.marks.Hidden++
			}
			continue
		case c >= 0x1f130 && c <= 0x1f1ff:
			c = inBoxes(c, &r.marks)
		}
		if onLetter(before, c) {
			continue
		}
		before = c
		r.appendForm(c)
	}
	plain := norm.NFC.String(string(r.out))
	r.marks.Shapes += otherForms(text, plain)
	return plain
}

func (r *Reader) appendForm(c rune) {
	if c < utf8.RuneSelf || Cyrillic(c) || !unicode.IsLetter(c) && !unicode.IsNumber(c) &&
		(c < 0xff00 || c > 0xffef) && (c < 0x24b6 || c > 0x24e9) || hangul(c) {
		r.out = utf8.AppendRune(r.out, c)
		return
	}
	base := rune(0)
	for _, part := range norm.NFKD.String(string(c)) {
		if plainLetter(base) && unicode.Is(unicode.Mn, part) {
			continue
		}
		base = part
		r.out = utf8.AppendRune(r.out, part)
	}
}

func hangul(c rune) bool { return 0xac00 <= c && c <= 0xd7a3 }

func onLetter(before, c rune) bool {
	switch {
	case c < 0x300 || !plainLetter(before) || !unicode.Is(unicode.Mn, c):
		return false
	case c == 0x306:
		return before != 'и' && before != 'И'
	case c == 0x308:
		return before != 'і' && before != 'І'
	}
	return true
}

func otherForms(before, after string) (n int) {
	count := func(s string) (n int) {
		for _, c := range s {
			if plainLetter(c) {
				n++
			}
		}
		return n
	}
	return max(0, count(after)-count(before))
}

func inBoxes(c rune, m *Marks) rune {
	for _, from := range []rune{0x1f130, 0x1f150, 0x1f170, 0x1f1e6} {
		if from <= c && c < from+26 {
			m.Shapes++
			return 'A' + c - from
		}
	}
	return c
}

func plainLetter(c rune) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z' && c < utf8.RuneSelf || Cyrillic(c)
}

// Cyrillic reports whether c is a letter of Russian or its neighbours; the tables of Unicode are slower.
func Cyrillic(c rune) bool { return 0x400 <= c && c <= 0x45f }

// Ideographic reports whether c is of a script without spaces: Chinese and kana.
func Ideographic(c rune) bool {
	return 0x3400 <= c && c <= 0x9fff || 0x3040 <= c && c <= 0x30ff || 0x20000 <= c && c <= 0x3ffff ||
		0xf900 <= c && c <= 0xfaff
}

// invisible covers default-ignorable code points, fillers, the braille blank and control characters.
func invisible(c rune) bool {
	switch {
	case c < 0xad:
		return c < ' ' && c != '\n' && c != '\t' && c != '\r' || 0x7f <= c && c < 0xa0
	case c < 0x2000:
		return c == 0xad || c == 0x34f || c == 0x61c || c == 0x115f || c == 0x1160 || c == 0x17b4 || c == 0x17b5 ||
			0x180b <= c && c <= 0x180f
	}
	return 0x200b <= c && c <= 0x200f || 0x202a <= c && c <= 0x202e || 0x2060 <= c && c <= 0x206f || c == 0x2800 ||
		c == 0x3164 ||
		0xfe00 <= c && c <= 0xfe0f || c == 0xfeff || c == 0xffa0 || 0xfff0 <= c && c <= 0xfffb ||
		0x1bca0 <= c && c <= 0x1bca3 || 0x1d173 <= c && c <= 0x1d17a || 0xe0000 <= c && c <= 0xe0fff
}
