package request

import (
	"bytes"
)

// Kind is the purpose that a request claims. Only the response proves it.
type Kind uint8

// The kinds.
const (
	KindPage      Kind = iota // a page: a navigation, or nothing else is claimed
	KindForm                  // a submitted form
	KindScript                // a call of a script in a page of the same host, or that a browser says is one
	KindAPI                   // a call of a program, which reads data: nothing says that a page has asked
	KindFeed                  // a feed, a sitemap, robots.txt, for a program that says nothing else
	KindFile                  // a download: a document or an archive that is not a page
	KindPart                  // a part of a page: an image, a style, a script, a font, a beacon
	KindSocket                // a WebSocket
	KindPreflight             // what a browser asks before a script's call to another origin
)

var kindNames = [...]string{"page", "form", "script", "api", "feed", "file", "part", "socket", "preflight"}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "unknown"
}

// ParseKind is the inverse of Kind.String; false: there is no such kind.
func ParseKind(name []byte) (Kind, bool) {
	for k := range kindNames {
		if string(name) == kindNames[k] {
			return Kind(k), true //nolint:gosec // there are few
		}
	}
	return KindPage, false
}

// Purpose is the fields by which a request says what it is for; of several of one name the first counts. It borrows
// the View's bytes.
type Purpose struct {
	Agent, Accept, Origin, Referer []byte
	Dest, Mode, Site               []byte // Sec-Fetch-*
	Language, Encoding             bool   // Accept-Language, Accept-Encoding
	XHR, WebSocket                 bool

	content     []byte
	preflighted bool
	jay         bool // an Accept field has the letter that JSON begins with
}

// ReadPurpose fills p in one pass over the fields.
func (v *View) ReadPurpose(p *Purpose) {
	*p = Purpose{}
	for i := range v.Fields {
		f := &v.Fields[i]
		switch len(f.Name) {
		case 6:
			if EqualFold(f.Name, "accept") {
				p.jay = p.jay || bytes.IndexByte(f.Value, 'j') >= 0 || bytes.IndexByte(f.Value, 'J') >= 0
			}
			first(&p.Accept, f, "accept")
			first(&p.Origin, f, "origin")
		case 7:
			first(&p.Referer, f, "referer")
			p.WebSocket = p.WebSocket || EqualFold(f.Name, "upgrade") && EqualFold(f.Value, "websocket")
		case 10:
			first(&p.Agent, f, "user-agent")
		case 12:
			first(&p.content, f, "content-type")
		case 14:
			first(&p.Dest, f, "sec-fetch-dest")
			first(&p.Mode, f, "sec-fetch-mode")
			first(&p.Site, f, "sec-fetch-site")
		case 15:
			p.Language = p.Language || len(f.Value) > 0 && EqualFold(f.Name, "accept-language")
			p.Encoding = p.Encoding || EqualFold(f.Name, "accept-encoding")
		case 16:
			p.XHR = p.XHR || EqualFold(f.Name, "x-requested-with") && EqualFold(f.Value, "XMLHttpRequest")
		case 29:
			p.preflighted = p.preflighted || EqualFold(f.Name, "access-control-request-method")
		}
	}
}

func first(into *[]byte, f *Field, name string) {
	if *into == nil && EqualFold(f.Name, name) {
		if *into = f.Value; f.Value == nil {
			*into = []byte{} // it is there
		}
	}
}

// Kind reads the kind from the method, the path, and the fields Sec-Fetch-*, Accept, X-Requested-With, Origin,
// Referer, Upgrade and Content-Type; if these contradict each other it is a page.
func (v *View) Kind() Kind {
	var p Purpose
	v.ReadPurpose(&p)
	return v.KindOf(&p)
}

// KindOf is Kind for a request whose fields have been read.
func (v *View) KindOf(p *Purpose) Kind {
	switch {
	case v.isPreflight(p):
		return KindPreflight
	case len(p.Dest) > 0 || len(p.Mode) > 0:
		return v.fetched(p)
	case p.XHR:
		return v.caller(p)
	}
	return v.unsaid(p)
}

// IsPreflight reports whether a browser asks before a script's call to another origin.
func (v *View) IsPreflight() bool {
	if string(v.Method) != "OPTIONS" {
		return false
	}
	var p Purpose
	v.ReadPurpose(&p)
	return v.isPreflight(&p)
}

func (v *View) isPreflight(p *Purpose) bool {
	return string(v.Method) == "OPTIONS" && p.preflighted && len(p.Origin) > 0
}

// caller tells the call of a page's script from that of a program: Origin or Referer name a page of the same host.
func (v *View) caller(p *Purpose) Kind {
	if onHost(p.Origin, v.Host) || onHost(p.Referer, v.Host) {
		return KindScript
	}
	return KindAPI
}

func onHost(url, host []byte) bool {
	_, rest, ok := bytes.Cut(url, []byte("://"))
	return ok && HasPrefixFold(rest, string(host)) &&
		(len(rest) == len(host) || rest[len(host)] == '/' || rest[len(host)] == ':')
}

// fetched is the kind of a request whose browser says what it is for.
func (v *View) fetched(p *Purpose) Kind {
	navigates := string(p.Mode) == "navigate"
	if string(p.Mode) == "websocket" {
		return KindSocket
	}
	switch string(p.Dest) {
	case "":
		if !navigates {
			return v.unsaid(p)
		}
		return v.document(p)
	case "document", "iframe", "frame", "fencedframe":
		if p.jay && v.Accept().PrefersJSON() {
			return KindScript
		}
		return v.document(p)
	case "empty":
		switch {
		case navigates:
			return KindFile
		case string(p.Mode) == "cors", string(p.Mode) == "same-origin", p.jay && v.Accept().PrefersJSON():
			return KindScript
		}
		return KindPart
	case "websocket":
		return KindSocket
	case "object", "embed":
		return KindPart
	}
	if navigates {
		return v.document(p)
	}
	return KindPart
}

// document tells the kinds of what is looked at.
func (v *View) document(p *Purpose) Kind {
	switch {
	case v.isForm(p):
		return KindForm
	case v.namesFile():
		return KindFile
	}
	return KindPage
}

// unsaid is the kind of a request without Sec-Fetch fields: of a program, an old browser, or a site without https.
func (v *View) unsaid(p *Purpose) Kind {
	switch {
	case p.jay && v.Accept().PrefersJSON():
		return v.caller(p)
	case p.WebSocket:
		return KindSocket
	case v.isForm(p):
		return KindForm
	case v.callsByMethod(p):
		return v.caller(p)
	case v.NamesPart() && !(p.Accept != nil && v.Accept().WantsHTML()):
		return KindPart
	case NamesFeed(v.Path), string(v.Path) == "/robots.txt":
		return KindFeed
	}
	return v.document(p)
}

func (v *View) isForm(p *Purpose) bool { return string(v.Method) == "POST" && isFormType(p.content) }

// IsForm reports whether v posts a form, as a page without scripts can.
func (v *View) IsForm() bool { return string(v.Method) == "POST" && isFormType(v.Get("Content-Type")) }

func isFormType(content []byte) bool {
	return HasPrefixFold(content, "application/x-www-form-urlencoded") || HasPrefixFold(content, "multipart/form-data")
}

// callsByMethod reports whether no page of a browser without scripts can make such a request.
func (v *View) callsByMethod(p *Purpose) bool {
	switch string(v.Method) {
	case "GET", "HEAD", "OPTIONS", "TRACE":
		return false
	case "POST":
		t, _, _ := bytes.Cut(p.content, semicolon)
		t = trim(t)
		return EqualFold(t, "application/json") || HasSuffixFold(t, "+json")
	}
	return true
}

var semicolon = []byte{';'}

// The endings of names, without the dot.
var (
	partEndings = [...]string{
		"css", "js", "mjs", "map", "png", "jpg", "jpeg", "gif", "webp", "avif", "svg", "ico", "bmp", "woff", "woff2",
		"ttf", "otf", "eot", "apng", "jxl", "heic", "cur", "wasm", "webmanifest", "pbf",
		// Sound and film, and what players ask for every few seconds: lists of pieces, pieces, subtitles.
		"mp3", "mp4", "webm", "ogg", "oga", "ogv", "opus", "wav", "flac", "aac", "m4a", "m4v", "mov",
		"m3u8", "mpd", "ts", "m4s", "m4f", "cmfa", "cmfv", "vtt",
	}
	fileEndings = [...]string{
		"pdf", "zip", "gz", "tgz", "tar", "bz2", "xz", "7z", "rar", "csv", "tsv", "xls", "xlsx", "doc", "docx", "ppt",
		"pptx", "odt", "ods", "epub", "apk", "dmg", "iso", "exe", "msi", "deb", "rpm",
	}
	feedEndings = [...]string{"rss", "atom"}
	feedNames   = [...]string{
		"/feed", "/feed/", "/feed.xml", "/feed.json", "/rss", "/rss/", "/rss.xml", "/atom.xml", "/index.xml",
	}
	lookEndings = [...]string{"css", "js", "mjs", "woff", "woff2", "ttf", "otf", "eot", "ico"}
)

const longestEnding = 11

// NamesPart reports whether every reading of the path ends as the name of a subresource, and no field names another
// path.
func (v *View) NamesPart() bool { return len(v.Named) == 0 && endsWith(v.Path, partEndings[:]) }

// NamesLooks reports whether every reading of the path ends as the name of a style, a script or a font, or is the
// site's icon.
func (v *View) NamesLooks() bool {
	return v.NamesIcon() || len(v.Named) == 0 && endsWith(v.Path, lookEndings[:])
}

// NamesIcon reports whether browsers request the path as a site's icon by themselves.
func (v *View) NamesIcon() bool {
	switch string(v.Path) {
	case "/favicon.ico", "/apple-touch-icon.png", "/apple-touch-icon-precomposed.png":
		return len(v.Named) == 0
	}
	return false
}

func (v *View) namesFile() bool { return endsWith(v.Path, fileEndings[:]) }

// NamesFeed reports whether a path is that of a feed or a sitemap.
func NamesFeed(path []byte) bool {
	if HasPrefixFold(path, "/sitemap") || endsWith(path, feedEndings[:]) {
		return true
	}
	for _, name := range feedNames {
		if HasSuffixFold(path, name) {
			return true
		}
	}
	return false
}

// endsWith reports whether a path has one of the endings both as received and in its normal form: /product/1;x.css is
// no style for a service that drops parameters.
func endsWith(path []byte, endings []string) bool {
	if !hasEnding(path, endings) {
		return false
	}
	if isNormal(path) {
		return true
	}
	var buf [512]byte
	if len(path) >= len(buf) {
		return false
	}
	return hasEnding(NormalPath(buf[:0], path), endings)
}

func hasEnding(path []byte, endings []string) bool {
	tail := path[max(0, len(path)-longestEnding-1):]
	dot := bytes.LastIndexByte(tail, '.')
	if dot < 0 {
		return false
	}
	for _, e := range endings {
		if EqualFold(tail[dot+1:], e) {
			return true
		}
	}
	return false
}
