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

// maxCharsets bounds what a sender may name: each text is read in all of them.
const maxCharsets = 4

// charsets are the distinct charsets that a sender named, in lower case, without UTF-8, which is tried anyway.
type charsets []string

// and adds what is another one; ErrUnreadable if there are too many.
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

// readings turns s into UTF-8, in each way that a service may: one that believes a charset that the sender named, and
// one that does not. A charset that nobody knows is ErrUnreadable.
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

// marked names the charset of a text that begins with a byte order mark of UTF-16, which some services believe before anything
// else; empty for others.
func marked(s string) string {
	switch {
	case strings.HasPrefix(s, "\xff\xfe"):
		return "utf-16le"
	case strings.HasPrefix(s, "\xfe\xff"):
		return "utf-16be"
	}
	return ""
}

// decode turns s into UTF-8. What does not fit becomes U+FFFD, as in a browser.
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

// frequent are letters that a third of a Russian text and more consists of.
const frequent = "оеаинтсрвл"

// guess names the charset of a text that is no UTF-8: one for Cyrillic letters if the frequent ones are frequent then,
// one for East Asia if it fits without a fault, and else windows-1252.
func guess(s string) string {
	s = rules.Clip(s, 4096)
	high, together := 0, 0 // bytes beyond ASCII, and those that stand beside another one
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
				n-- // lines of boxes
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

// headerText reads a header field: UTF-8, or Latin-1 where it can't be.
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
