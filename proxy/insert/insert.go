// Package insert puts the tag of a script into HTML pages on their way from a service to a visitor. A page is never held as a
// whole: what has been looked at goes on, and once the tag is placed the rest is only copied. Rules:
//  1. Only whole pages are touched that a browser opens: status 200, text/html in an encoding that contains ASCII, no parts
//     (206, Content-Range), no downloads, nothing that must not be transformed.
//  2. The tag stands in the head, behind all that the page has there, so that its charset and its policies come first.
//  3. A page whose policies forbid the script, or what it sends, stays as it is. Policies are changed only on request.
//  4. What described the old bytes (length, digests, strong entity tags, ranges) does not describe the new ones.
package insert

import (
	"bytes"
	"html"
	"io"
	"strings"

	"antirobot/request"
)

// Result says what became of a page.
type Result uint8

// The results.
const (
	None        Result = iota // not a page, or not one that somebody has opened
	Inserted                  // it has the tag
	Already                   // it had one of its own
	Policy                    // its Content-Security-Policy forbids the script
	NoTransform               // Cache-Control says that it stays as it is
	Coding                    // it is compressed in a way that is not known here
	Charset                   // it is in an encoding that does not contain ASCII
	NoPlace                   // it is a piece of HTML, or its head does not end
	Busy                      // too much memory is in use
	Results
)

var resultNames = [Results]string{"none", "inserted", "already", "policy", "no-transform", "coding", "charset", "no-place", "busy"}

func (r Result) String() string { return resultNames[r] }

// Page is what is put into the answer to one request.
type Page struct {
	Script string // the path of the script
	Scheme string // http or https
	Host   []byte // with port, as the visitor asked for it; borrowed
	Extend bool   // a policy that forbids the script is changed so that it does not

	NoneMatch []byte               // the request's If-None-Match; borrowed
	Reserve   func(bytes int) bool // asks for memory; nil: there is enough
	Told      func(result Result)  // is called once it is known what became of the page; nil: nobody wants to know
}

// Insertion is a Page being made. The zero value is ready for use; it can be used again after the answer. It is for one
// goroutine.
type Insertion struct {
	Page
	coding coding
	policy policySet
	out    io.Writer // what flush reaches; nil outside of Body
	enc    encoder   // nil: identity
	dirty  bool      // enc holds something back
}

// memory is about what one page takes while it passes, in bytes, for each coding: windows, tables and the longest token.
var memory = [...]int{identity: 64 << 10, gzipped: 1 << 20, brotlied: 6 << 20}

// Head implements h1.Rewriter.
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

// judge says by its head what becomes of an answer with status 200; Inserted: that depends on its body.
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

// tag is what is put into the page. rebased says that the page has a base for its addresses.
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

// head is what is to be known of an answer's fields.
type head struct {
	html, part, noTransform bool
	wide                    bool // an encoding with units of more than a byte
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
	for _, wide := range [...]string{"utf-16", "utf16", "utf-32", "utf32", "utf-7", "utf7", "ucs-2", "unicode", "iso-10646"} {
		if bytes.HasPrefix(name, []byte(wide)) {
			return true
		}
	}
	return false
}

// ForbidsTransform reports whether a Cache-Control says that nothing on the way may change what it comes with.
func ForbidsTransform(cacheControl []byte) bool {
	for part := range bytes.SplitSeq(cacheControl, []byte{','}) {
		if request.EqualFold(bytes.TrimSpace(part), "no-transform") {
			return true
		}
	}
	return false
}

// changed takes out of the fields what is not true of the changed page, and makes its entity tag a weak one: the page means
// the same, but no range of it is one of the service's.
func changed(fields []request.Field) []request.Field {
	kept := fields[:0]
	for _, f := range fields {
		switch {
		case request.EqualFold(f.Name, "Content-Length"), request.EqualFold(f.Name, "Content-MD5"), request.EqualFold(f.Name, "Digest"),
			request.EqualFold(f.Name, "Content-Digest"), request.EqualFold(f.Name, "Repr-Digest"), request.EqualFold(f.Name, "Accept-Ranges"):
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

// weakenKnown makes the entity tag of a 304 weak if the client has it as a weak one.
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
