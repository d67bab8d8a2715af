package proxy

import (
	"slices"

	"antirobot/message/inline"
	"antirobot/proxy/h1/wire"
	"antirobot/request"
)

// maxClaims is how many methods a request may claim beside its own; no client claims two.
const maxClaims = 4

// ReadClaims sets the methods that the head of a request claims, for rules. It allocates only if there seems to be one.
func ReadClaims(v *request.View) {
	v.Claims, v.Overclaims = nil, false
	if !claims(v) {
		return
	}
	in := inline.Input{Query: string(v.Query), Header: func(name string) []string { return headerValues(v, name) }}
	methods, err := inline.Config{}.Overrides(in)
	addClaims(v, methods)
	v.Overclaims = v.Overclaims || err != nil
}

func addClaims(v *request.View, methods []string) {
	for _, m := range methods {
		same := func(have []byte) bool { return string(have) == m }
		if wire.ValidMethod([]byte(m)) && string(v.Method) != m && !slices.ContainsFunc(v.Claims, same) {
			v.Claims = append(v.Claims, []byte(m))
		}
	}
	if len(v.Claims) > maxClaims {
		v.Claims, v.Overclaims = v.Claims[:maxClaims], true
	}
}

// claims says whether there seems to be a method in the head beside the request's own.
func claims(v *request.View) bool {
	for i := range v.Fields {
		for _, name := range inline.OverrideFields {
			if request.EqualCGI(v.Fields[i].Name, name) {
				return true
			}
		}
	}
	return holds(v.Query, "method") || holds(v.Query, "charset") || holds(v.Query, "%u")
}

// holds reports whether word, in which no letter is like the first, may be read in a query: escaped, in any case, and with
// bytes between that some services leave out.
func holds(query []byte, word string) bool {
	n := 0
	for i := 0; i < len(query); i++ {
		c := query[i]
		if c == '%' && i+2 < len(query) {
			if hi, lo := request.Unhex(query[i+1]), request.Unhex(query[i+2]); hi >= 0 && lo >= 0 {
				c, i = byte(hi<<4|lo), i+2
			}
		}
		if c <= ' ' || c >= 0x7f {
			continue
		}
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		switch c {
		case word[n]:
			n++
		case word[0]:
			n = 1
		default:
			n = 0
		}
		if n == len(word) {
			return true
		}
	}
	return false
}
