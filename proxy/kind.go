package proxy

import (
	"bytes"

	"antirobot/request"
	"antirobot/verdict/client"
)

// kind is the form of the answer to a stopped request. Only clients that can answer a challenge get one. Subresources
// get an empty 403. Everyone else is a program and must never read a success: 403 or 429.
type kind uint8

const (
	kindPage        kind = iota // navigation of a browser: 302 to the captcha page
	kindForm                    // form POST of a browser: the captcha page itself, with the request sealed in it
	kindScript                  // page's own script: JSON
	kindJSON                    // client that asks for the JSON without a browser's fields: 200 for GET, otherwise 403
	kindXML                     // user or partner of an XML interface: XML
	kindSubresource             // part of a page, WebSocket, beacon: an empty 403
	kindPreflight               // CORS preflight: never challenged
	kindProgram                 // all others: 403 or 429, in the form that it accepts
)

func (k kind) page() bool { return k == kindPage || k == kindForm }

func (k kind) script() bool { return k == kindScript || k == kindJSON }

// classify returns the kind of a request; the first match wins.
func classify(v *request.View, paths *request.Paths, s *Service, xml bool) kind {
	if xml {
		return kindXML
	}
	if v.IsPreflight() {
		return kindPreflight
	}
	f := readFields(v)
	switch browser := f.isBrowser(v); {
	case browser && f.isScript(v) && f.ofSite(v, s), browser && string(f.mode) != "navigate" && s.isAJAXPath(paths):
		return kindScript
	case f.requestedWith && string(f.mode) != "navigate":
		return kindJSON
	case browser && f.navigates() && string(v.Method) == "GET":
		return kindPage
	case browser && f.navigates() && v.IsForm():
		return kindForm
	case f.isPart(v, browser):
		return kindSubresource
	}
	return kindProgram
}

// fields describe the client. The slices borrow the View's bytes.
type fields struct {
	agent, dest, mode, site       []byte
	origin, referer, accept       []byte
	language, encoding, hasAccept bool
	requestedWith, socket         bool
}

func readFields(v *request.View) (f fields) {
	for i := range v.Fields {
		field := &v.Fields[i]
		set := func(dst *[]byte, name string) bool {
			if *dst != nil || !request.EqualFold(field.Name, name) {
				return false
			}
			*dst = field.Value
			return true
		}
		switch len(field.Name) {
		case 6:
			if set(&f.accept, "accept") {
				f.hasAccept = true
			} else {
				set(&f.origin, "origin")
			}
		case 7:
			set(&f.referer, "referer")
			f.socket = f.socket || request.EqualFold(field.Name, "upgrade") &&
				request.EqualFold(field.Value, "websocket")
		case 10:
			set(&f.agent, "user-agent")
		case 14:
			if !set(&f.dest, "sec-fetch-dest") && !set(&f.mode, "sec-fetch-mode") {
				set(&f.site, "sec-fetch-site")
			}
		case 15:
			f.language = f.language || len(field.Value) > 0 && request.EqualFold(field.Name, "accept-language")
			f.encoding = f.encoding || request.EqualFold(field.Name, "accept-encoding")
		case 16:
			f.requestedWith = f.requestedWith || request.EqualFold(field.Name, "x-requested-with") &&
				request.EqualFold(field.Value, "XMLHttpRequest")
		}
	}
	return f
}

// textBrowsers name no engine in their User-Agents, which begin so.
var textBrowsers = [...]string{"Lynx/", "w3m/", "Links (", "ELinks/", "Dillo/", "NetSurf/", "URL/Emacs"}

// isBrowser reports whether a request has the fields of every browser: its name, Accept-Language and Accept-Encoding.
// Where a record or a proxy lacks those fields, its name, or Sec-Fetch-Mode, suffices.
func (f *fields) isBrowser(v *request.View) bool {
	if f.isText() {
		return true
	}
	if !v.Partial && !(f.language && f.encoding) && len(f.mode) == 0 {
		return false
	}
	claim := client.ParseClaim(f.agent)
	if claim.Family != client.FamilyOther {
		return !claim.Program() // a headless one can answer a challenge
	}
	for _, engine := range engines {
		if bytes.Contains(f.agent, engine) {
			return true
		}
	}
	return false
}

// engines identify browsers of unknown names: consoles, e-readers, old phones.
var engines = [...][]byte{
	[]byte("AppleWebKit/"), []byte("Gecko/"), []byte("Presto/"), []byte("KHTML/"),
	[]byte("Goanna/"),
}

func (f *fields) isText() bool {
	for _, name := range textBrowsers {
		if len(f.agent) > len(name) && string(f.agent[:len(name)]) == name {
			return true
		}
	}
	return false
}

// navigates reports whether a page is opened: the browser says so, or accepts HTML.
func (f *fields) navigates() bool {
	if len(f.mode) > 0 || len(f.dest) > 0 {
		return string(f.mode) == "navigate" && string(f.dest) != "object" && string(f.dest) != "embed" ||
			len(f.mode) == 0 && string(f.dest) == "document"
	}
	if f.socket {
		return false
	}
	return !f.hasAccept || bytes.Contains(f.accept, []byte("text/html")) ||
		bytes.Contains(f.accept, []byte("application/xhtml+xml")) ||
		bytes.Contains(f.accept, []byte("*/*")) && (f.isText() || client.ParseClaim(f.agent).Family == client.FamilyOld)
}

// isScript reports whether a script may have made the request: in mode cors or same-origin without an element; or,
// without these fields, it is neither a navigation nor for a subresource.
func (f *fields) isScript(v *request.View) bool {
	if len(f.mode) > 0 || len(f.dest) > 0 {
		return (string(f.mode) == "cors" || string(f.mode) == "same-origin") &&
			(len(f.dest) == 0 || string(f.dest) == "empty")
	}
	return f.requestedWith || !f.navigates() && !f.namesPart(v)
}

// ofSite reports whether a page of the service or of an allowed origin made the request, by Origin, Referer, or
// Sec-Fetch-Site.
func (f *fields) ofSite(v *request.View, s *Service) bool {
	from := f.origin
	if len(from) == 0 || string(from) == "null" {
		from = f.referer
	}
	if len(from) == 0 {
		return string(f.site) == "same-origin" || string(f.site) == "same-site"
	}
	return s.Captcha.OwnsPage(from, v.Host)
}

// subresourceAccepts are prefixes of Accept for subresources.
var subresourceAccepts = [...]string{"image/", "text/css", "video/", "audio/", "font/"}

// isPart reports whether nobody would see an answer in words: an element, a beacon, a socket.
func (f *fields) isPart(v *request.View, browser bool) bool {
	switch string(f.mode) {
	case "no-cors", "websocket":
		return true
	}
	switch string(f.dest) {
	case "", "empty", "document", "iframe", "frame", "fencedframe":
	default:
		return true
	}
	return browser && len(f.mode) == 0 && f.namesPart(v)
}

func (f *fields) namesPart(v *request.View) bool {
	if f.socket {
		return true
	}
	for _, t := range subresourceAccepts {
		if request.HasPrefixFold(f.accept, t) {
			return true
		}
	}
	return v.NamesPart() && !f.navigates()
}

func (s *Service) isAJAXPath(paths *request.Paths) bool {
	if len(s.Config.AJAXPaths) == 0 {
		return false
	}
	for _, path := range paths.All() {
		if under(path, s.Config.AJAXPaths) {
			return true
		}
	}
	return false
}
