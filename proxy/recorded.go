package proxy

import (
	"antirobot/captcha"
	"antirobot/request"
	"antirobot/verdict"
)

// IsStatic reports whether v asks for a part of a page: what the slow half is told of a request, for traffic that is
// recorded or made up.
func IsStatic(v *request.View) bool { return isStatic(v) }

// IsOwn reports whether v is not judged on its way to the service: it asks for one of the gateway's own pages, or is a
// balancer's health check.
func (s *Service) IsOwn(v *request.View) bool {
	return s.isHealthCheck(v) || s.Captcha != nil && s.Captcha.Route(v.Path) != captcha.EndpointNone
}

// Stopped returns what a request that is not human gets: the status of the answer and whether that is a challenge. ok is
// false for a request that passes all the same.
func (s *Service) Stopped(v *request.View, is verdict.Verdict) (status int, shown, ok bool) {
	var paths request.Paths
	paths.Read(v.Path)
	kind := classify(v, &paths, s, s.Captcha != nil && s.isXML(&paths))
	if is == verdict.Blocked {
		return 403, false, true
	}
	switch kind {
	case kindPreflight:
		return 0, false, false
	case kindPage:
		return 302, false, true
	case kindSubresource:
		return 403, false, true
	}
	return 200, true, true
}
