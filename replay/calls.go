package replay

import (
	"math/bits"

	"antirobot/request"
	"antirobot/verdict"
)

// A line of a common log does not say whether a visitor opened a page or a page's script asked for data. The log as a
// whole does: what scripts ask for is requested within moments of the page that its Referer names, or again and again
// from there, nearly each time, and no request ever names it as its Referer, as the one for the next page does. Where
// scripts wait, until somebody has scrolled, it takes more: several visitors who load parts of pages, and come from a
// page that they have opened, or ask once more, and no part that names it, as those of pages do. Whoever loads none may
// be a robot that names a page where it has never been. An application that is loaded once gives its pages their
// addresses by script: they are named as Referers far more often than anybody opens them.
//
// One path may show all pages of a site, by its query. So it is looked at twice: by paths, and, where that is so, by
// targets, which are alike if the parameters of their queries have the same names.
//
// Requests without a Referer say nothing of that: a page's script sends one, and a program that asks for the same often
// doesn't.

const (
	callsLeast  = 16 // requests that show what a path is
	callsSoon   = 3  // seconds after its page
	callsShare  = 4  // in five requests
	callsLeads  = 50 // requests for each that names the path as its Referer
	callsAll    = 2  // requests for each of a path that shows a site's pages, by its query, at most
	callsShapes = 20_000
	callsWho    = 1 << 13
	callsPages  = 6 // of a visitor that are remembered

	callsSure    = 32 // requests of a path that no script asks for at once
	callsReaders = 4  // visitors who make them, at least
	callsOpened  = 4  // times that the page of an application was opened, at least …
	callsRoute   = 8  // … and requests that come from it for each of them
)

// calls tells the calls of scripts from pages. The zero value is ready to use.
type calls struct {
	paths, targets usage
	opened         uint32 // requests for no part
}

// usage is how the visitors of a log use paths, or targets.
type usage struct {
	shapes map[uint64]*shapeUse
	last   [callsWho]reader
}

// shapeUse is how paths of one shape are used: how often at all, with a Referer, by a page's script at once, as far as
// can be seen, from a page that its visitor has opened, or again, and as a Referer, of parts or of what is none.
type shapeUse struct {
	opened, requests, asked, later, leads, ways uint32
	parts                                       uint32 // answers that were parts of pages, though it is named like none
	readers                                     uint64 // a bit for each who makes those later ones
	gets                                        bool   // some are no POST
}

// route reports whether such a path is mostly one that a script of a page has given it, as an application does that is
// loaded once: many more requests name it than name an ordinary page.
func (s *shapeUse) route() bool { return s.opened >= callsOpened && s.ways >= callsRoute*s.opened }

// end reports whether almost no request names such a path as its Referer, subresources aside: a style sheet has some,
// too.
func (s *shapeUse) end() bool { return s.requests >= callsLeast && s.ways*callsLeads <= s.requests }

// leaf reports whether almost no request does.
func (s *shapeUse) leaf() bool { return s.requests >= callsLeast && s.leads*callsLeads <= s.requests }

// soon reports whether scripts ask for such a path at once.
func (s *shapeUse) soon() bool { return s.end() && s.asked*5 >= s.requests*callsShare }

// call reports whether scripts ask for such a path. Who posts a form gets a page, which has parts, or is sent to one:
// so one visitor is enough.
func (s *shapeUse) call() bool {
	return s.soon() ||
		s.leaf() && s.requests >= callsSure && s.later*5 >= s.requests*callsShare &&
			(!s.gets || bits.OnesCount64(s.readers) >= callsReaders)
}

// reader is what a visitor has requested of late: what may be a page, and what may be a script's call.
type reader struct {
	who          uint64
	parts        bool // it has loaded some
	pages, calls recently
}

// recently is the last few paths, in a ring.
type recently struct {
	next uint8
	of   [callsPages]opened
}

// opened is a path or target, and the Referer with which it was requested last.
type opened struct {
	key, from uint64
	at        int64 // unix milliseconds
}

// find returns the place of a key; nil if it has none.
func (r *recently) find(key uint64) *opened {
	for i := range r.of {
		if r.of[i].key == key {
			return &r.of[i]
		}
	}
	return nil
}

func (r *recently) note(x opened) {
	place := r.find(x.key)
	if place == nil {
		place = &r.of[r.next%callsPages]
		r.next++
	}
	*place = x
}

// asked reports whether a page's script seems to have asked for x: at once after its page was opened, or as it did
// before, for what is like x; and whether it may have done so later: from a page that was opened, or is a route of an
// application, or once more.
func (o *reader) asked(x *opened, like uint64, route bool) (soon, later bool) {
	if x.from == 0 || x.from == x.key {
		return false, false
	}
	page, before := o.pages.find(x.from), o.calls.find(like)
	soon = page != nil && x.at >= page.at && x.at-page.at <= callsSoon*1000 || before != nil && before.from == x.from
	return soon, o.parts && (page != nil || before != nil || route)
}

// use is what a request is for, where its line has no field that says it.
type use uint8

const (
	useUnsaid use = iota
	usePart       // of a page, by the type of its answer
	useCall       // of a page's script
)

// useOf is the use of a request of which a gateway has seen the fields.
func useOf(asks request.Kind) use {
	switch asks {
	case request.KindPart, request.KindSocket:
		return usePart
	case request.KindScript:
		return useCall
	default:
		return useUnsaid
	}
}

// see counts a request, and finds its purpose. named: its path is named like a subresource.
func (c *calls) see(r *Record, named bool) use {
	if r.said {
		return useOf(r.asks)
	}
	if m := string(r.Method); r.says() || m != "GET" && m != "POST" {
		return useUnsaid
	}
	var kind []byte
	if r.Answer.Status/100 == 2 { // an error page does not show the kind of the requested resource
		kind = r.Answer.ContentType
	}
	target := upTo(originForm(r.Target), hash)
	part := named
	switch {
	case len(kind) > 0:
		part = verdict.IsPart(kind)
	case !named:
		part = c.paths.isPart(target)
	}
	_, from := refererOf(r)
	path, parts := c.paths.see(r, pathOf(target), pathOf(from), part)
	like, _ := c.targets.see(r, target, from, part)
	switch {
	case part && !named:
		c.paths.part(target)
		return usePart
	case request.NamesFeed(pathOf(target)): // browsers show none: what reads it there is an extension
		return useCall
	case path == nil:
		return useUnsaid
	case verdict.IsData(kind) && (len(from) > 0 || parts):
		return useCall
	}
	c.opened++
	if path.call() || like != nil && path.opened*callsAll >= c.opened && like.soon() {
		return useCall
	}
	return useUnsaid
}

// see counts a request, and returns how such a path, or target, is used, nil for a part, and if there are too many; and
// whether its visitor loads parts.
func (u *usage) see(r *Record, target, from []byte, part bool) (_ *shapeUse, parts bool) {
	route := false
	if len(from) > 0 {
		if _, s := u.shape(from); s != nil {
			s.leads++
			if !part {
				s.ways++
			}
			route = s.route()
		}
	}
	who := request.Hash(r.Addr.AsSlice()) ^ request.Hash(r.Who)
	o := &u.last[who%callsWho]
	if o.who != who {
		*o = reader{who: who}
	}
	if part {
		o.parts = true
		return nil, true
	}
	like, s := u.shape(target)
	if s == nil {
		return nil, o.parts
	}
	s.opened++
	x := opened{key: request.Hash(target), at: r.At.UnixMilli()}
	if len(from) > 0 {
		x.from = request.Hash(from)
		s.requests++
		s.gets = s.gets || r.Method[0] == 'G'
	}
	soon, later := o.asked(&x, like, route)
	if soon {
		s.asked++
	}
	if later {
		s.later++
		s.readers |= 1 << (who * 0x9e3779b97f4a7c15 >> 58)
	}
	if s.call() || s.leaf() {
		x.key = like
		o.calls.note(x)
	} else {
		o.pages.note(x)
	}
	return s, o.parts
}

// part notes that what such a path showed was a part of a page.
func (u *usage) part(target []byte) {
	if _, s := u.shape(pathOf(target)); s != nil {
		s.parts++
	}
}

// isPart reports whether such a path has shown parts of pages rather than pages: so it does where it has not changed,
// or is missing.
func (u *usage) isPart(target []byte) bool {
	_, s := u.shape(pathOf(target))
	return s != nil && s.parts > s.opened
}

// says reports whether the line has a field with the request's purpose.
func (r *Record) says() bool {
	for i := range r.Fields {
		if request.EqualFold(r.Fields[i].Name, nameMode) || request.EqualFold(r.Fields[i].Name, nameAccept) {
			return true
		}
	}
	return false
}

// shape is how targets are used that differ in numbers, and in what the parameters of their query are set to; nil:
// there are too many. like is the same for those that differ in the latter alone.
func (u *usage) shape(target []byte) (like uint64, s *shapeUse) {
	const basis, prime = 0xcbf29ce484222325, 0x100000001b3
	like, h := uint64(basis), uint64(basis)
	digits, query, value := false, false, false
	for _, b := range target {
		switch {
		case query && (b == '&' || b == ';'):
			value = false
		case value:
			continue
		case query:
			value = b == '='
		default:
			query = b == '?'
		}
		like = (like ^ uint64(b)) * prime
		if '0' <= b && b <= '9' {
			if digits {
				continue
			}
			b, digits = '#', true
		} else {
			digits = false
		}
		h = (h ^ uint64(b)) * prime
	}
	s = u.shapes[h]
	if s == nil && len(u.shapes) < callsShapes {
		if u.shapes == nil {
			u.shapes = map[uint64]*shapeUse{}
		}
		s = &shapeUse{}
		u.shapes[h] = s
	}
	return like, s
}

// tell sets the fields of v by which a browser states the purpose.
func (u use) tell(v *request.View) {
	switch u {
	case usePart:
		v.Fields = append(v.Fields, request.Field{Name: nameDest, Value: []byte("image")},
			request.Field{Name: nameMode, Value: []byte("no-cors")})
	case useCall:
		v.Fields = append(v.Fields, request.Field{Name: nameDest, Value: []byte("empty")},
			request.Field{Name: nameMode, Value: []byte("cors")})
	}
}

var (
	nameAccept = []byte("Accept")
	nameMode   = []byte("Sec-Fetch-Mode")
	nameDest   = []byte("Sec-Fetch-Dest")
)
