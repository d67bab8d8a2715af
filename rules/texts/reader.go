package texts

import (
	"bytes"
	"unicode"
	"unicode/utf8"

	"antirobot/request"
	"antirobot/rules/skeleton"
)

// Reader is scratch memory for one goroutine at a time; the zero value is ready.
type Reader struct {
	skeleton skeleton.Reader
	buf      []byte // words with single spaces, or a host
	ends     []int
	links    []Link
	seen     string
	has      bool
}

// Find looks a text up in a list and returns the entry, valid until the next call.
func (r *Reader) Find(s *Set, as Match, text string) (entry string, ok bool) {
	if as == ByKind {
		as = [...]Match{Words: ByWord, Domains: ByHost, Keys: Whole}[s.kind]
	}
	if len(s.entries) == 0 || !s.kind.Fits(as) {
		return "", false
	}
	switch {
	case as == ByHost:
		return r.findHost(s, text)
	case as == ByWord && s.kind == Words:
		return r.findPhrase(s, text)
	case as == ByWord:
		return findField(s, text)
	}
	switch s.kind {
	case Words:
		r.words(text)
	case Domains:
		r.buf, _ = appendHost(r.buf[:0], text)
	default:
		_, ok = s.entries[text]
		return text, ok
	}
	_, ok = s.entries[string(r.buf)]
	return request.Borrow(r.buf), ok
}

func (r *Reader) findPhrase(s *Set, text string) (string, bool) {
	r.words(text)
	from := 0
	for i := range r.ends {
		for _, end := range r.ends[i:min(i+s.longest, len(r.ends))] {
			if _, ok := s.entries[string(r.buf[from:end])]; ok {
				return request.Borrow(r.buf[from:end]), true
			}
		}
		from = r.ends[i] + 1
	}
	return "", false
}

func findField(s *Set, text string) (string, bool) {
	for len(text) > 0 {
		n := 0
		for n < len(text) && text[n] > ' ' {
			n++
		}
		if n > 0 {
			if _, ok := s.entries[text[:n]]; ok {
				return text[:n], true
			}
			if bare := trimPunctuation(text[:n]); len(bare) < n {
				if _, ok := s.entries[bare]; ok {
					return bare, true
				}
			}
		}
		text = text[min(n+1, len(text)):]
	}
	return "", false
}

func trimPunctuation(s string) string {
	for len(s) > 0 && punctuation(s[0]) {
		s = s[1:]
	}
	for len(s) > 0 && punctuation(s[len(s)-1]) {
		s = s[:len(s)-1]
	}
	return s
}

func punctuation(c byte) bool { return bytes.IndexByte([]byte(`.,;:!?"'()[]{}<>`), c) >= 0 }

func (r *Reader) words(text string) {
	text, _ = r.skeleton.Read(text)
	r.buf, r.ends = r.buf[:0], r.ends[:0]
	in := false
	end := func() {
		if in {
			r.ends = append(r.ends, len(r.buf))
		}
		in = false
	}
	for _, c := range text {
		if !isWord(c) {
			if c != '\'' && c != '’' {
				end()
			}
			continue
		}
		if skeleton.Ideographic(c) {
			end()
		}
		if !in && len(r.buf) > 0 {
			r.buf = append(r.buf, ' ')
		}
		in = true
		r.buf = utf8.AppendRune(r.buf, lower(c))
		if skeleton.Ideographic(c) {
			end()
		}
	}
	end()
}

func isWord(c rune) bool {
	if c < utf8.RuneSelf {
		return 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9'
	}
	return skeleton.Cyrillic(c) || unicode.IsLetter(c) || unicode.IsNumber(c) || unicode.Is(unicode.Mn, c)
}

func lower(c rune) rune {
	if c < utf8.RuneSelf {
		return rune(request.Lower(byte(c)))
	}
	if c = unicode.ToLower(c); c == 'ё' {
		return 'е'
	}
	return c
}
