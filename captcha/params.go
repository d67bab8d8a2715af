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

// params are the parameters of /showcaptcha and /checkcaptcha; anything else in query or body is ignored.
type params struct {
	key, rep string
	retpath  string
	t, u, s  string
	status   string
	lang     string
	format   string
	cc       string
	saved    string // a sealed request
	kind     string // the requested kind of challenge: kindWork, or the usual one
	fresh    string // "another picture" was pressed on a page that carries a request
	toLang   string // a language was chosen
	step     string // digits, instead of the check
	back     string // the request was too large to be carried
	proof    string // the browser's signature of the key
	stay     string // the browser could not prove that a pass from another network is its own
}

const (
	fieldSaved  = "saved"
	fieldFresh  = "new"
	fieldBack   = "back"
	fieldSwitch = "switch"
	fieldKind   = "kind"
	fieldStep   = "step"
	fieldProof  = "proof"
	fieldStay   = "stay"
)

const kindWork = "work"

// fields returns the parameters by name.
func (p *params) fields() map[string]*string {
	return map[string]*string{
		"key": &p.key, "rep": &p.rep, "retpath": &p.retpath, "t": &p.t, "u": &p.u, "s": &p.s, "status": &p.status,
		"lang": &p.lang, "format": &p.format, "cc": &p.cc, fieldSaved: &p.saved, fieldFresh: &p.fresh,
		fieldSwitch: &p.toLang, fieldKind: &p.kind, fieldStep: &p.step, fieldBack: &p.back, fieldProof: &p.proof,
		fieldStay: &p.stay,
	}
}

func (p *params) chose(asked Step) Step {
	if p.step != "" {
		return max(asked, stepDigits)
	}
	return asked
}

// choose applies the language switch. Unsupported languages are dropped: responses lead to addresses with the
// language and the step, and a head that does not fit a balancer's buffer looks like a failed gateway.
func (p *params) choose(q *Request) {
	if p.toLang != "" {
		p.lang = p.toLang
	}
	if l := q.Service.set.Lang(p.lang); l != nil {
		p.lang = l.Tag
	} else {
		p.lang = ""
	}
	if p.step != "" {
		p.step = stepDigits.String()
	}
}

const maxQuery = 32 << 10

func readParams(q *Request) (p params) {
	defer p.cutProof()
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

// urlencoded reads the parameters of a query or a form; the first value of a name counts.
func (p *params) urlencoded(s string) {
	fields := p.fields()
	for pair := range strings.SplitSeq(s, "&") {
		name, value, _ := strings.Cut(pair, "=")
		f := fields[name]
		if f == nil || *f != "" {
			continue
		}
		if v, err := url.QueryUnescape(value); err == nil {
			*f = v
		}
	}
}

// maxParts bounds how many parts of a multipart body are read: our pages send fewer, scripts a few.
const maxParts = 32

func (p *params) multipart(body []byte, boundary string) {
	r, fields := multipart.NewReader(bytes.NewReader(body), boundary), p.fields()
	for range maxParts {
		part, err := r.NextRawPart()
		if err != nil {
			return
		}
		f := fields[part.FormName()]
		if part.FileName() != "" || f == nil || *f != "" {
			continue
		}
		v, err := io.ReadAll(part) // bounded by the body
		if err != nil {
			return
		}
		*f = string(v)
	}
}

func (p *params) link() link { return link{url: p.retpath, t: p.t, u: p.u, s: p.s} }

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

func wantsJSON(q *Request, p *params) bool {
	if p.format != "" {
		return p.format == "json"
	}
	if request.EqualFold(q.View.Get("X-Requested-With"), "XMLHttpRequest") {
		return true
	}
	return q.View.Accept().PrefersJSON()
}
