package inline

import (
	"fmt"
	"strings"

	"antirobot/request"
)

// field is a field of a form with one of its values.
type field struct{ name, value string }

// fields are all fields of a form, in their order.
type fields []field

// of returns what the fields of a key say: those of the very name, and those that frameworks make lists and objects of
// (name[], name[key]), without case and with the letters that PHP replaces.
func (f fields) of(key string) (out found) {
	key = folded(strings.TrimSuffix(key, "[]"))
	seen := map[string]bool{}
	plain := false
	for _, x := range f {
		rest, ok := strings.CutPrefix(folded(x.name), key)
		if !ok || rest != "" && rest[0] != '[' {
			continue
		}
		out.twice = out.twice || seen[rest] && rest != "[]" || (plain || rest == "") && len(out.values) > 0
		seen[rest], plain = true, plain || rest == ""
		out.values = append(out.values, x.value)
	}
	return out
}

// folded is a name as the most liberal service reads it: quotes and spaces around it are nothing, and it ends at a NUL.
func folded(name string) string {
	if i := strings.IndexByte(name, 0); i >= 0 {
		name = name[:i]
	}
	name = strings.ToLower(strings.Trim(name, " \t\r\n'\""))
	end := len(name)
	if i := strings.IndexByte(name, '['); i > 0 {
		end = i
	}
	return strings.Map(func(r rune) rune {
		if r == ' ' || r == '.' {
			return '_'
		}
		return r
	}, name[:end]) + name[end:]
}

// parseForm reads an urlencoded form. An escape that is wrong stays as it is. The field _charset_, which browsers fill
// in, names a charset if nothing else does.
func parseForm(s, named, charset string) (out fields, err error) {
	pairs := strings.Split(s, "&")
	if len(pairs) > maxFields {
		return nil, fmt.Errorf("%w: more than %d fields", ErrTooLarge, maxFields)
	}
	for i, f := range pairs {
		name, value, _ := strings.Cut(f, "=")
		if pairs[i] = unescape(name); pairs[i] == "_charset_" && named == "" {
			named = unescape(value)
		}
		if f != "" {
			out = append(out, field{pairs[i], unescape(value)})
		}
		out = afterSemicolons(out, f)
	}
	if len(out) > maxFields {
		return nil, fmt.Errorf("%w: more than %d fields", ErrTooLarge, maxFields)
	}
	for i, n := 0, len(out); i < n; i++ {
		texts, err := readings(out[i].value, named, charset)
		if err != nil {
			return nil, err
		}
		out[i].value = texts[0]
		for _, other := range texts[1:] {
			out = append(out, field{out[i].name, other})
		}
	}
	return out, nil
}

// afterSemicolons adds what services read that separate fields by semicolons too: those that have a name and do not begin s.
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
