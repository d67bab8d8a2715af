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

// maxClaims bounds the methods that a request claims in addition to its own; real clients claim one.
const maxClaims = 4

// ReadClaims sets the methods that the head of a request claims. It allocates only if there seems to be one.
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

// holds reports whether a service may read word in a query: escaped, in any case, with control bytes between. No letter
// of word repeats the first.
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

// Frameworks let a request claim another method than its own (X-HTTP-Method-Override, _method). A message may be on the
// route of a claimed method, and rules see every method.

var errOtherRoute = errors.New("it claims a method that leads to another route")

// routeAt returns the route of a request with this method (own), or else the first one of its path, for claimed
// methods; nil: none.
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

func (j *moderation) mayClaim() bool {
	claims := func(f request.Field) bool {
		return slices.ContainsFunc(inline.OverrideFields[:],
			func(name string) bool { return request.EqualCGI(f.Name, name) })
	}
	return len(j.view.Query) > 0 || inline.HasFields(string(j.view.Get("Content-Type"))) ||
		slices.ContainsFunc(j.view.Fields, claims)
}

// readRoute returns the route of the client's message, and reads its body; nil: none, or the body is broken.
func (j *moderation) readRoute(ctx context.Context, at *messageRoute, own bool, p *posted) *messageRoute {
	by, _ := ctx.Deadline()
	read := func(r *messageRoute) bool {
		p.body, p.err = j.x.ReadBodyBy(r.read.MaxBody, by)
		// else forward reports it
		return p.err == nil || errors.Is(p.err, h1.ErrBodyTooLarge) || errors.Is(p.err, h1.ErrBodyLate)
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

// routeOf returns the route of a message that was found at one: by its own method, or by a claimed one. An unreadable
// body may claim any.
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
