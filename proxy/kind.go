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
func classify(v *request.View, f *purpose, paths *request.Paths, s *Service, xml bool) kind {
	if xml {
		return kindXML
	}
	if v.IsPreflight() {
		return kindPreflight
	}
	switch browser := f.isBrowser(v); {
	case browser && f.isScript(v) && f.ofSite(v, s), browser && string(f.Mode) != "navigate" && s.isAJAXPath(paths):
		return kindScript
	case f.XHR && string(f.Mode) != "navigate":
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

type purpose struct{ request.Purpose }

// textBrowsers name no engine in their User-Agents, which begin so.
var textBrowsers = [...]string{"Lynx/", "w3m/", "Links (", "ELinks/", "Dillo/", "NetSurf/", "URL/Emacs"}

// isBrowser reports whether a request has the fields of every browser: its name, Accept-Language and Accept-Encoding.
// Where a record or a proxy lacks those fields, its name, or Sec-Fetch-Mode, suffices.
func (f *purpose) isBrowser(v *request.View) bool {
	if f.isText() {
		return true
	}
	if !v.Partial && !(f.Language && f.Encoding) && len(f.Mode) == 0 {
		return false
	}
	claim := client.ParseClaim(f.Agent)
	if claim.Family != client.FamilyOther {
		return !claim.Program() // a headless one can answer a challenge
	}
	for _, engine := range engines {
		if bytes.Contains(f.Agent, engine) {
			return true
		}
	}
	return false
}

var engines = [...][]byte{
	[]byte("AppleWebKit/"), []byte("Gecko/"), []byte("Presto/"), []byte("KHTML/"),
	[]byte("Goanna/"),
}

func (f *purpose) isText() bool {
	for _, name := range textBrowsers {
		if len(f.Agent) > len(name) && string(f.Agent[:len(name)]) == name {
			return true
		}
	}
	return false
}

// navigates reports whether a page is opened: the browser says so, or accepts HTML.
func (f *purpose) navigates() bool {
	if len(f.Mode) > 0 || len(f.Dest) > 0 {
		return string(f.Mode) == "navigate" && string(f.Dest) != "object" && string(f.Dest) != "embed" ||
			len(f.Mode) == 0 && string(f.Dest) == "document"
	}
	if f.WebSocket {
		return false
	}
	return f.Accept == nil || bytes.Contains(f.Accept, []byte("text/html")) ||
		bytes.Contains(f.Accept, []byte("application/xhtml+xml")) ||
		bytes.Contains(f.Accept, []byte("*/*")) && (f.isText() || client.ParseClaim(f.Agent).Family == client.FamilyOld)
}

// isScript reports whether a script may have made the request: in mode cors or same-origin without an element; or,
// without these fields, it is neither a navigation nor for a subresource.
func (f *purpose) isScript(v *request.View) bool {
	if len(f.Mode) > 0 || len(f.Dest) > 0 {
		return (string(f.Mode) == "cors" || string(f.Mode) == "same-origin") &&
			(len(f.Dest) == 0 || string(f.Dest) == "empty")
	}
	return f.XHR || !f.navigates() && !f.namesPart(v)
}

// ofSite reports whether a page of the service or of an allowed origin made the request, by Origin, Referer, or
// Sec-Fetch-Site.
func (f *purpose) ofSite(v *request.View, s *Service) bool {
	from := f.Origin
	if len(from) == 0 || string(from) == "null" {
		from = f.Referer
	}
	if len(from) == 0 {
		return string(f.Site) == "same-origin" || string(f.Site) == "same-site"
	}
	return s.Captcha.OwnsPage(from, v.Host)
}

var subresourceAccepts = [...]string{"image/", "text/css", "video/", "audio/", "font/"}

// isPart reports whether nobody would see an answer in words: an element, a beacon, a socket.
func (f *purpose) isPart(v *request.View, browser bool) bool {
	switch string(f.Mode) {
	case "no-cors", "websocket":
		return true
	}
	switch string(f.Dest) {
	case "", "empty", "document", "iframe", "frame", "fencedframe":
	default:
		return true
	}
	return browser && len(f.Mode) == 0 && f.namesPart(v)
}

func (f *purpose) namesPart(v *request.View) bool {
	if f.WebSocket {
		return true
	}
	for _, t := range subresourceAccepts {
		if request.HasPrefixFold(f.Accept, t) {
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
