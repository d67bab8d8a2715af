package inline

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"antirobot/request"
)

type field struct{ name, value string }

type fields []field

func (f fields) of(key string) (out found) {
	seen := map[string]bool{}
	plain := false
	for _, x := range f {
		rest, ok := spelt(x.name, key)
		if !ok {
			continue
		}
		out.twice = out.twice || seen[rest] && rest != "[]" || (plain || rest == "") && len(out.values) > 0
		seen[rest], plain = true, plain || rest == ""
		out.values = append(out.values, x.value)
	}
	return out
}

const charsetField = "_charset_"

// parseForm reads a urlencoded form in each way that a service may: a wrong escape stays as it is or is read as IIS
// reads it; names and values are in UTF-8 or in a named charset.
func parseForm(s string, named charsets, charset string) (out fields, err error) {
	if strings.Count(s, "&") >= maxFields {
		return nil, fmt.Errorf("%w: more than %d fields", ErrTooLarge, maxFields)
	}
	s = strings.TrimPrefix(s, "?") // as URLSearchParams does
	for f := range strings.SplitSeq(s, "&") {
		if f != "" {
			name, value, _ := strings.Cut(f, "=")
			out = append(out, field{unescape(name), unescape(value)})
			if loose := (field{looseUnescape(name), looseUnescape(value)}); loose != out[len(out)-1] {
				out = append(out, loose)
			}
		}
		out = afterSemicolons(out, f)
	}
	return out.decoded(named, charset)
}

func (f fields) decoded(named charsets, charset string) (out fields, err error) {
	for _, x := range f {
		if folded(x.name) == charsetField {
			if named, err = named.and(x.value); err != nil {
				return nil, err
			}
		}
	}
	for _, x := range f {
		names, err := readings(x.name, named, charset)
		if err != nil {
			return nil, err
		}
		if !utf8.ValidString(x.name) {
			names = append(names, x.name) // folded drops the invalid bytes
		}
		values, err := readings(x.value, named, charset)
		if err != nil {
			return nil, err
		}
		for _, name := range names { // services decode names and values independently
			for _, value := range values {
				out = append(out, field{name, value})
			}
		}
		if len(out) > maxFields {
			return nil, fmt.Errorf("%w: more than %d fields", ErrTooLarge, maxFields)
		}
	}
	return out, nil
}

// afterSemicolons adds the named fields of services that separate by semicolons too.
func afterSemicolons(out fields, s string) fields {
	for len(out) <= maxFields {
		_, rest, ok := strings.Cut(s, ";")
		if !ok {
			break
		}
		s = rest
		piece, _, _ := strings.Cut(rest, ";")
		if name, value, named := strings.Cut(piece, "="); named {
			out = append(out, field{unescape(name), unescape(value)})
		}
	}
	return out
}

func unescape(s string) string {
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '+':
			b = append(b, ' ')
		case s[i] == '%' && i+2 < len(s) && request.Unhex(s[i+1]) >= 0 && request.Unhex(s[i+2]) >= 0:
			b = append(b, byte(request.Unhex(s[i+1])<<4|request.Unhex(s[i+2])))
			i += 2
		default:
			b = append(b, s[i])
		}
	}
	return string(b)
}

// looseUnescape is unescape of IIS: %uXXXX is a code point, and a percent sign before any other letter vanishes.
func looseUnescape(s string) string {
	pieces := strings.Split(s, "%")
	for i, piece := range pieces[1:] {
		switch {
		case len(piece) > 1 && request.Unhex(piece[0]) >= 0 && request.Unhex(piece[1]) >= 0:
			piece = "%" + piece
		case len(piece) > 4 && request.Lower(piece[0]) == 'u':
			if code, err := strconv.ParseUint(piece[1:5], 16, 16); err == nil {
				piece = string(rune(code)) + piece[5:]
			}
		case piece == "" || request.Lower(piece[0]) < 'a' || request.Lower(piece[0]) > 'z':
			piece = "%" + piece
		}
		pieces[i+1] = piece
	}
	return unescape(strings.Join(pieces, ""))
}

// spelt reports whether a service may read the field name as key, or as the part rest of it: without case, as a
// list or an object (key[], key[a], key.a, [key]), with characters that PHP replaces, or below a prefix
// (comment.key), which ASP.NET prefers.
func spelt(name, key string) (rest string, ok bool) {
	name, key = folded(name), folded(strings.TrimSuffix(key, "[]"))
	rest, ok = strings.CutPrefix(underscored(name), underscored(key))
	if ok && (rest == "" || rest[0] == '[') {
		return rest, true
	}
	of, to := steps(name), steps(key)
	if rest, ok = below(of, to); !ok && len(of) == len(to)+1 && strings.Trim(of[0], "0123456789") != "" &&
		slices.Equal(of[1:], to) {
		return of[0], true
	}
	return rest, ok
}

// folded reads a name as the most liberal services do: without quotes, spaces, invisible characters, Spring's
// leading "!", and anything after a NUL; letters with the same capital (the long s, the dotless i) are equal.
func folded(name string) string {
	if i := strings.IndexByte(name, 0); i >= 0 {
		name = name[:i]
	}
	name = strings.Map(func(r rune) rune {
		if r != ' ' && (!unicode.IsPrint(r) || r == unicode.ReplacementChar) {
			return -1
		}
		return unicode.ToLower(unicode.ToUpper(r))
	}, name)
	return strings.Trim(name, " '\"!")
}

// underscored replaces characters as PHP does: spaces and points before a bracket, and an unclosed bracket.
func underscored(name string) string {
	end := strings.IndexByte(name, '[')
	if end <= 0 || !strings.Contains(name[end:], "]") {
		end = len(name)
	}
	return strings.NewReplacer(" ", "_", ".", "_", "[", "_").Replace(name[:end]) + name[end:]
}

func steps(name string) []string {
	return strings.FieldsFunc(name, func(r rune) bool { return strings.ContainsRune("[]. '\"", r) })
}

func below(name, key []string) (rest string, ok bool) {
	for len(key) > 0 && len(name) > 0 {
		switch {
		case name[0] == key[0]:
			key = key[1:]
		case strings.Trim(name[0], "0123456789") != "":
			return "", false
		}
		name = name[1:]
	}
	if len(key) > 0 || len(name) == 0 {
		return "", len(key) == 0
	}
	return "[" + strings.Join(name, "][") + "]", true
}
