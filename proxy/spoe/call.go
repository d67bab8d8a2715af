package spoe

import (
	"bytes"
	"net/netip"
	"slices"

	"antirobot/proxy/h1"
	"antirobot/request"
)

// call is an exchange's client that asks the check about one request after another.
type call struct {
	h1.Memory
	x      *h1.Streamed
	head   h1.Head
	names  []byte // lower-case names
	addr   []byte
	status int
	cookie []byte // copied from the answer
	mark   []byte
	reason []byte
	id     []byte
}

func newCall(front *h1.Server) *call {
	k := new(call)
	k.x = front.Streamed(k)
	return k
}

var (
	get       = []byte("GET")
	checkPath = []byte("/check")
	selfHost  = []byte("spoe")

	nameHost   = []byte("host")
	nameMethod = []byte("x-forwarded-method")
	nameAsked  = []byte("x-forwarded-host")
	nameURI    = []byte("x-forwarded-uri")
	nameFor    = []byte("x-forwarded-for")
	nameProto  = []byte("x-forwarded-proto")

	protoHTTP, protoHTTPS = []byte("http"), []byte("https")
)

// leftOut are fields of the connection or body, and those that describe a request to the check.
var leftOut = []string{
	"connection", "content-length", "expect", "host", "keep-alive", "proxy-connection", "te", "trailer",
	"transfer-encoding", "upgrade",
	"x-forwarded-method", "x-forwarded-host", "x-forwarded-uri", "x-forwarded-for", "x-forwarded-proto",
}

// message is HAProxy's description of a request. Borrowed.
type message struct {
	method, uri, host, headers []byte
	src                        netip.Addr
	tls                        bool
}

// ask returns the check's status. HAProxy's address admits it.
func (k *call) ask(m *message, from netip.Addr) int {
	k.cookie, k.mark, k.reason, k.id = k.cookie[:0], k.mark[:0], k.reason[:0], k.id[:0]
	k.status = 0
	k.addr = k.addr[:0]
	if m.src.IsValid() {
		k.addr = m.src.AppendTo(k.addr)
	}
	proto := protoHTTP
	if m.tls {
		proto = protoHTTPS
	}
	k.head.Method, k.head.Target, k.head.Length = get, checkPath, 0
	k.head.Fields = append(k.head.Fields[:0],
		request.Field{Name: nameHost, Value: selfHost}, request.Field{Name: nameMethod, Value: m.method},
		request.Field{Name: nameAsked, Value: m.host},
		request.Field{Name: nameURI, Value: m.uri}, request.Field{Name: nameFor, Value: k.addr},
		request.Field{Name: nameProto, Value: proto})
	if !k.addHeaders(m.headers) {
		return 400
	}
	if status := k.x.Serve(&k.head, h1.Origin{Peer: from, Trusted: true}); status != 0 {
		return status
	}
	return k.status
}

// addHeaders parses req.hdrs_bin: names and values with their lengths, until two empty ones.
func (k *call) addHeaders(p []byte) bool {
	d := decoder{p: p}
	k.names = slices.Grow(k.names[:0], len(p)) // slices of it must stay valid
	for len(d.p) > 0 {
		name, value := d.text(), d.text()
		if d.bad {
			return false
		}
		if len(name) == 0 && len(value) == 0 {
			return true
		}
		begin := len(k.names)
		for _, c := range name {
			k.names = append(k.names, request.Lower(c))
		}
		name = k.names[begin:len(k.names):len(k.names)]
		if !slices.Contains(leftOut, string(name)) {
			k.head.Fields = append(k.head.Fields, request.Field{Name: name, Value: bytes.Trim(value, " \t")})
		}
	}
	return !d.bad
}

func (k *call) Reply(status int, fields []request.Field, _ []byte) error {
	k.status = status
	for i := range fields {
		f := &fields[i]
		switch {
		case request.EqualFold(f.Name, "Set-Cookie"):
			k.cookie = append(k.cookie[:0], f.Value...)
		case request.EqualFold(f.Name, "X-Antirobot-Mark"):
			if len(k.mark) > 0 {
				k.mark = append(k.mark, ", "...)
			}
			k.mark = append(k.mark, f.Value...)
		case request.EqualFold(f.Name, "X-Antirobot-Reason"):
			k.reason = append(k.reason[:0], f.Value...)
		case request.EqualFold(f.Name, "X-Request-Id"):
			k.id = append(k.id[:0], f.Value...)
		}
	}
	return nil
}
