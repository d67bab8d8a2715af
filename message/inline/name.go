package inline

import (
	"slices"
	"strings"
	"unicode"
)

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

// steps splits a[b].c and a['b']["c"] into a, b and c.
func steps(name string) []string {
	return strings.FieldsFunc(name, func(r rune) bool { return strings.ContainsRune("[]. '\"", r) })
}

// below reports whether name leads to key or below, and where; numbers in between are list indexes.
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
