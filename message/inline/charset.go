package inline

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/htmlindex"

	"antirobot/rules"
)

const maxCharsets = 4

// charsets are the charsets that a sender named, in lower case, without UTF-8, which is always tried.
type charsets []string

func (c charsets) and(name string) (charsets, error) {
	name = strings.ToLower(strings.Trim(name, " \t\r\n'\""))
	if name == "" || name == "utf-8" || name == "utf8" || slices.Contains(c, name) {
		return c, nil
	}
	if len(c) == maxCharsets {
		return nil, fmt.Errorf("%w: more than %d charsets are named", ErrUnreadable, maxCharsets)
	}
	return append(c[:len(c):len(c)], name), nil
}

// readings turns s into UTF-8 in each way that a service may: with each charset that the sender named, and without.
// An unknown charset is ErrUnreadable.
func readings(s string, named charsets, charset string) (out []string, err error) {
	valid := utf8.ValidString(s)
	if valid {
		if out = append(out, s); len(named) == 0 {
			return out, nil
		}
	}
	add := func(charset string) {
		if text, wrong := decode(s, charset); wrong != nil {
			err = cmp.Or(err, wrong)
		} else if text = strings.TrimPrefix(text, "\ufeff"); !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	if marked := marked(s); marked != "" {
		add(marked)
	}
	if !valid && (charset != "" || len(named) == 0) {
		add(cmp.Or(charset, guess(s)))
	}
	for _, name := range named {
		add(name)
	}
	return out, err
}

// marked names the charset of a UTF-16 byte order mark, which some services believe before anything else.
func marked(s string) string {
	switch {
	case strings.HasPrefix(s, "\xff\xfe"):
		return "utf-16le"
	case strings.HasPrefix(s, "\xfe\xff"):
		return "utf-16be"
	}
	return ""
}

func decode(s, charset string) (string, error) {
	enc, err := htmlindex.Get(charset)
	if err != nil {
		return "", fmt.Errorf("%w: charset %q", ErrUnreadable, rules.Clip(charset, 32))
	}
	text, err := enc.NewDecoder().String(s)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	return text, nil
}

const frequent = "оеаинтсрвл"

// guess names the charset of a text that is not UTF-8: a Cyrillic one if frequent letters are frequent then, an
// East Asian one if it decodes without a fault, else windows-1252.
func guess(s string) string {
	s = rules.Clip(s, 4096)
	high, together := 0, 0 // bytes beyond ASCII, and those with such a neighbour
	for i := range len(s) {
		if s[i] >= 0x80 {
			high++
			if i > 0 && s[i-1] >= 0x80 || i+1 < len(s) && s[i+1] >= 0x80 {
				together++
			}
		}
	}
	if 2*together < high {
		return "windows-1252" // accents stand alone
	}
	best, most := "", 0.0
	for _, charset := range []string{"windows-1251", "koi8-r", "ibm866"} {
		text, err := decode(s, charset)
		if err != nil {
			continue
		}
		n := 0
		for _, r := range strings.ToLower(text) {
			if strings.ContainsRune(frequent, r) {
				n++
			}
		}
		for _, r := range text {
			if r == '\ufffd' || 0x2500 <= r && r < 0x25a0 {
				n-- // box drawing
			}
		}
		if share := float64(n) / float64(max(high, 1)); share > most {
			best, most = charset, share
		}
	}
	if most >= 0.4 {
		return best
	}
	if high > 3 {
		for _, charset := range []string{"shift_jis", "euc-kr", "gb18030", "big5"} {
			if text, err := decode(s, charset); err == nil && !strings.ContainsRune(text, '\ufffd') {
				return charset
			}
		}
	}
	return "windows-1252"
}

func headerText(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	text, err := charmap.ISO8859_1.NewDecoder().String(s)
	if err != nil {
		return strings.ToValidUTF8(s, "\ufffd")
	}
	return text
}
