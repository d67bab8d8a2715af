package inline

import (
	"slices"
	"strings"
	"unicode"
)

// spelt reports whether a service may read a field of this name as key, or as a part of it, of which rest says which:
// without case, as lists and objects are written (key[], key[a], key.a, [key]), with the letters that PHP replaces, and with the name of
// what it belongs to before it (comment.key), which ASP.NET prefers.
func spelt(name, key string) (rest string, ok bool) {
	name, key = folded(name), folded(strings.TrimSuffix(key, "[]"))
	rest, ok = strings.CutPrefix(underscored(name), underscored(key))
	if ok && (rest == "" || rest[0] == '[') {
		return rest, true
	}
	of, to := steps(name), steps(key)
	if rest, ok = below(of, to); !ok && len(of) == len(to)+1 && strings.Trim(of[0], "0123456789") != "" && slices.Equal(of[1:], to) {
		return of[0], true
	}
	return rest, ok
}

// folded is a name as the most liberal service reads it: quotes, spaces and characters that show nothing are not part of
// it, nor is the ! before a value that Spring takes where there is no other, and it ends at a NUL. Letters that have the same capital are the same: the long s and the dotless i, too.
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

// underscored replaces the letters that PHP does not have in names: spaces and points before a bracket, and a bracket that
// nobody closes.
func underscored(name string) string {
	end := strings.IndexByte(name, '[')
	if end <= 0 || !strings.Contains(name[end:], "]") {
		end = len(name)
	}
	return strings.NewReplacer(" ", "_", ".", "_", "[", "_").Replace(name[:end]) + name[end:]
}

// steps are the names within a name: a, b and c of a[b].c, or of a['b']["c"].
func steps(name string) []string {
	return strings.FieldsFunc(name, func(r rune) bool { return strings.ContainsRune("[]. '\"", r) })
}

// below reports whether the steps of name lead to those of key or below, and where: numbers in between count the elements
// of a list.
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
