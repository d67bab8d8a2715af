package h1

import (
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"antirobot/proxy/h1/wire"
	"antirobot/request"
)

func (c *conn) Reply(status int, fields []request.Field, body []byte) error {
	out := appendStatusText(c.out.buf, status)
	date := false
	for i := range fields {
		f := &fields[i]
		switch wire.KindOf(f.Name) {
		case wire.Connection, wire.Length, wire.Encoding, wire.Trailer, wire.Hop:
			continue
		case wire.Date:
			date = true
		}
		out = wire.AppendField(out, f.Name, f.Value)
	}
	if !date {
		out = append(out, "Date: "...)
		out = fasthttp.AppendHTTPDate(out, c.x.View.At)
		out = append(out, "\r\n"...)
	}
	if status != 204 && status != 304 {
		out = append(out, "Content-Length: "...)
		out = strconv.AppendInt(out, int64(len(body)), 10)
		out = append(out, "\r\n"...)
	}
	c.out.buf = append(persistence(c, out), "\r\n"...)
	if status == 204 || status == 304 || string(c.h.Method) == "HEAD" {
		body = nil
	}
	if err := c.out.write(body); err != nil {
		return err
	}
	return c.out.flush()
}

func appendStatusText(dst []byte, status int) []byte {
	dst = wire.AppendStatusLine(dst, status, nil)
	dst = dst[:len(dst)-2]
	dst = append(dst, fasthttp.StatusMessage(status)...)
	return append(dst, "\r\n"...)
}

func persistence(c *conn, dst []byte) []byte {
	if c.srv.draining.Load() {
		c.keep = false
	}
	switch {
	case !c.keep:
		dst = append(dst, "Connection: close\r\n"...)
	case c.h.Minor == 0:
		dst = append(dst, "Connection: keep-alive\r\n"...)
	}
	return dst
}

func appendPlainAnswer(dst []byte, status int, headOnly bool) []byte {
	text := fasthttp.StatusMessage(status)
	dst = wire.AppendStatusLine(dst, status, []byte(text))
	dst = append(dst, "Date: "...)
	dst = fasthttp.AppendHTTPDate(dst, time.Now())
	dst = append(dst, "\r\nContent-Type: text/plain\r\nCache-Control: no-store\r\n"...)
	if status == 405 {
		dst = append(dst, "Allow: "+allowed+"\r\n"...)
	}
	dst = append(dst, "Content-Length: "...)
	dst = strconv.AppendInt(dst, int64(len(text)+1), 10)
	dst = append(dst, "\r\nConnection: close\r\n\r\n"...)
	if headOnly {
		return dst
	}
	dst = append(dst, text...)
	return append(dst, '\n')
}
