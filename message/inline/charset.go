package inline

import (
	"cmp"
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/htmlindex"

	"antirobot/rules"
)

// readings turns s into UTF-8, in each way that a service may: one that believes the charset that the sender named, and
// one that does not. A charset that nobody knows is ErrUnreadable.
func readings(s, named, charset string) ([]string, error) {
	named = strings.ToLower(strings.TrimSpace(named))
	valid := utf8.ValidString(s)
	if named == "" || named == "utf-8" || named == "utf8" {
		if valid {
			return []string{s}, nil
		}
		text, err := decode(s, cmp.Or(charset, guess(s)))
		return []string{text}, err
	}
	text, err := decode(s, named)
	switch {
	case err != nil || text == s:
		return []string{text}, err
	case valid:
		return []string{s, text}, nil
	case charset != "":
		other, err := decode(s, charset)
		if other != text {
			return []string{other, text}, err
		}
	}
	return []string{text}, nil
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
