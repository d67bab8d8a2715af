// Package texts finds words, hosts and links in texts, and looks them up in lists.
//
// Invariants:
//  1. Entries and texts are normalised by the same functions: words of the skeleton, hosts in lower-case ASCII.
//  2. A lookup takes constant time and allocates nothing once warm.
//  3. Links are read without invisible characters, but letters are not folded: in an address each counts.
package texts

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unicode/utf8"
)

// Kind is the kind of a list's entries.
type Kind uint8

// The kinds.
const (
	Words   Kind = iota // words, and phrases of a few words
	Domains             // hosts, each with its sub-domains
	Keys                // texts compared as they are
)

var kindNames = [...]string{Words: "words", Domains: "domains", Keys: "keys"}

// String returns the name that configs use.
func (k Kind) String() string { return kindNames[k] }

// ParseKind reads the name of a kind.
func ParseKind(s string) (Kind, bool) {
	i := slices.Index(kindNames[:], s)
	return Kind(max(i, 0)), i >= 0
}

// Match is the part of a text that is looked up.
type Match uint8

// The matches.
const (
	ByKind Match = iota // by the kind of the entries
	Whole
	ByHost // hosts of links and mail addresses, with their parent domains
	ByWord
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

const maxPhrase = 8

const maxKey = 512

// Set is a list of texts, safe for concurrent use once complete. An entry takes about 50 bytes and its text.
type Set struct {
	kind    Kind
	entries map[string]struct{}
	longest int
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

// domainOf reads a host in the notations of lists: "0.0.0.0 host", "*.host", "
//
// host^".
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
