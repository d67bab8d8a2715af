package client

import (
	"bytes"
	_ "embed"
	"strings"

	"antirobot/request"
)

// robotNames is one name a line, in lower case, of the programs that declare themselves; its first lines say where it
// comes from.
//
//go:embed robot_names.txt
var robotNames string

// nameIndex finds names by how they begin.
type nameIndex struct {
	by     map[[nameKey]byte][]string
	begins [1 << 16 / 64]uint64 // which first two bytes there are
}

// nameKey is how many bytes names are found by; names of no more must be whole words.
const nameKey = 4

// knownNames is never changed.
var knownNames = indexNames(robotNames)

func indexNames(list string) *nameIndex {
	x := &nameIndex{by: map[[nameKey]byte][]string{}}
	for line := range strings.Lines(list) {
		name := strings.TrimSpace(line)
		if name != "" && name[0] != '#' && product([]byte(name)) == FamilyOther { // libraries and apps are told apart
			k := keyOf(name)
			x.by[k] = append(x.by[k], name)
			two := uint16(name[0])<<8 | uint16(name[1])
			x.begins[two/64] |= 1 << (two % 64)
		}
	}
	return x
}

// keyOf is the first bytes of a name, in lower case.
func keyOf[T string | []byte](name T) (k [nameKey]byte) {
	for i := range min(len(name), nameKey) {
		k[i] = lower(name[i])
	}
	return k
}

func lower(b byte) byte {
	if b >= 'A' && b <= 'Z' {
		return b + 'a' - 'A'
	}
	return b
}

// has reports whether b begins with a name of the list.
func (x *nameIndex) has(b []byte) bool {
	if len(b) < 2 {
		return false
	}
	two := uint16(lower(b[0]))<<8 | uint16(lower(b[1]))
	if x.begins[two/64]&(1<<(two%64)) == 0 {
		return false
	}
	k := keyOf(b)
	for n := min(len(b), nameKey); n > 1; n-- {
		for _, name := range x.by[k] {
			ends := len(b) == len(name) || len(b) > len(name) && !(isWord(b[len(name)]) && isWord(name[len(name)-1]))
			if (ends || len(name) > nameKey) && request.HasPrefixFold(b, name) {
				return true
			}
		}
		k[n-1] = 0 // shorter names
	}
	return false
}

// robotWord is a word by which programs say what they do.
type robotWord struct {
	word string
	part bool // of a word is enough
}

// robotWords are those words.
var robotWords = [...]robotWord{
	{"http://", true},
	{"https://", true},
	{"crawl", true},
	{"spider", true},
	{"scrap", true},
	{"checker", true},
	{"validator", true},
	{"monitor", true},
	{"subscriber", true},
	{"archiver", true},
	{"indexer", true},
	{"feed", false},
	{"fetch", false},
	{"harvest", false},
	{"preview", false},
	{"scanner", false},
	{"webhook", false},
}

// namesRobot reports whether the word at i is one by which robots declare themselves, or the name of one. start says
// that a word begins there.
func namesRobot(ua []byte, i int, start bool) bool {
	if start && knownNames.has(ua[i:]) {
		return true
	}
	switch lower(ua[i]) {
	case 'b': // the word comes last, or they are called botnik
		return endsInBot(ua, i)
	case '@':
		return isMail(ua, i)
	case 'h', 'c', 's', 'v', 'm', 'a', 'i', 'f', 'p', 'w': // how the words begin
		return saysRobot(ua[i:], start)
	}
	return false
}

func saysRobot(b []byte, start bool) bool {
	if len(b) < len("feed") {
		return false
	}
	first, second := lower(b[0]), lower(b[1])
	for j := range robotWords {
		if w := &robotWords[j]; first == w.word[0] && second == w.word[1] && (start || w.part) && request.HasPrefixFold(b, w.word) {
			return true
		}
	}
	return false
}

// endsInBot reports whether a word ends with bot at i. CUBOT makes phones.
func endsInBot(ua []byte, i int) bool {
	if !request.HasPrefixFold(ua[i:], "bot") || len(ua) > i+3 && lower(ua[i+3]) >= 'a' && lower(ua[i+3]) <= 'z' {
		return false
	}
	return i < 2 || !request.HasPrefixFold(ua[i-2:], "cubot")
}

// isMail reports whether the sign at i stands in an address to complain to: a name before it, a domain after it.
func isMail(ua []byte, i int) bool {
	if i == 0 || !isWord(ua[i-1]) {
		return false
	}
	domain := ua[i+1:]
	for n, b := range domain {
		if b == '.' {
			return n > 0 && n+1 < len(domain) && lower(domain[n+1]) >= 'a' && lower(domain[n+1]) <= 'z'
		}
		if !isWord(b) || n == 0 && b <= '9' {
			return false
		}
	}
	return false
}

// device returns where an Android browser names its device: anything may stand there, "M bot 60" and "Spider 8" too. A
// robot that borrows such a name says that it is compatible, where to read of it, or its own name with a version.
func device(ua []byte) (from, to int) {
	from = bytes.Index(ua, []byte("Android"))
	if from < 0 {
		return 0, 0
	}
	to = from
	for depth := 0; to < len(ua); to++ {
		if ua[to] == '(' {
			depth++
		}
		if ua[to] == ')' {
			if depth--; depth < 0 {
				break
			}
		}
	}
	for _, sign := range [...]string{"ompatible", "http", "bot/", "Bot/", "-Google/"} {
		if bytes.Contains(ua[from:to], []byte(sign)) {
			return 0, 0
		}
	}
	return from, to
}
