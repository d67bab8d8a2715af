package skeleton

import (
	_ "embed"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Pairs of a character and the letter that it resembles: first letters of the other alphabet, then stand-ins within
// a word.
const (
	likeLatin    = "аaвbсcеeёeоoрpхxуyкkмmтtнhіiѕsјjԁdһhг" + "r0o3e4a1i5s7t@a$s!i|l"
	likeCyrillic = "aаbвcсeеoоpрxхyуkкmмtтhнrгnпuиiіsѕ0о3з4ч6б@а$ѕ"
)

const smallCyrillic = "ᴀаʙвᴄсᴇеɢбʜнɪіᴋкᴍмᴏоᴘрᴛтʏуᴧлᴨпᴩрᴦгᴫлɯшʍмɜзɸфᴙяᴎиʌлҕбꜱѕΛлΠпπпΦфφфΓг"

//go:embed letters.txt
var foreign string

type folding [0x530]rune

var (
	toLatin    = pairs(likeLatin)
	toCyrillic = pairs(likeCyrillic)
	toPlain    = lines(foreign)
	smallForms = forms(smallCyrillic)
)

func pairs(s string) *folding {
	f := new(folding)
	runes := []rune(s)
	for i := 0; i+1 < len(runes); i += 2 {
		if f[runes[i]] == 0 {
			f[runes[i]] = runes[i+1]
		}
	}
	return f
}

func forms(s string) map[rune]rune {
	m := make(map[rune]rune)
	runes := []rune(s)
	for i := 0; i+1 < len(runes); i += 2 {
		m[runes[i]] = runes[i+1]
	}
	return m
}

func (f *folding) like(c rune) rune {
	if int(c) < len(f) {
		return f[c]
	}
	return 0
}

func isLetter(c rune) bool { return plainLetter(c) || c >= 0x80 && unicode.IsLetter(c) }

func lines(s string) map[rune]rune {
	m := make(map[rune]rune)
	for line := range strings.Lines(s) {
		if plain, others, ok := strings.Cut(strings.TrimSpace(line), " "); ok && len(plain) == 1 && plain != "#" {
			for _, c := range others {
				m[c] = rune(plain[0])
			}
		}
	}
	return m
}

func (r *Reader) words() {
	r.out = r.out[:0]
	for i := 0; i < len(r.runes); {
		if n := r.spaced(i); n > 0 {
			i = n
			continue
		}
		end := i
		for end < len(r.runes) && r.inWord(i, end) {
			end++
		}
		if end == i {
			r.out = utf8.AppendRune(r.out, r.runes[i])
			i++
			continue
		}
		r.word(r.runes[i:end])
		i = end
	}
}

func isWord(c rune) bool {
	return plainLetter(c) || '0' <= c && c <= '9' || c >= 0xc0 && unicode.IsLetter(c)
}

func (r *Reader) inWord(from, i int) bool {
	c := r.runes[i]
	if isWord(c) {
		return true
	}
	switch c {
	case '@':
		return i > from && i+1 < len(r.runes) && isLetter(r.runes[i-1]) && isLetter(r.runes[i+1]) && !r.address(i+1)
	case '$', '!', '|':
		return i > from && i+1 < len(r.runes) && isLetter(r.runes[i-1]) && isLetter(r.runes[i+1])
	}
	return false
}

func (r *Reader) address(i int) bool {
	for i < len(r.runes) && (isWord(r.runes[i]) || r.runes[i] == '-') {
		i++
	}
	return i+1 < len(r.runes) && r.runes[i] == '.' && isWord(r.runes[i+1])
}

func (r *Reader) spaced(i int) int {
	const least, most = 4, 64 // letters; a longer run is several words
	if i > 0 && isWord(r.runes[i-1]) || !single(r.runes[i]) || i+1 >= len(r.runes) || !separates(r.runes[i+1]) {
		return 0
	}
	by := r.runes[i+1]
	letters, digits, end := 0, 0, i
	for at := i; at < min(len(r.runes), i+2*most) && single(r.runes[at]); at += 2 {
		if at+1 < len(r.runes) && isWord(r.runes[at+1]) {
			break
		}
		if isLetter(r.runes[at]) {
			letters++
		} else {
			digits++
		}
		end = at + 1
		if end >= len(r.runes) || r.runes[end] != by {
			break
		}
	}
	if letters < least || digits >= letters {
		return 0
	}
	r.marks.Spaced++
	joined := make([]rune, 0, letters+digits)
	for at := i; at < end; at += 2 {
		joined = append(joined, r.runes[at])
	}
	r.word(joined)
	return end
}

func single(c rune) bool {
	return plainLetter(c) || '0' <= c && c <= '9' || toPlain[c] != 0
}

func separates(c rune) bool {
	return strings.ContainsRune(" .-_*|,/\\+~·•\u00a0\t", c)
}

func (r *Reader) word(word []rune) {
	latin, cyrillic, digits, others, known := 0, 0, 0, 0, 0
	for _, c := range word {
		switch {
		case c < utf8.RuneSelf && plainLetter(c):
			latin++
		case Cyrillic(c):
			cyrillic++
		case c < utf8.RuneSelf:
			digits++
		case toPlain[c] != 0 || smallForms[c] != 0:
			known++
		default:
			others++
		}
	}
	if known > 0 && others == 0 && (latin+cyrillic > 0 || !ofLanguage(word)) {
		for i, c := range word {
			small, plain := smallForms[c], toPlain[c]
			switch {
			case small != 0 && cyrillic > 0 && cyrillic >= latin:
				word[i] = small
			case plain != 0:
				word[i] = plain
				latin++
			default:
				continue
			}
			r.marks.Shapes++
		}
	}
	switch {
	case latin > 0 && cyrillic > 0:
		r.marks.Mixed++
		fold := toLatin
		if !folds(word, toLatin, false) && (folds(word, toCyrillic, true) || cyrillic > latin) {
			fold = toCyrillic
		}
		r.fold(word, fold)
	case digits > 0 && latin+cyrillic >= digits:
		fold := toLatin
		if cyrillic > 0 {
			fold = toCyrillic
		}
		if standIns(word, fold) {
			r.marks.Mixed++
			r.fold(word, fold)
		}
	}
	for _, c := range word {
		r.out = utf8.AppendRune(r.out, c)
	}
}

func ofLanguage(word []rune) bool {
	for _, c := range word {
		if unicode.In(c, unicode.Greek, unicode.Armenian, unicode.Hebrew, unicode.Arabic, unicode.Ethiopic,
			unicode.Latin) && !(0x1d00 <= c && c <= 0x1d7f || 0xa700 <= c && c <= 0xa7ff || 0x250 <= c && c <= 0x2af) {
			return true
		}
	}
	return false
}

// standIns reports whether digits or signs stand for letters: up to two between letters, or a final nought.
func standIns(word []rune, fold *folding) bool {
	for i := range word {
		if standIn(word, i, fold) {
			return true
		}
	}
	return false
}

func standIn(word []rune, i int, fold *folding) bool {
	if isLetter(word[i]) || fold.like(word[i]) == 0 || i == 0 {
		return false
	}
	if i == len(word)-1 {
		return word[i] == '0' && isLetter(word[i-1])
	}
	from, to := i, i+1
	for from > 0 && !isLetter(word[from-1]) {
		from--
	}
	for to < len(word) && !isLetter(word[to]) {
		to++
	}
	return from > 0 && to < len(word) && to-from <= 2
}

func folds(word []rune, fold *folding, cyrillic bool) bool {
	for _, c := range word {
		c = unicode.ToLower(c)
		if like := fold.like(c); like != 0 {
			c = like
		}
		if isLetter(c) && unicode.Is(unicode.Cyrillic, c) != cyrillic {
			return false
		}
	}
	return true
}

func (r *Reader) fold(word []rune, fold *folding) {
	for i, c := range word {
		if !isLetter(c) {
			if standIn(word, i, fold) {
				word[i] = fold.like(c)
			}
			continue
		}
		low := unicode.ToLower(c)
		switch like := fold.like(low); {
		case like == 0:
		case low == c:
			word[i] = like
		default:
			word[i] = unicode.ToUpper(like)
		}
	}
}
