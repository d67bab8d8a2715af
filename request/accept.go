package request

import (
	"bytes"
)

// Accept is the preference for each type of response, in thousandths, as far as the Accept fields name the type.
// Ranges such as */* are ignored.
type Accept struct {
	HTML  int // text/html or application/xhtml+xml; 0: not named, or refused
	JSON  int // application/json or a type that ends with +json
	Feed  int // application/rss+xml, application/atom+xml
	Best  int // the best of all that is named, ranges included
	Given bool
}

// maxAccept bounds the Accept fields of a request, in bytes.
const maxAccept = 4096

// Accept reads the Accept fields; several are one list. A list that is too long is ignored.
func (v *View) Accept() (a Accept) {
	left := maxAccept
	for i := range v.Fields {
		f := &v.Fields[i]
		if len(f.Name) != len("accept") || !EqualFold(f.Name, "accept") {
			continue
		}
		if left -= len(f.Value); left < 0 {
			return Accept{Given: true}
		}
		a.read(f.Value)
	}
	return a
}

func (a *Accept) read(list []byte) {
	a.Given = true
	for len(list) > 0 {
		var media []byte
		var q int
		media, q, list = nextWeighted(list)
		a.Best = max(a.Best, q)
		switch {
		case EqualFold(media, "text/html"), EqualFold(media, "application/xhtml+xml"):
			a.HTML = max(a.HTML, q)
		case EqualFold(media, "application/json"), HasSuffixFold(media, "+json"):
			a.JSON = max(a.JSON, q)
		case EqualFold(media, "application/rss+xml"), EqualFold(media, "application/atom+xml"):
			a.Feed = max(a.Feed, q)
		}
	}
}

// PrefersJSON reports whether JSON is preferred to HTML and nothing is preferred to JSON.
func (a Accept) PrefersJSON() bool { return a.JSON > 0 && a.JSON == a.Best && a.JSON > a.HTML }

// WantsHTML reports whether HTML is named and not refused.
func (a Accept) WantsHTML() bool { return a.HTML > 0 }

// maxCodings bounds an Accept-Encoding field, in bytes.
const maxCodings = 1024

// AcceptsCoding reports whether an Accept-Encoding field names a coding and does not refuse it. The last of several
// occurrences counts.
func AcceptsCoding(field []byte, coding string) (ok bool) {
	if len(field) > maxCodings {
		return false
	}
	for len(field) > 0 {
		var name []byte
		var q int
		if name, q, field = nextWeighted(field); EqualFold(name, coding) {
			ok = q > 0
		}
	}
	return ok
}

// nextWeighted cuts the first member off a list such as Accept (RFC 9110): its name and its weight in thousandths. A
// comma or a semicolon within quotes does not separate. An unreadable weight is 0.
func nextWeighted(list []byte) (name []byte, q int, rest []byte) {
	q = 1000
	var param []byte
	for n := 0; ; n++ {
		var end byte
		param, list, end = cutUnquoted(list)
		switch {
		case n == 0:
			name = param
		case len(param) >= 2 && lower[param[0]] == 'q' && param[1] == '=':
			q = weight(param[2:])
		}
		if end != ';' {
			return name, q, list
		}
	}
}

// cutUnquoted cuts b at the first ',' or ';' outside of quotes; end is that byte, or 0 at the end.
func cutUnquoted(b []byte) (before, rest []byte, end byte) {
	quoted := false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			quoted = !quoted
		case c == '\\' && quoted:
			i++
		case !quoted && (c == ',' || c == ';'):
			return bytes.TrimSpace(b[:i]), b[i+1:], c
		}
	}
	return bytes.TrimSpace(b), nil, 0
}

// weight reads a qvalue of RFC 9110, 0 to 1, in thousandths. The 0 before the point may be missing, as old browsers
// write it, and digits beyond the third are ignored. Anything else is 0.
func weight(b []byte) int {
	n, scale, i := 0, 100, 0
	if len(b) > 0 && (b[0] == '0' || b[0] == '1') {
		n, i = int(b[0]-'0')*1000, 1
	}
	switch {
	case i == len(b):
		return n
	case b[i] != '.' || i+1 == len(b) && i == 0:
		return 0
	}
	for i++; i < len(b); i++ {
		if b[i] < '0' || b[i] > '9' {
			return 0
		}
		n += int(b[i]-'0') * scale
		scale /= 10
	}
	if n > 1000 {
		return 0
	}
	return n
}
