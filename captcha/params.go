package captcha

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"io"
	"mime"
	"mime/multipart"
	"net/url"
	"strings"

	"antirobot/request"
)

// params is what /showcaptcha and /checkcaptcha understand; anything else in query or body is ignored.
type params struct {
	key, rep string
	retpath  string
	t, u, s  string
	status   string
	lang     string
	format   string
	cc       string
	saved    string // a sealed request
	kind     string // the kind of challenge that is wanted: kindWork, or the usual one
	fresh    string // "another picture" was pressed on a page that carries a request
	toLang   string // a language was chosen
	back     string // the request was too large to be carried
}

// Names of the fields that only our own pages send.
const (
	fieldSaved  = "saved"
	fieldFresh  = "new"
	fieldBack   = "back"
	fieldSwitch = "switch"
	fieldKind   = "kind"
)

// kindWork is the value of fieldKind that asks for work.
const kindWork = "work"

// field returns where a parameter belongs, nil if we know none of that name.
func (p *params) field(name string) *string {
	switch name {
	case "key":
		return &p.key
	case "rep":
		return &p.rep
	case "retpath":
		return &p.retpath
	case "t":
		return &p.t
	case "u":
		return &p.u
	case "s":
		return &p.s
	case "status":
		return &p.status
	case "lang":
		return &p.lang
	case "format":
		return &p.format
	case "cc":
		return &p.cc
	case fieldSaved:
		return &p.saved
	case fieldFresh:
		return &p.fresh
	case fieldSwitch:
		return &p.toLang
	case fieldKind:
		return &p.kind
	case fieldBack:
		return &p.back
	}
	return nil
}

// set takes the first value of each name: what stands in the query wins over the body.
func (p *params) set(name, value string) {
	f := p.field(name)
	if f == nil || *f != "" {
		return
	}
	*f = value
}

// maxQuery bounds the query that is read.
const maxQuery = 32 << 10

// readParams reads the query and, of a POST, the body.
func readParams(q *Request) (p params) {
	if len(q.View.Query) <= maxQuery {
		p.urlencoded(string(q.View.Query))
	}
	if len(q.Body) == 0 || q.BodyTooLarge {
		return p
	}
	mediaType, args, err := mime.ParseMediaType(string(q.View.Get("Content-Type")))
	switch {
	case err == nil && mediaType == "multipart/form-data" && args["boundary"] != "":
		p.multipart(q.Body, args["boundary"])
	case err != nil || mediaType == "application/x-www-form-urlencoded":
		p.urlencoded(string(q.Body))
	}
	return p
}

// urlencoded reads name=value pairs; a pair that can't be decoded is ignored like an unknown one.
func (p *params) urlencoded(s string) {
	for pair := range strings.SplitSeq(s, "&") {
		name, value, _ := strings.Cut(pair, "=")
		if p.field(name) == nil {
			continue
		}
		if v, err := url.QueryUnescape(value); err == nil {
			p.set(name, v)
		}
	}
}

// maxParts bounds the parts of a multipart body that are read: our pages send fewer, scripts a few.
const maxParts = 32

func (p *params) multipart(body []byte, boundary string) {
	r := multipart.NewReader(bytes.NewReader(body), boundary)
	for range maxParts {
		part, err := r.NextRawPart()
		if err != nil {
			return
		}
		if part.FileName() != "" || p.field(part.FormName()) == nil {
			continue
		}
		v, err := io.ReadAll(part) // bounded by the body
		if err != nil {
			return
		}
		p.set(part.FormName(), string(v))
	}
}

// link is the return URL as it came back.
func (p *params) link() link { return link{url: p.retpath, t: p.t, u: p.u, s: p.s} }

// queryValue returns a parameter of a raw query, decoded; "" if there is none or it can't be decoded.
func queryValue(query []byte, name string) string {
	if len(query) > maxQuery {
		query = query[:maxQuery]
	}
	for pair := range bytes.SplitSeq(query, []byte{'&'}) {
		k, v, _ := bytes.Cut(pair, []byte{'='})
		if string(k) != name {
			continue
		}
		if s, err := url.QueryUnescape(string(v)); err == nil {
			return s
		}
		return ""
	}
	return ""
}

// sameSecret compares secrets of any length in constant time.
func sameSecret(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// maxCookie bounds the Cookie fields that are looked at.
const maxCookie = 16 << 10

// findCookie returns the value of the first cookie of this name.
func findCookie(v *request.View, name string) (value []byte, ok bool) {
	left := maxCookie
	for i := range v.Fields {
		f := &v.Fields[i]
		if len(f.Name) != len("cookie") || !bytes.EqualFold(f.Name, []byte("cookie")) {
			continue
		}
		if left -= len(f.Value); left < 0 {
			return nil, false
		}
		for pair := range bytes.SplitSeq(f.Value, []byte{';'}) {
			k, val, has := bytes.Cut(bytes.TrimSpace(pair), []byte{'='})
			if has && string(k) == name {
				return val, true
			}
		}
	}
	return nil, false
}

func cookieValue(v *request.View, name string) string {
	value, _ := findCookie(v, name)
	return string(value)
}

// wantsJSON reports whether an answer was sent by a script that reads JSON.
func wantsJSON(q *Request, p *params) bool {
	if p.format != "" {
		return p.format == "json"
	}
	if strings.EqualFold(string(q.View.Get("X-Requested-With")), "XMLHttpRequest") {
		return true
	}
	return prefersJSON(string(q.View.Get("Accept")))
}

// prefersJSON reports whether an Accept names application/json and no kind of HTML with a quality as high.
func prefersJSON(accept string) bool {
	if len(accept) > 1024 {
		return false
	}
	json, html := 0, 0
	for item := range strings.SplitSeq(accept, ",") {
		kind, args, _ := strings.Cut(item, ";")
		quality := 1000
		for arg := range strings.SplitSeq(args, ";") {
			if v, ok := strings.CutPrefix(strings.TrimSpace(strings.ToLower(arg)), "q="); ok {
				quality = thousandths(v)
			}
		}
		switch strings.ToLower(strings.TrimSpace(kind)) {
		case "application/json":
			json = max(json, quality)
		case "text/html", "application/xhtml+xml":
			html = max(html, quality)
		}
	}
	return json > html
}

// thousandths reads a quality of RFC 9110, 0 to 1 with up to three decimals; anything else is 0.
func thousandths(s string) int {
	whole, frac, _ := strings.Cut(s, ".")
	if len(frac) > 3 || strings.Trim(frac, "0123456789") != "" {
		return 0
	}
	switch whole {
	case "1":
		return 1000
	case "0":
		n := 0
		for _, c := range []byte((frac + "000")[:3]) {
			n = n*10 + int(c-'0')
		}
		return n
	}
	return 0
}
