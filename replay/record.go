package replay

import (
	"bytes"
	"net/netip"
	"time"

	"antirobot/request"
)

// Record is one recorded request. Its bytes belong to the Record and are valid until it is parsed into again. The zero
// value is ready for a parser.
type Record struct {
	At     time.Time
	Addr   netip.Addr
	User   []byte // the signed-in user, according to the log; empty: none, or unknown
	Who    []byte // the visitor, as found by Options.Identity; empty: only the address is known
	Method []byte
	Target []byte // path and query, raw
	Host   []byte // as sent; empty: unknown
	Fields []request.Field
	JA4    []byte        // fingerprint of the TLS handshake; empty: unknown
	Frames []byte        // and of the first HTTP/2 frames
	Behind time.Duration // see request.View; 0: not known
	TLS    bool
	HTTP10 bool
	Answer Response
	Line   int          // within its input, from 1
	Input  uint16       // index of the input
	asks   request.Kind // the purpose, if a gateway wrote the line
	said   bool         // asks is known
	Signed bool         // Options.Signed finds a name
	from   *Identity
	signs  *Identity // Options.Signed
	apart  bool      // Addr is made up for this visitor, because the log has no address, or one for all
	unread bool      // HAProxy captured headers whose names are unknown
	named  bool      // the log has a name instead of an address, and Addr is a stand-in for it

	buf []byte // the line; most of the above points into it
}

// Response is the answer to a request, as far as it is known.
type Response struct {
	Status      uint16 // 0: unknown
	Bytes       uint64
	Took        time.Duration // 0: unknown
	ContentType []byte        // empty: unknown
	Advised     bool          // a balancer forwards the request itself: nothing is known of the answer
	Follows     bool          // the client goes where the gateway sends it: Served.Sent says where
}

// reset clears everything but the memory, and takes a copy of the line.
func (r *Record) reset(line []byte) []byte {
	fields, buf := r.Fields[:0], append(r.buf[:0], line...)
	*r = Record{Fields: fields, buf: buf, Who: r.Who[:0], from: r.from, signs: r.signs, Line: r.Line, Input: r.Input}
	return buf
}

// field adds a header field unless it is empty, secret, or already present.
func (r *Record) field(name, value []byte) {
	if len(value) == 0 || len(name) == 0 || secret(name) || len(r.Fields) >= maxFields {
		return
	}
	for i := range r.Fields {
		if request.EqualFold(r.Fields[i].Name, name) {
			return
		}
	}
	r.Fields = append(r.Fields, request.Field{Name: name, Value: value})
}

// maxFields bounds the header fields of a record.
const maxFields = 64

// secret reports whether a field proves an identity. Such fields are not read.
func secret(name []byte) bool {
	for _, s := range [...]string{"cookie", "authorization", "proxy-authorization", "set-cookie"} {
		if request.EqualFold(name, s) {
			return true
		}
	}
	return false
}

// Header names that records use.
var (
	nameHost    = []byte("Host")
	nameAgent   = []byte("User-Agent")
	nameReferer = []byte("Referer")
	nameCookie  = []byte("Cookie")
)

// Agent returns the User-Agent, nil if there is none.
func (r *Record) Agent() []byte { return r.get(nameAgent) }

// get returns the value of a header field, nil if there is none.
func (r *Record) get(name []byte) []byte {
	for i := range r.Fields {
		if request.EqualFold(r.Fields[i].Name, name) {
			return r.Fields[i].Value
		}
	}
	return nil
}

// view fills v from the record, and borrows from it. host is for records that name none.
func (r *Record) view(v *request.View, host []byte) {
	fields := v.Fields[:0]
	*v = request.View{
		At: r.At, Method: r.Method, HostPort: r.Host, Peer: r.Addr, TLS: r.TLS, HTTP10: r.HTTP10,
		JA4: r.JA4, Frames: r.Frames, Behind: r.Behind, Partial: true,
	}
	if len(v.HostPort) == 0 {
		v.HostPort = host
	}
	v.Host = request.HostName(v.HostPort)
	v.Target = originForm(r.Target)
	v.Path, v.Query = v.Target, nil
	if q := bytes.IndexByte(v.Target, '?'); q >= 0 {
		v.Path, v.Query = v.Target[:q], v.Target[q+1:]
	}
	v.Fields = append(fields, request.Field{Name: nameHost, Value: v.HostPort})
	v.Fields = append(v.Fields, r.Fields...)
}

var rootPath = []byte("/")

// originForm strips scheme and host of an absolute target.
func originForm(t []byte) []byte {
	if len(t) > 0 && t[0] == '/' {
		return t
	}
	if i := bytes.Index(t, []byte("://")); i > 0 {
		rest := t[i+3:]
		if s := bytes.IndexByte(rest, '/'); s >= 0 {
			return rest[s:]
		}
		return rootPath
	}
	if len(t) == 0 {
		return rootPath
	}
	return t
}
