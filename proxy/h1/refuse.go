package h1

import (
	"bytes"
	"time"

	"github.com/valyala/fasthttp"

	"antirobot/proxy/h1/wire"
	"antirobot/request"
)

// Refuse implements Refuser.
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

const allowed = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"

var (
	nameContentType  = []byte("Content-Type")
	nameCacheControl = []byte("Cache-Control")
	plainText        = []byte("text/plain")
	noStore          = []byte("no-store")
)

// refuse answers bytes that are no valid request, and closes the connection.
func (c *conn) refuse(err error) {
	c.keep = false
	why, ok := err.(wire.Refusal) //nolint:errorlint // bare
	switch {
	case ok:
	case isTimeout(err):
		why = wire.HeadTimeout
		if line, _ := wire.CutLine(c.h.Raw); int64(len(line)) > c.cfg.MaxTargetBytes+requestLineRest {
			why = wire.TargetTooLong
		}
	default:
		return // the client left
	}
	c.srv.m.refused[why].Inc()
	c.srv.log.Debug().Str("reason", why.Name()).Stringer("peer", c.peer).Uint64("conn", c.id).Msg("request refused")
	method := c.h.Method
	if method == nil { // the line is incomplete
		method, _, _ = bytes.Cut(c.h.Raw, []byte{' '})
	}
	c.x.View = request.View{
		At: time.Now(), Method: method, Peer: c.peer, TLS: c.opts.TLS != nil,
		Fields: readable(nil, c.h.Raw),
	}
	fields, body := c.srv.Refuse(why.Status(), &c.x.View)
	_ = c.Reply(why.Status(), fields, body)
	c.linger = true
}

const requestLineRest = 64

// readable appends the fields of a refused head's complete lines. They only choose the form and language of the answer.
func readable(dst []request.Field, raw []byte) []request.Field {
	_, rest := wire.CutLine(raw)
	for {
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			return dst
		}
		name, value, ok := bytes.Cut(rest[:end], []byte{':'})
		rest = rest[end+1:]
		value = wire.Trim(bytes.TrimSuffix(value, []byte{'\r'}))
		if ok && wire.IsName(name) && wire.IsText(value) {
			dst = append(dst, request.Field{Name: name, Value: value})
		}
	}
}
