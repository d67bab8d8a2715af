package replay

import (
	"antirobot/request"
)

// A line of a common log does not say whether a visitor opened a page or a page's script asked for data. The log as a whole
// does: what scripts ask for is requested within moments of the page that its Referer names, nearly each time, and no
// request ever names it as its Referer, as those for the parts of a page and for the next one do.

const (
	callsLeast  = 16 // requests that show what a path is
	callsSoon   = 3  // seconds after its page
	callsShare  = 4  // in five requests
	callsLeads  = 50 // requests for each that names the path as its Referer
	callsShapes = 20_000
	callsWho    = 1 << 15
)

// calls tells the calls of scripts from pages. The zero value is ready to use.
type calls struct {
	shapes map[uint64]*shapeUse
	last   [callsWho]opened
}

// shapeUse is how paths of one shape are used.
type shapeUse struct{ requests, soon, leads uint32 }

// opened is the last page of a visitor.
type opened struct {
	who, page uint64
	at        int64 // unix milliseconds
}

// see counts a request, and reports whether it is a script's call.
func (c *calls) see(r *Record, part bool) bool {
	if r.typed() || string(r.Method) != "GET" {
		return false
	}
	path := pathOf(originForm(r.Target))
	_, from := refererOf(r)
	if len(from) > 0 {
		if s := c.shape(from); s != nil {
			s.leads++
		}
	}
	if part {
		return false
	}
	s := c.shape(path)
	if s == nil {
		return false
	}
	who := request.Hash(r.Addr.AsSlice()) ^ request.Hash(r.Who)
	o := &c.last[who%callsWho]
	ms := r.At.UnixMilli()
	s.requests++
	if len(from) > 0 && o.who == who && o.page == request.Hash(from) && ms >= o.at && ms-o.at <= callsSoon*1000 {
		s.soon++
	}
	if s.requests >= callsLeast && s.soon*5 >= s.requests*callsShare && s.leads*callsLeads <= s.requests {
		return true
	}
	*o = opened{who: who, page: request.Hash(path), at: ms}
	return false
}

// typed reports whether the line says what was asked for, or what was answered.
func (r *Record) typed() bool {
	if len(r.Answer.ContentType) > 0 {
		return true
	}
	for i := range r.Fields {
		if request.EqualFold(r.Fields[i].Name, nameMode) || request.EqualFold(r.Fields[i].Name, nameAccept) {
			return true
		}
	}
	return false
}

// shape is how a path in which all numbers are alike is used; nil: there are too many.
func (c *calls) shape(path []byte) *shapeUse {
	h, digits := uint64(0xcbf29ce484222325), false
	for _, b := range path {
		if '0' <= b && b <= '9' {
			if digits {
				continue
			}
			b, digits = '#', true
		} else {
			digits = false
		}
		h = (h ^ uint64(b)) * 0x100000001b3
	}
	s := c.shapes[h]
	if s == nil && len(c.shapes) < callsShapes {
		if c.shapes == nil {
			c.shapes = map[uint64]*shapeUse{}
		}
		s = &shapeUse{}
		c.shapes[h] = s
	}
	return s
}

// called makes a view that of a script's call.
func called(v *request.View) {
	v.Fields = append(v.Fields, request.Field{Name: nameDest, Value: []byte("empty")}, request.Field{Name: nameMode, Value: []byte("cors")})
}

var (
	nameAccept = []byte("Accept")
	nameMode   = []byte("Sec-Fetch-Mode")
	nameDest   = []byte("Sec-Fetch-Dest")
)
