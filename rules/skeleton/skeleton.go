// Package skeleton turns a text into what a person reads in it, so that rules and models judge that and not the disguise:
//
//  1. HTML entities are decoded, and the tags that show nothing are removed.
//  2. Characters that can't be seen are removed: default-ignorable ones, fillers, marks of direction, tags.
//  3. Letters in other forms become plain ones: full-width, mathematical, circled and squared letters, small capitals,
//     letters with marks, and letters of other alphabets that look alike (Unicode Technical Standard 39).
//  4. A word in two alphabets, or with digits and signs for letters, becomes one of the alphabet that it is read in.
//  5. A word whose letters stand apart is joined, and addresses that are written around (hxxp, [.]) are put right.
//
// A text in which there is nothing of this is its own skeleton. Case and white space stay.
package skeleton

import (
	"html"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Marks counts what stood between a text and its skeleton.
type Marks struct {
	Hidden int // characters that can't be seen
	Shapes int // letters in other forms
	Mixed  int // words of two alphabets, or with digits or signs for letters
	Spaced int // words whose letters stood apart
}

// Reader makes skeletons. The zero value is ready for use, by one goroutine at a time.
type Reader struct {
	runes []rune
	out   []byte
	marks Marks
}

// Read returns the skeleton of text, which is valid UTF-8, and what was in the way of it.
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

// Plain returns text without what can't be seen, decoded, and with letters in their plain forms. No letter is taken for
// another one, and nothing is joined: in an address each letter counts.
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

// withoutMarkup decodes entities, also those that were encoded twice, and removes tags that show nothing.
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

// unseenTag returns the length of a comment or of a tag that stands within words without being seen; 0 for anything else.
// Whether a comment may end in s is known.
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

// plainAddresses undoes the usual ways to write around an address.
func plainAddresses(text string) string {
	return addresses.Replace(text)
}

var addresses = strings.NewReplacer("[.]", ".", "(.)", ".", "[dot]", ".", "(dot)", ".", "[точка]", ".", "(точка)", ".",
	"[at]", "@", "(at)", "@", "hxxp://", "http://", "hxxps://", "https://", "hXXp://", "http://", "hXXps://", "https://")

// plainForms removes what can't be seen, and brings letters into their plain forms.
func (r *Reader) plainForms(text string) string {
	r.out = r.out[:0]
	before := rune(0)
	for _, c := range text {
		switch {
		case c < utf8.RuneSelf || basicCyrillic(c):
		case invisible(c):
			// Emoji are put together with these.
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

// appendForm appends a letter in its plain form, and other characters as they are.
func (r *Reader) appendForm(c rune) {
	if c < utf8.RuneSelf || basicCyrillic(c) || !unicode.IsLetter(c) && !unicode.IsNumber(c) && (c < 0xff00 || c > 0xffef) && (c < 0x24b6 || c > 0x24e9) || hangul(c) {
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

// onLetter says whether c is a mark that was put on a plain letter. Й and ї are letters of their own.
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

// otherForms says how many plain letters there are in a text that were none before.
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

// inBoxes returns the letter of one in a square or a circle, which normalisation leaves as it is.
func inBoxes(c rune, m *Marks) rune {
	for _, from := range []rune{0x1f130, 0x1f150, 0x1f170, 0x1f1e6} {
		if from <= c && c < from+26 {
			m.Shapes++
			return 'A' + c - from
		}
	}
	return c
}

// plainLetter says whether c is a letter of English, Russian or a neighbour of it.
func plainLetter(c rune) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z' && c < utf8.RuneSelf || basicCyrillic(c)
}

// basicCyrillic says whether c is one of the letters of Russian and its neighbours.
func basicCyrillic(c rune) bool { return 0x400 <= c && c <= 0x45f }

// invisible says whether nothing is drawn for c: the default-ignorable code points, the fillers that letters are made of,
// the blank of braille, and control characters.
func invisible(c rune) bool {
	switch {
	case c < 0xad:
		return c < ' ' && c != '\n' && c != '\t' && c != '\r' || 0x7f <= c && c < 0xa0
	case c < 0x2000:
		return c == 0xad || c == 0x34f || c == 0x61c || c == 0x115f || c == 0x1160 || c == 0x17b4 || c == 0x17b5 || 0x180b <= c && c <= 0x180f
	}
	return 0x200b <= c && c <= 0x200f || 0x202a <= c && c <= 0x202e || 0x2060 <= c && c <= 0x206f || c == 0x2800 || c == 0x3164 ||
		0xfe00 <= c && c <= 0xfe0f || c == 0xfeff || c == 0xffa0 || 0xfff0 <= c && c <= 0xfffb ||
		0x1bca0 <= c && c <= 0x1bca3 || 0x1d173 <= c && c <= 0x1d17a || 0xe0000 <= c && c <= 0xe0fff
}
