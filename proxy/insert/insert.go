// Package insert puts a script's tag into HTML pages on their way to a visitor. Pages are streamed; after the tag they
// are only copied. Rules:
// 1. Only whole pages that a browser opens: status 200, text/html in an encoding that contains ASCII, no ranges, no
// downloads, no no-transform.
// 2. The tag ends the head, after the page's charset and policies.
// 3. A page whose policies forbid the script stays as it is; policies are changed only on request.
// 4. Fields that described the old bytes are dropped or weakened.
package insert

import (
	"bytes"
	"html"
	"io"
	"strings"

	"antirobot/request"
)

// Result is the outcome for a page.
type Result uint8

// The results.
const (
	None Result = iota // not a page that a browser opened
	Inserted
	Already     // it had the tag
	Policy      // Content-Security-Policy forbids the script
	NoTransform // Cache-Control forbids changes
	Coding      // unknown compression
	Charset     // an encoding without ASCII
	NoPlace     // a fragment, or a head without end
	Busy        // out of memory
	Results
)

var resultNames = [Results]string{
	"none", "inserted", "already", "policy", "no-transform", "coding", "charset",
	"no-place", "busy",
}

func (r Result) String() string { return resultNames[r] }

// Page describes the answer to one request.
type Page struct {
	Script string // path
	Scheme string
	Host   []byte // with port; borrowed
	Extend bool   // extend policies that forbid the script

	NoneMatch []byte               // If-None-Match; borrowed
	Reserve   func(bytes int) bool // nil: unlimited
	Told      func(result Result)  // called with the outcome; nil: not
}

// Insertion is a Page being made. The zero value is ready, and can be reused. For one goroutine.
type Insertion struct {
	Page
	coding coding
	policy policySet
	out    io.Writer // nil outside of Body
	enc    encoder   // nil: identity
	dirty  bool      // enc buffers
}

// memory is the cost of a page by coding, in bytes: windows, tables and the longest token.
var memory = [...]int{identity: 64 << 10, gzipped: 1 << 20, brotlied: 6 << 20}

// Head returns the fields of the answer as they must be sent, and whether its body goes through Body.
func (in *Insertion) Head(status int, fields []request.Field) ([]request.Field, bool) {
	in.policy.reset()
	switch {
	case status == 304:
		weakenKnown(fields, in.NoneMatch)
		return fields, false
	case status != 200:
		return fields, false
	}
	if r := in.judge(fields); r != Inserted {
		in.tell(r)
		return fields, false
	}
	return changed(in.policy.rewrite(fields)), true
}

func (in *Insertion) tell(r Result) {
	if in.Told != nil && r != None {
		in.Told(r)
	}
}

// judge decides by the head; Inserted: the body decides.
func (in *Insertion) judge(fields []request.Field) Result {
	h := readHead(fields)
	switch {
	case !h.html || h.part:
		return None
	case h.noTransform:
		return NoTransform
	case h.wide:
		return Charset
	}
	var known bool
	if in.coding, known = parseCoding(h.coding); !known {
		return Coding
	}
	for i := range fields {
		if isPolicy(fields[i].Name) {
			in.policy.add(fields[i].Value)
		}
	}
	if h.integrity || !in.policy.permits(in.site(), in.Extend) {
		return Policy
	}
	if in.Reserve != nil && !in.Reserve(memory[in.coding]) {
		return Busy
	}
	return Inserted
}

func (in *Insertion) site() site { return site{in.Scheme, string(in.Host), in.Script} }

func (in *Insertion) tag(rebased bool) string {
	var b strings.Builder
	b.WriteString(`<script src="`)
	if rebased {
		b.WriteString(html.EscapeString(in.Scheme + "://" + string(in.Host)))
	}
	b.WriteString(html.EscapeString(in.Script))
	b.WriteByte('"')
	if n := in.policy.nonce; n != "" {
		b.WriteString(` nonce="` + n + `"`)
	}
	b.WriteString(" async></script>")
	return b.String()
}

type head struct {
	html, part, noTransform bool
	wide                    bool // UTF-16 and the like
	integrity               bool // scripts need a checksum
	coding                  []byte
}

func readHead(fields []request.Field) (h head) {
	for i := range fields {
		f := &fields[i]
		switch {
		case request.EqualFold(f.Name, "Content-Type"):
			kind, params, _ := bytes.Cut(f.Value, []byte(";"))
			h.html = request.EqualFold(bytes.TrimSpace(kind), "text/html")
			h.wide = isWide(params)
		case request.EqualFold(f.Name, "Content-Range"):
			h.part = true
		case request.EqualFold(f.Name, "Content-Disposition"):
			h.part = h.part || request.HasPrefixFold(bytes.TrimSpace(f.Value), "attachment")
		case request.EqualFold(f.Name, "Cache-Control"):
			h.noTransform = h.noTransform || ForbidsTransform(f.Value)
		case request.EqualFold(f.Name, "Content-Encoding"):
			if len(h.coding) > 0 {
				h.coding = append(append(h.coding[:len(h.coding):len(h.coding)], ','), f.Value...)
			} else {
				h.coding = f.Value
			}
		case request.EqualFold(f.Name, "Integrity-Policy"):
			h.integrity = bytes.Contains(f.Value, []byte("script"))
		}
	}
	return h
}

// isWide reports whether the parameters of a Content-Type name UTF-16, UTF-32 or UTF-7.
func isWide(params []byte) bool {
	p := bytes.ToLower(params)
	i := bytes.Index(p, []byte("charset"))
	if i < 0 {
		return false
	}
	name := bytes.Trim(p[i+len("charset"):], "= \t\"'")
	for _, wide := range [...]string{
		"utf-16", "utf16", "utf-32", "utf32", "utf-7", "utf7", "ucs-2", "unicode",
		"iso-10646",
	} {
		if bytes.HasPrefix(name, []byte(wide)) {
			return true
		}
	}
	return false
}

// ForbidsTransform reports whether Cache-Control has no-transform.
func ForbidsTransform(cacheControl []byte) bool {
	for part := range bytes.SplitSeq(cacheControl, []byte{','}) {
		if request.EqualFold(bytes.TrimSpace(part), "no-transform") {
			return true
		}
	}
	return false
}

// changed drops fields that are wrong for the changed page, and weakens its entity tag: no range of it is the
// service's.
func changed(fields []request.Field) []request.Field {
	kept := fields[:0]
	for _, f := range fields {
		switch {
		case request.EqualFold(f.Name, "Content-Length"), request.EqualFold(f.Name, "Content-MD5"),
			request.EqualFold(f.Name, "Digest"),
			request.EqualFold(f.Name, "Content-Digest"), request.EqualFold(f.Name, "Repr-Digest"),
			request.EqualFold(f.Name, "Accept-Ranges"):
			continue
		case request.EqualFold(f.Name, "ETag"):
			f.Value = weak(f.Value)
		}
		kept = append(kept, f)
	}
	clear(fields[len(kept):])
	return kept
}

func weak(etag []byte) []byte {
	if len(etag) > 0 && etag[0] == '"' {
		return append([]byte("W/"), etag...)
	}
	return etag
}

// weakenKnown weakens the entity tag of a 304 if the client has the weak one.
func weakenKnown(fields []request.Field, noneMatch []byte) {
	for i := range fields {
		f := &fields[i]
		if !request.EqualFold(f.Name, "ETag") {
			continue
		}
		if w := weak(f.Value); bytes.Contains(noneMatch, w) {
			f.Value = w
		}
	}
}
