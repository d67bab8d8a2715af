package skeleton

const (
	hasMarkup = 1 << iota // entities, tags, obfuscated addresses
	hasForms              // characters unusual in English and Russian
	hasWords              // words to be folded or joined
)

const (
	byteOther = iota
	byteLatin
	byteDigit
	byteSign
	byteMarkup
	byteControl
	byteCyrillic
	byteWide
)

var classes = func() (c [256]uint8) {
	for i := range c {
		switch b := byte(i); {
		case 'a' <= b|0x20 && b|0x20 <= 'z':
			c[i] = byteLatin
		case '0' <= b && b <= '9':
			c[i] = byteDigit
		case b == '@' || b == '$' || b == '!' || b == '|':
			c[i] = byteSign
		case b == '&' || b == '<' || b == '[' || b == '(' || b == ':':
			c[i] = byteMarkup
		case b < ' ' && b != '\n' && b != '\t' && b != '\r' || b == 0x7f:
			c[i] = byteControl
		case b == 0xd0 || b == 0xd1:
			c[i] = byteCyrillic
		case b >= 0x80:
			c[i] = byteWide
		}
	}
	return c
}()

func look(text string) (found int) {
	var word uint8
	letters, singles := 0, 0
	for i := 0; i < len(text); i++ {
		class := classes[text[i]]
		switch class {
		case byteLatin, byteDigit:
			word |= 1 << class
			letters++
			continue
		case byteCyrillic:
			word |= 1 << class
			letters++
			i++
			continue
		case byteSign:
			if word != 0 && i+1 < len(text) && classes[text[i+1]] != byteOther {
				word |= 1 << class
				continue
			}
		case byteMarkup:
			found |= markup(text, i)
		case byteControl:
			found |= hasForms
		case byteWide:
			n := usual(text[i:])
			if n == 0 {
				return hasMarkup | hasForms | hasWords // the rest has not been looked at
			}
			i += n - 1
		}
		if word&(word-1) != 0 {
			found |= hasWords
		}
		switch {
		case letters == 1:
			singles++
		case letters > 1:
			singles = 0
		}
		if singles >= 4 {
			found |= hasWords
		}
		word, letters = 0, 0
	}
	if word&(word-1) != 0 || singles >= 3 && letters == 1 {
		found |= hasWords
	}
	return found
}

func markup(text string, i int) int {
	next := byte(0)
	if i+1 < len(text) {
		next = text[i+1]
	}
	switch c := classes[next]; text[i] {
	case '&':
		if c == byteLatin || next == '#' {
			return hasMarkup
		}
	case '<':
		if c == byteLatin || next == '/' || next == '!' {
			return hasMarkup
		}
	case '[', '(':
		if next == '.' || next == 'd' || next == 'a' || c == byteCyrillic {
			return hasMarkup
		}
	case ':':
		if next == '/' && i >= 4 && text[i-1]|0x20 != 's' && text[i-4]|0x20 == 'h' && text[i-3]|0x20 == 'x' ||
			next == '/' && i >= 5 && text[i-4]|0x20 == 'x' {
			return hasMarkup
		}
	}
	return 0
}

func usual(s string) int {
	if len(s) < 2 {
		return 0
	}
	switch {
	case s[0] == 0xc2 && s[1] >= 0xa1 && s[1] != 0xaa && s[1] != 0xad && s[1] != 0xb2 && s[1] != 0xb3 && s[1] != 0xb5 &&
		s[1] != 0xb9 && s[1] != 0xba && s[1] < 0xbc:
		return 2
	case len(s) < 3:
		return 0
	case s[0] == 0xe2 && s[1] == 0x80 && (0x93 <= s[2] && s[2] <= 0x9e || s[2] == 0xa2 || s[2] == 0xa6):
		return 3
	case s[0] == 0xe2 && (s[1] == 0x98 || s[1] == 0x99 || s[1] == 0x9a || s[1] == 0x9b || s[1] == 0x9c ||
		s[1] == 0x9d || s[1] == 0x9e || s[1] == 0xac || s[1] == 0xad):
		return 3
	case s[0] == 0xe2 && s[1] == 0x82 && s[2] >= 0xa0 && s[2] != 0xac:
		return 3
	case 0xe4 <= s[0] && s[0] <= 0xe9 || s[0] == 0xe3 && (s[1] > 0x80 || s[2] > 0x80) && s[1] < 0x84 &&
		!(s[1] == 0x82 && s[2] >= 0x99 && s[2] <= 0x9c) && !(s[1] == 0x83 && s[2] == 0xbf):
		return 3
	case s[0] == 0xf0 && s[1] == 0x9f && len(s) >= 4 && s[2] != 0x84 && s[2] != 0x85 && s[2] != 0x86 && s[2] != 0x87:
		return 4
	}
	return 0
}
