package proxy

import (
	"bytes"

	"antirobot/request"
)

// kind is what a request asks for; it decides the form of the answer when it is stopped.
type kind uint8

const (
	kindPage        kind = iota // a navigation: 302 to the captcha page
	kindForm                    // a form POST: the captcha page itself, with the request sealed in it
	kindAJAX                    // a script's call: JSON
	kindXML                     // an XML service: XML
	kindSubresource             // an image, a style, a WebSocket: an empty 403
	kindPreflight               // a CORS preflight: never challenged
)

// classify says what v asks for, under the rules of s.
func classify(v *request.View, s *Service, xml bool) kind {
	switch {
	case xml:
		return kindXML
	case isPreflight(v):
		return kindPreflight
	case s.isAJAXPath(v.Path):
		return kindAJAX
	}
	dest := v.Get("Sec-Fetch-Dest")
	switch {
	case isAJAX(v, dest):
		return kindAJAX
	case isSubresource(v, dest):
		return kindSubresource
	case isForm(v):
		return kindForm
	default:
		return kindPage
	}
}

func isPreflight(v *request.View) bool {
	return string(v.Method) == "OPTIONS" && v.Has("Origin") && v.Has("Access-Control-Request-Method")
}

func isAJAX(v *request.View, dest []byte) bool {
	if bytes.EqualFold(v.Get("X-Requested-With"), []byte("XMLHttpRequest")) {
		return true
	}
	if string(dest) == "empty" && string(v.Get("Sec-Fetch-Mode")) == "cors" {
		return true
	}
	return prefersJSON(v.Get("Accept"))
}

// isSubresource reports whether nobody would see a page that answers v. Sec-Fetch-Dest says so where the browser
// sends it; otherwise the path's extension together with an Accept that does not ask for HTML.
func isSubresource(v *request.View, dest []byte) bool {
	switch string(dest) {
	case "document", "iframe", "frame", "fencedframe":
		return false
	case "":
		if bytes.EqualFold(v.Get("Upgrade"), []byte("websocket")) {
			return true
		}
		return hasStaticExtension(v.Path) && !bytes.Contains(v.Get("Accept"), []byte("text/html"))
	default:
		return true
	}
}

// staticExtensions are the endings of what pages are made of.
var staticExtensions = [...]string{
	"css", "js", "mjs", "map", "png", "jpg", "jpeg", "gif", "webp", "avif", "svg", "ico", "bmp", "woff", "woff2", "ttf",
	"otf", "eot", "mp3", "mp4", "webm", "ogg", "wav", "m4a", "wasm", "webmanifest",
}

func hasStaticExtension(path []byte) bool {
	dot := bytes.LastIndexByte(path, '.')
	if dot < 0 || len(path)-dot > 12 {
		return false
	}
	ext := path[dot+1:]
	for _, e := range staticExtensions {
		if len(e) == len(ext) && bytes.EqualFold(ext, []byte(e)) {
			return true
		}
	}
	return false
}

// isForm reports whether v is a form that a person submitted.
func isForm(v *request.View) bool {
	if string(v.Method) != "POST" {
		return false
	}
	t := v.Get("Content-Type")
	return hasFoldPrefix(t, "application/x-www-form-urlencoded") || hasFoldPrefix(t, "multipart/form-data")
}

func hasFoldPrefix(b []byte, prefix string) bool {
	return len(b) >= len(prefix) && bytes.EqualFold(b[:len(prefix)], []byte(prefix))
}

// prefersJSON reports whether accept ranks application/json above text/html and everything else that it names.
func prefersJSON(accept []byte) bool {
	if len(accept) == 0 || len(accept) > 4096 {
		return false
	}
	best, json, html := -1, -1, -1
	for rest := accept; len(rest) > 0; {
		var part []byte
		part, rest, _ = bytes.Cut(rest, []byte{','})
		media, params, _ := bytes.Cut(part, []byte{';'})
		media = bytes.TrimSpace(media)
		q := quality(params)
		best = max(best, q)
		switch {
		case bytes.EqualFold(media, []byte("application/json")):
			json = max(json, q)
		case bytes.EqualFold(media, []byte("text/html")), bytes.EqualFold(media, []byte("application/xhtml+xml")):
			html = max(html, q)
		}
	}
	return json > 0 && json == best && json > html
}

// quality returns the q of media type parameters in thousandths; 1000 if there is none or it cannot be read.
func quality(params []byte) int {
	for rest := params; len(rest) > 0; {
		var p []byte
		p, rest, _ = bytes.Cut(rest, []byte{';'})
		p = bytes.TrimSpace(p)
		if len(p) < 3 || p[0]|0x20 != 'q' || p[1] != '=' {
			continue
		}
		q := p[2:]
		n, scale := 0, 1000
		for i, c := range q {
			switch {
			case i == 1 && c == '.':
			case c >= '0' && c <= '9' && i < 5:
				n += int(c-'0') * scale
				scale /= 10
			default:
				return 1000
			}
		}
		return min(n, 1000)
	}
	return 1000
}

// isAJAXPath reports whether the service says that path is called by scripts.
func (s *Service) isAJAXPath(path []byte) bool {
	for _, p := range s.Config.AJAXPaths {
		if hasPathPrefix(path, p) {
			return true
		}
	}
	return false
}
