package texts

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unicode/utf8"
)

// Kind is what the entries of a list are.
type Kind uint8

// The kinds.
const (
	Words   Kind = iota // words, and phrases of a few words
	Domains             // hosts, each with its sub-domains
	Keys                // any texts, compared as they are
)

var kindNames = [...]string{Words: "words", Domains: "domains", Keys: "keys"}

// String returns the name that configs use.
func (k Kind) String() string { return kindNames[k] }

// ParseKind reads the name of a kind.
func ParseKind(s string) (Kind, bool) {
	i := slices.Index(kindNames[:], s)
	return Kind(max(i, 0)), i >= 0
}

// Match is what of a text is looked up.
type Match uint8

// The matches.
const (
	ByKind  Match = iota // as the entries are: words of Words, hosts of Domains, the whole text of Keys
	Whole                // the whole text
	ByHost               // the hosts of its links and mail addresses, or the host that it is, with their parent domains
	ByWord               // each of its words
	matches = iota
)

var matchNames = [matches]string{"", "value", "domain", "word"}

// ParseMatch reads the name of a match, as rules have it.
func ParseMatch(s string) (Match, bool) {
	i := slices.Index(matchNames[:], s)
	return Match(max(i, 0)), i >= 0
}

// Fits reports whether entries of this kind can be found so.
func (k Kind) Fits(m Match) bool {
	switch m {
	case ByHost:
		return k == Domains
	case ByWord:
		return k != Domains
	}
	return true
}

// maxPhrase is how many words an entry of a list of words may have.
const maxPhrase = 8

// maxKey is how many bytes an entry may have.
const maxKey = 512

// Set is a list of texts. It is made by New and Add, and safe for concurrent use once nothing is added any more. It takes
// about 50 bytes for each entry beside its text.
type Set struct {
	kind    Kind
	entries map[string]struct{}
	longest int // words of the longest phrase
	reader  Reader
}

// New returns an empty list.
func New(k Kind) *Set { return &Set{kind: k, entries: make(map[string]struct{})} }

// Kind returns what the entries are.
func (s *Set) Kind() Kind { return s.kind }

// Len returns the number of different entries.
func (s *Set) Len() int { return len(s.entries) }

var (
	errLong   = fmt.Errorf("longer than %d bytes", maxKey)
	errMarkup = errors.New("this is markup, not a text")
)

// Add adds an entry as people write it.
func (s *Set) Add(entry string) error {
	entry = strings.TrimSpace(entry)
	switch {
	case entry == "":
		return errors.New("empty")
	case len(entry) > maxKey:
		return errLong
	case !utf8.ValidString(entry):
		return errors.New("not UTF-8")
	}
	switch s.kind {
	case Words:
		return s.addPhrase(entry)
	case Domains:
		h, err := domainOf(entry)
		if err != nil {
			return err
		}
		entry = h
	}
	s.entries[entry] = struct{}{}
	return nil
}

func (s *Set) addPhrase(entry string) error {
	if strings.ContainsAny(entry, "<>") {
		return errMarkup
	}
	s.reader.words(entry)
	n := len(s.reader.ends)
	switch {
	case n == 0:
		return errors.New("without a letter or a digit")
	case n > maxPhrase:
		return fmt.Errorf("%d words, the limit is %d", n, maxPhrase)
	}
	s.longest = max(s.longest, n)
	s.entries[string(s.reader.buf)] = struct{}{}
	return nil
}

// domainOf reads a host, also as lists of hosts write it: "0.0.0.0 host", "*.host", "||host^".
func domainOf(entry string) (string, error) {
	if fields := strings.Fields(entry); len(fields) == 2 {
		if _, err := netip.ParseAddr(fields[0]); err == nil {
			entry = fields[1]
		}
	}
	entry = strings.TrimSuffix(strings.TrimPrefix(entry, "||"), "^")
	entry = strings.TrimPrefix(strings.TrimPrefix(entry, "*"), ".")
	if strings.ContainsAny(entry, " \t/:@<>") || entry == "" {
		return "", errors.New("not a host")
	}
	host, ok := appendHost(nil, entry)
	if !ok || !strings.Contains(string(host), ".") {
		return "", errors.New("not a host")
	}
	return string(host), nil
}
