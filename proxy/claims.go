package proxy

import (
	"context"
	"errors"
	"slices"

	"antirobot/message/inline"
	"antirobot/proxy/h1"
	"antirobot/proxy/h1/wire"
	"antirobot/request"
)

// maxClaims is how many methods a request may claim beside its own; no client claims two.
const maxClaims = 4

// ReadClaims sets the methods that the head of a request claims, for rules. It allocates only if there seems to be one.
func ReadClaims(v *request.View) {
	v.Claims, v.Overclaims = nil, false
	if !claims(v) {
		return
	}
	in := inline.Input{Query: string(v.Query), Header: func(name string) []string { return headerValues(v, name) }}
	methods, err := inline.Config{}.Overrides(in)
	addClaims(v, methods)
	v.Overclaims = v.Overclaims || err != nil
}

func addClaims(v *request.View, methods []string) {
	for _, m := range methods {
		same := func(have []byte) bool { return string(have) == m }
		if wire.ValidMethod([]byte(m)) && string(v.Method) != m && !slices.ContainsFunc(v.Claims, same) {
			v.Claims = append(v.Claims, []byte(m))
		}
	}
	if len(v.Claims) > maxClaims {
		v.Claims, v.Overclaims = v.Claims[:maxClaims], true
	}
}

// claims says whether there seems to be a method in the head beside the request's own.
func claims(v *request.View) bool {
	for i := range v.Fields {
		for _, name := range inline.OverrideFields {
			if request.EqualCGI(v.Fields[i].Name, name) {
				return true
			}
		}
	}
	return holds(v.Query, "method") || holds(v.Query, "charset") || holds(v.Query, "%u")
}

// holds reports whether word, in which no letter is like the first, may be read in a query: escaped, in any case, and with
// bytes between that some services leave out.
func holds(query []byte, word string) bool {
	n := 0
	for i := 0; i < len(query); i++ {
		c := query[i]
		if c == '%' && i+2 < len(query) {
			if hi, lo := request.Unhex(query[i+1]), request.Unhex(query[i+2]); hi >= 0 && lo >= 0 {
				c, i = byte(hi<<4|lo), i+2
			}
		}
		if c <= ' ' || c >= 0x7f {
			continue
		}
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		switch c {
		case word[n]:
			n++
		case word[0]:
			n = 1
		default:
			n = 0
		}
		if n == len(word) {
			return true
		}
	}
	return false
}

// Frameworks let a request claim another method than its own (X-HTTP-Method-Override, _method). A message may therefore be
// on the route of a method that it claims, and rules that read the method see each of them.

// errOtherRoute is why a message is not readable that is on two routes: by its method, and by one that it claims.
var errOtherRoute = errors.New("it claims a method that leads to another route")

// routeAt returns the route that a request of this method is on (own), or else the first one of its path, for the case that
// it claims another method; nil if there is none.
func (s *Service) routeAt(method []byte, paths *request.Paths) (r *messageRoute, own bool) {
	if len(s.routes) == 0 {
		return nil, false
	}
	if r = s.messageRoute(method, paths); r != nil {
		return r, true
	}
	for _, path := range paths.All() {
		for _, r := range s.routes {
			if r.fits([]byte(r.method), path, true) {
				return r, false
			}
		}
	}
	return nil, false
}

// mayClaim says whether there is a place in the client's request where it could claim a method.
func (j *moderation) mayClaim() bool {
	claims := func(f request.Field) bool {
		return slices.ContainsFunc(inline.OverrideFields[:], func(name string) bool { return request.EqualCGI(f.Name, name) })
	}
	return len(j.view.Query) > 0 || inline.HasFields(string(j.view.Get("Content-Type"))) || slices.ContainsFunc(j.view.Fields, claims)
}

// readRoute returns the route of the client's message, and reads its body; nil if it is on none, or its body is broken.
func (j *moderation) readRoute(ctx context.Context, at *messageRoute, own bool, p *posted) *messageRoute {
	by, _ := ctx.Deadline()
	read := func(r *messageRoute) bool {
		p.body, p.err = j.x.ReadBodyBy(r.read.MaxBody, by)
		return p.err == nil || errors.Is(p.err, h1.ErrBodyTooLarge) || errors.Is(p.err, h1.ErrBodyLate) // else forward reports it
	}
	fields := inline.HasFields(string(j.view.Get("Content-Type")))
	if (own || fields) && !read(at) {
		return nil
	}
	r := j.routeOf(j.svc, at, own, &j.paths, p)
	if r != nil && !own && !fields && !read(r) {
		return nil
	}
	return r
}

// routeOf returns the route of a message that was found at one: by its own method, or else by one that it claims; nil for
// none. If a body can't be read, it may claim any.
func (j *moderation) routeOf(s *Service, at *messageRoute, own bool, paths *request.Paths, p *posted) *messageRoute {
	if p.err != nil || own && len(s.routes) == 1 {
		return at
	}
	methods, err := at.read.Overrides(j.input(p))
	if err != nil {
		return at
	}
	for _, m := range methods {
		r := s.messageRoute([]byte(m), paths)
		switch {
		case r == nil || own && r == at:
		case own:
			p.err = errOtherRoute
			return at
		default:
			return r
		}
	}
	if own {
		return at
	}
	return nil
}
