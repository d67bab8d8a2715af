package h1

import (
	"strconv"

	"antirobot/proxy/h1/wire"
	"antirobot/request"
)

// appendRequest appends the head for the service: the client's fields in order and case, without hop-by-hop and
// replaced ones, and then ours.
func (x *Exchange) appendRequest(dst []byte, o *ForwardOptions, addr string, streamed bool) []byte {
	h := x.h
	dst = append(dst, h.Method...)
	dst = append(dst, ' ')
	dst = append(dst, h.Target...)
	dst = append(dst, " HTTP/1.1\r\n"...)
	if !h.HostGiven {
		dst = wire.AppendField(dst, hostName, hostFor(o, h.Host, addr))
	}
	dst, encoded := x.appendRequestFields(dst, o, addr, streamed)
	for i := range o.SetFields {
		dst = wire.AppendField(dst, o.SetFields[i].Name, o.SetFields[i].Value)
	}
	if h.Chunked && !encoded {
		dst = append(dst, "Transfer-Encoding: chunked\r\n"...)
	}
	if h.SaysEmpty {
		dst = append(dst, "Content-Length: 0\r\n"...)
	}
	switch {
	case h.WebSocket():
		dst = append(dst, "Connection: Upgrade\r\nUpgrade: "...)
		dst = append(dst, h.UpgradeTo...)
		dst = append(dst, "\r\n"...)
	case h.TETrailers:
		dst = append(dst, "Connection: TE\r\nTE: trailers\r\n"...)
	}
	return append(dst, "\r\n"...)
}

// appendRequestFields reports in encoded whether Transfer-Encoding was among the fields: HTTP/2 has none.
func (x *Exchange) appendRequestFields(dst []byte, o *ForwardOptions, addr string, streamed bool) (_ []byte,
	encoded bool,
) {
	h := x.h
	for i := range h.Fields {
		f := &h.Fields[i]
		k := h.Kinds[i]
		switch k {
		case wire.Plain, wire.Forwarded, wire.Date:
		case wire.Host:
			dst = wire.AppendField(dst, f.Name, hostFor(o, h.Host, addr))
			continue
		case wire.Length:
			dst = appendNumber(dst, f.Name, h.Length)
			continue
		case wire.Encoding:
			dst, encoded = wire.AppendField(dst, f.Name, chunkedValue), true
			continue
		case wire.Trailer:
			if !h.Chunked {
				continue
			}
		case wire.Expect:
			if !h.Expect || x.continued || !streamed {
				continue
			}
		case wire.MaxForwards:
			if countsForwards(h) {
				dst = appendNumber(dst, f.Name, int64(h.MaxForwards-1))
				continue
			}
		case wire.Cookie:
			if len(o.DropCookies) > 0 && !h.Nominated(f.Name, k) && !replaced(o, f.Name) && !dropped(o, f.Name) {
				dst = appendCookies(dst, f, o.DropCookies)
				continue
			}
		default:
			continue
		}
		if h.Nominated(f.Name, k) || replaced(o, f.Name) || dropped(o, f.Name) {
			continue
		}
		dst = wire.AppendField(dst, f.Name, f.Value)
	}
	return dst, encoded
}

func appendNumber(dst, name []byte, n int64) []byte {
	dst = append(dst, name...)
	dst = append(dst, ": "...)
	dst = strconv.AppendInt(dst, n, 10)
	return append(dst, "\r\n"...)
}

var (
	hostName     = []byte("Host")
	chunkedValue = []byte("chunked")
)

func hostFor(o *ForwardOptions, given []byte, addr string) []byte {
	switch {
	case o.Host != nil:
		return o.Host
	case given != nil:
		return given
	}
	if host := []byte(addr); wire.IsAuthority(host) {
		return host
	}
	return []byte("localhost") // a unix socket
}

// countsForwards implements RFC 9110 section 7.6.2.
func countsForwards(h *wire.Head) bool {
	return h.MaxForwards > 0 && (string(h.Method) == "OPTIONS" || string(h.Method) == "TRACE")
}

// replaced reports whether SetFields has a field, as a CGI program reads its name.
func replaced(o *ForwardOptions, name []byte) bool {
	for i := range o.SetFields {
		if request.EqualCGI(name, o.SetFields[i].Name) {
			return true
		}
	}
	return false
}

func dropped(o *ForwardOptions, name []byte) bool { return o.Drop != nil && o.Drop(name) }

func appendCookies(dst []byte, f *request.Field, names []string) []byte {
	begin := len(dst)
	dst = append(dst, f.Name...)
	dst = append(dst, ": "...)
	empty := len(dst)
	if dst = request.AppendCookiesWithout(dst, f.Value, names); len(dst) == empty {
		return dst[:begin]
	}
	return append(dst, "\r\n"...)
}

func (x *Exchange) appendReplay(dst []byte, o *ForwardOptions, addr string) []byte {
	r := o.Replay
	dst = append(dst, r.Method...)
	dst = append(dst, ' ')
	dst = append(dst, r.Target...)
	dst = append(dst, " HTTP/1.1\r\n"...)
	dst = wire.AppendField(dst, hostName, hostFor(o, x.h.Host, addr))
	for i := range r.Fields {
		f := &r.Fields[i]
		switch wire.KindOf(f.Name) {
		case wire.Plain, wire.Forwarded, wire.Date, wire.Cookie:
			if !replaced(o, f.Name) && !dropped(o, f.Name) {
				dst = wire.AppendField(dst, f.Name, f.Value)
			}
		}
	}
	for i := range o.SetFields {
		dst = wire.AppendField(dst, o.SetFields[i].Name, o.SetFields[i].Value)
	}
	if r.Body != nil {
		dst = append(dst, "Content-Length: "...)
		dst = strconv.AppendInt(dst, int64(len(r.Body)), 10)
		dst = append(dst, "\r\n"...)
	}
	return append(dst, "\r\n"...)
}

type framing uint8

const (
	bare framing = iota
	byLength
	byChunks
	byClosing // HTTP/1.0
)

func (x *Exchange) appendAnswer(dst []byte, h *wire.Head, o *ForwardOptions, fr framing) []byte {
	dst = wire.AppendStatusLine(dst, h.Status, h.Reason)
	framed := false
	for i := range h.Fields {
		f := &h.Fields[i]
		k := h.Kinds[i]
		switch k {
		case wire.Connection, wire.Hop, wire.TE:
			continue
		case wire.Upgrade:
			if h.Status != 101 && h.Status != 426 {
				continue
			}
		case wire.Trailer:
			if fr != byChunks {
				continue
			}
		case wire.Encoding:
			if fr == byChunks {
				dst, framed = wire.AppendField(dst, f.Name, chunkedValue), true
			}
			continue
		case wire.Length:
			if !framed && (fr == byLength || fr == bare && h.Status >= 200 && h.Status != 204) {
				dst = append(dst, f.Name...)
				dst = append(dst, ": "...)
				dst = strconv.AppendInt(dst, h.Length, 10)
				dst = append(dst, "\r\n"...)
				framed = true
			}
			continue
		}
		if h.Nominated(f.Name, k) || x.withheld(o, f.Name) {
			continue
		}
		dst = wire.AppendField(dst, f.Name, f.Value)
	}
	if h.Status >= 200 {
		for i := range o.AddAnswer {
			dst = wire.AppendField(dst, o.AddAnswer[i].Name, o.AddAnswer[i].Value)
		}
		private, said := o.private(h)
		for i := range private {
			dst = wire.AppendField(dst, private[i].Name, private[i].Value)
		}
		for i := range said {
			dst = wire.AppendField(dst, said[i].Name, said[i].Value)
		}
		if x.altSvc != nil {
			dst = wire.AppendField(dst, altSvcName, x.altSvc)
		}
	}
	if fr == byChunks && !framed {
		dst = append(dst, "Transfer-Encoding: chunked\r\n"...)
	}
	return dst
}
