package h1

import (
	"bytes"
	"time"

	"github.com/valyala/fasthttp"

	"antirobot/request"
)

// Refuse returns what to say to a request that is not served, as a Refuser does.
func (s *Server) Refuse(status int, v *request.View) (fields []request.Field, body []byte) {
	if s.refuser != nil {
		fields, body = s.refuser.Refuse(status, v)
	}
	if body == nil {
		fields = []request.Field{{Name: nameContentType, Value: plainText}, {Name: nameCacheControl, Value: noStore}}
		body = append([]byte(fasthttp.StatusMessage(status)), '\n')
	}
	if status == 405 {
		fields = append(fields, request.Field{Name: []byte("Allow"), Value: []byte(allowed)})
	}
	return fields, body
}

// allowed are the methods that are named where another is refused.
const allowed = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"

var (
	nameContentType  = []byte("Content-Type")
	nameCacheControl = []byte("Cache-Control")
	plainText        = []byte("text/plain")
	noStore          = []byte("no-store")
)

// refuse answers something that can't be served as a request, and closes the connection.
func (c *conn) refuse(err error) {
	c.keep = false
	why, ok := err.(refusal) //nolint:errorlint // it is never wrapped
	switch {
	case ok:
	case isTimeout(err):
		why = headTimeout
		if line, _ := cutLine(c.h.raw); int64(len(line)) > c.cfg.MaxTargetBytes+requestLineRest {
			why = targetTooLong // whatever was still to come
		}
	default:
		return // the client left within its head
	}
	c.srv.m.refused[why].Inc()
	c.srv.log.Debug().Str("reason", refusals[why].name).Stringer("peer", c.peer).Uint64("conn", c.id).Msg("request refused")
	method := c.h.method
	if method == nil { // the line was not read to its end
		method, _, _ = bytes.Cut(c.h.raw, []byte{' '})
	}
	c.x.View = request.View{At: time.Now(), Method: method, Peer: c.peer, TLS: c.opts.TLS != nil, Fields: readable(nil, c.h.raw)}
	fields, body := c.srv.Refuse(refusals[why].status, &c.x.View)
	_ = c.Reply(refusals[why].status, fields, body)
	c.linger = true
}

// requestLineRest is more than a request line has besides its target: a method and a version.
const requestLineRest = 64

// readable appends the fields of a head that is refused, as far as it was read: those whose lines are whole, whatever is wrong with
// others. They only say in which form and language the client reads an answer.
func readable(dst []request.Field, raw []byte) []request.Field {
	_, rest := cutLine(raw)
	for {
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			return dst
		}
		name, value, ok := bytes.Cut(rest[:end], []byte{':'})
		rest = rest[end+1:]
		value = trim(bytes.TrimSuffix(value, []byte{'\r'}))
		if ok && isName(name) && isText(value) {
			dst = append(dst, request.Field{Name: name, Value: value})
		}
	}
}
