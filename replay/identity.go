package replay

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"antirobot/identity"
	"antirobot/request"
)

// Identity says where a log names the visitor in addition to the address, so that people behind one address are kept
// apart. The zero value means nowhere.
type Identity struct {
	kind   identity.Kind // of the subject that it makes; KindNone: nowhere
	cookie string        // that contains it
	key    string        // of a JSON line
	column int           // of a common or combined line, from 1; quoted or bracketed text counts as one
}

// maxIdentity bounds the visitor's name in a log, in bytes.
const maxIdentity = 4096

// ParseIdentity reads "address", "user", "cookie:NAME" or "column:NAME-OR-NUMBER".
func ParseIdentity(s string) (Identity, error) {
	from, name, _ := strings.Cut(s, ":")
	switch {
	case s == "address" || s == "":
		return Identity{}, nil
	case s == "user":
		return Identity{kind: identity.KindL}, nil
	case from == "cookie" && name != "":
		return Identity{kind: identity.KindI, cookie: name}, nil
	case from == "column" && name != "":
		i := Identity{kind: identity.KindI, key: name}
		if n, err := strconv.Atoi(name); err == nil {
			if n < 1 || n > 1000 {
				return Identity{}, fmt.Errorf("column %d: columns are counted from 1", n)
			}
			i.column = n
		}
		return i, nil
	}
	return Identity{}, fmt.Errorf("%q is none of address, user, cookie:NAME, column:NAME, column:NUMBER", s)
}

// Unnamed reports whether it can be in lines whose columns have no names.
func (i *Identity) Unnamed() error {
	if i.key != "" && i.column == 0 {
		return errors.New("columns of these logs have no names: count them, column:10")
	}
	return nil
}

func (i *Identity) somewhere() bool { return i.kind != identity.KindNone }

func (r *Record) take(i *Identity, name []byte) {
	switch {
	case isDash(name) || len(name) > maxIdentity:
	case i == r.signs:
		r.Signed = true
	default:
		r.Who = append(r.Who[:0], name...)
	}
}

// subject returns the visitor, of kind KindNone if the line does not say.
func (r *Record) subject() identity.Subject {
	if len(r.Who) == 0 {
		return identity.Subject{}
	}
	return identity.TextSubject(r.from.kind, r.Who)
}

// identify finds the visitor in a JSON line, and whether it is signed in.
func (l *jsonLine) identify(r *Record) {
	l.find(r, r.from)
	l.find(r, r.signs)
}

func (l *jsonLine) find(r *Record, i *Identity) {
	switch {
	case i == nil || !i.somewhere():
	case i.cookie != "":
		if v := l.get("cookie_"+i.cookie, "Cookies."+i.cookie); v != nil { // nginx: $cookie_NAME; Cloudflare
			r.take(i, v)
			return
		}
		r.take(i, cookieOf(l.get("http_cookie", "request.headers.Cookie", "request_Cookie", "cookie"), i.cookie))
	case i.key != "":
		r.take(i, l.get(i.key))
	default:
		r.take(i, r.User)
	}
}

// identifyCLF finds the visitor in a common or combined line: a cookie in any quoted column that contains it. It
// returns how many bytes of the line follow a column that is the visitor's name and nothing else, -1 if there is none.
func (r *Record) identifyCLF(line []byte) (after int) {
	r.findCLF(line, r.signs)
	return r.findCLF(line, r.from)
}

func (r *Record) findCLF(line []byte, i *Identity) (after int) {
	switch {
	case i == nil || !i.somewhere():
	case i.column > 0:
		who, rest := columnOf(line, func(n, _ int, _ []byte) bool { return n == i.column })
		r.take(i, who)
		if who != nil {
			return len(rest)
		}
	case i.cookie != "":
		var found []byte
		columnOf(line, func(_, quoted int, text []byte) bool {
			if quoted > 3 { // the first three are under the visitor's control: request, Referer, User-Agent
				found = cookieOf(text, i.cookie)
			}
			return found != nil
		})
		r.take(i, found)
	case i.key == "":
		r.take(i, r.User)
	}
	return -1
}

// cookieOf returns the value of a cookie in a Cookie field, nil if it has none.
func cookieOf(field []byte, name string) []byte {
	if len(field) == 0 {
		return nil
	}
	v := request.View{Fields: []request.Field{{Name: nameCookie, Value: field}}}
	value, _ := v.Cookie(name)
	return value
}

// maxBracketed bounds text in brackets, in bytes: a line may be full of brackets that never end.
const maxBracketed = 8 << 10

// bracketed returns the first column of a line that has no quotes, without its brackets, and what follows it.
func bracketed(line []byte) (text, rest []byte) {
	for _, pair := range [...]string{"[]", "{}"} {
		if line[0] != pair[0] {
			continue
		}
		end := bytes.IndexByte(line[:min(len(line), maxBracketed)], pair[1])
		if end > 0 && (end+1 == len(line) || line[end+1] == ' ') { // not as in [2001:db8::1]:80
			return line[1:end], line[end+1:]
		}
	}
	end := bytes.IndexByte(line, ' ')
	if end < 0 {
		end = len(line)
	}
	return line[:end], line[end:]
}

// columnOf returns the first wanted column of a line, without its quotes or brackets, and what follows it. n counts all
// columns up to this one, quoted those in quotes.
func columnOf(line []byte, wanted func(n, quoted int, text []byte) bool) (text, rest []byte) {
	quoted := 0
	for n := 1; len(line) > 0; n++ {
		switch line[0] {
		case '"':
			quoted++
			end, _ := quoteEnd(line)
			text, line = line[1:end], line[min(end+1, len(line)):]
		default:
			text, line = bracketed(line)
		}
		line = bytes.TrimLeft(line, " ")
		if wanted(n, quoted, text) {
			return text, line
		}
	}
	return nil, nil
}
