package proxy

import "antirobot/request"

// kind is the form of the answer to a stopped request. It depends on what is requested, and on what the service says about
// its paths.
type kind uint8

const (
	kindPage        kind = iota // a navigation: 302 to the captcha page
	kindForm                    // a form POST: the captcha page itself, with the request sealed in it
	kindAJAX                    // a call of a script or a program: JSON
	kindXML                     // an XML service: XML
	kindSubresource             // an image, a style, a WebSocket: an empty 403
	kindPreflight               // a CORS preflight: never challenged
)

// kinds are the forms that can be read for each kind of requested resource.
var kinds = [...]kind{
	request.KindPage: kindPage, request.KindFeed: kindPage, request.KindFile: kindPage, request.KindForm: kindForm,
	request.KindScript: kindAJAX, request.KindAPI: kindAJAX, request.KindPart: kindSubresource,
	request.KindSocket: kindSubresource, request.KindPreflight: kindPreflight,
}

// classify says in which form a request can be answered, under the rules of s.
func classify(asks request.Kind, paths *request.Paths, s *Service, xml bool) kind {
	if xml {
		return kindXML
	}
	k := kinds[asks]
	if k != kindPreflight && s.isAJAXPath(paths) {
		return kindAJAX
	}
	return k
}

// isAJAXPath reports whether, in any reading, the service says that scripts call a path: only the form of an answer depends
// on it.
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
