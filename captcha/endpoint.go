package captcha

import "bytes"

// Endpoint is one of the gateway's own addresses.
type Endpoint uint8

// The endpoints.
const (
	EndpointNone Endpoint = iota
	EndpointPage
	EndpointCheck
	EndpointXCheck
	EndpointImage
	EndpointAudio
	EndpointStatic // anything else below /captcha/
	EndpointEvidence
	EndpointEvidenceScript
)

// Route returns which of the gateway's own addresses a path is. Only the exact spelling counts: any other belongs to the
// service and is judged like every request.
func (s *Settings) Route(path []byte) Endpoint {
	if e, ok := s.paths[string(path)]; ok {
		return e
	}
	if n := len(s.prefix); len(path) > n && string(path[:n]) == s.prefix && bytes.HasPrefix(path[n:], ownFiles) {
		return EndpointStatic
	}
	return EndpointNone
}

var ownFiles = []byte("/captcha/")
