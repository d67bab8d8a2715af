package verdict

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"time"

	"antirobot/identity"
	"antirobot/request"
	"antirobot/verdict/client"
	"antirobot/verdict/label"
)

// Event is what the processor learns about one request: a plain value, no pointers into the connection.
type Event struct {
	At        time.Time
	Service   uint16 // Service.Index: which settings the request was judged by
	Verdict   Verdict
	Cause     Cause
	Mode      Mode                                   // of the service at the time of the decision
	Paid      bool                                   // a pass paid for the request (in mode observe: would have paid)
	Own       bool                                   // the ban that decided was on the request's own identity, not on its address
	Crawler   bool                                   // a verified crawler: white, and not judged
	Static    bool                                   // a sub-resource by path or Sec-Fetch-Dest: does not count as pace
	Document  bool                                   // the answer was text/html, XML or JSON: counts as pace whatever the request claimed to be
	Subjects  [identity.MaxSubjects]identity.Subject // all verified identities, the winner first, the address last
	N         uint8
	Young     identity.Subject // what a cookie that is too young to be among them will be; no kind: none
	Advised   bool             // a balancer forwards the request itself: Status, BytesOut, Took and Document are unknown
	Status    uint16           // of the answer; 0: unknown, or the client left first
	Type      Type             // of the answer
	BytesOut  uint64
	Took      time.Duration // from head to the last byte; 0: unknown
	Method    uint8         // first letter of the method: G is GET and H is HEAD; 0: another that begins so, or none
	Path      uint64        // hash of the raw path
	PathShape uint64        // hash of its shape; see Paths
	Agent     uint64        // hash of User-Agent; 0 if absent
	Client    uint32        // which client of its address it is, by User-Agent and browser cookie, both of which are free; 0: unknown
	Asked     request.Kind  // what the request says it asks for
	Kind      EventKind
	Mark      label.Mark       // what the service says of the visitor, in its answer
	Evidence  request.Evidence // EventEvidence
	Work      bool             // EventSolved, EventFailed: by work of the browser, which says nothing about whether a person is there
	Again     bool             // it was judged before, by a processor that has ended: it is counted in memory alone
	Past      bool             // and by one whose bans and standings are in the store: it changes none of these
	Turn      [2]uint16        // what the request has taken of who is being judged; it ends when the event is
	client.Facts
}

// Arrival returns the fingerprint with which a new visitor arrives, as a hash: User-Agent, header fields and their order,
// languages, handshake, what kind of page it opens, and whether it names a Referer and sends cookies of the service. False
// if the event is no arrival.
func (e *Event) Arrival(group uint32) (mark uint64, ok bool) {
	if !e.Nameless() || e.Kind != EventRequest {
		return 0, false
	}
	return arrivalOf(&e.Facts, e.Method, e.Agent, e.PathShape, group)
}

func arrivalOf(f *client.Facts, method uint8, agent, shape uint64, group uint32) (mark uint64, ok bool) {
	if !f.Page || f.Partial || f.Partner || method != 'G' || !f.Claim.Family.Browser() || f.Referer == client.RefererSame ||
		f.Site == client.SiteSame || f.Cookies&client.CookieOurs != 0 {
		return 0, false
	}
	mark = mix(mix(shape, uint64(group)), uint64(f.Referer)<<8|uint64(f.Cookies&client.CookieAny))
	mark = mix(mix(mix(mix(mark, 1<<32|uint64(f.Language)), f.Shape), f.JA4), f.Frames)
	return mix(mark, agent), true
}

// FromOutside reports whether a person may have opened a page with this event, coming from elsewhere.
func (e *Event) FromOutside() bool {
	return e.Method == 'G' && e.Referer != client.RefererSame && e.Site != client.SiteSame
}

// FromSite reports whether a page of the site has led to an event. Where the site or the browser withholds Referers,
// Sec-Fetch-Site says so.
func (e *Event) FromSite() bool {
	return e.Referer == client.RefererSame || e.Referer == client.RefererNone && e.Site == client.SiteSame
}

// Nameless reports whether a visitor brings no identity, except perhaps a pass.
func (e *Event) Nameless() bool { return nameless(&e.Subjects, int(e.N)) }

func nameless(list *[identity.MaxSubjects]identity.Subject, n int) bool {
	return n == 1 && list[0].Kind == identity.KindIP ||
		n == 2 && list[0].Kind == identity.KindSpravka && list[1].Kind == identity.KindIP
}

// clientOf names a client by its browser cookie and User-Agent, at any address; without a cookie by its address,
// User-Agent, languages and TLS handshake. Names are free to take: nothing may depend on their number.
func clientOf(id *identity.Identity, v *request.View) uint32 {
	if id.N == 0 || id.Partner {
		return 0
	}
	h := mix(0, request.Hash(v.Get("User-Agent")))
	name, ok := id.Browser()
	if !ok || id.IBirth == 0 {
		name = id.Subjects[id.N-1].ID
		h = mix(mix(h, request.Hash(v.Get("Accept-Language"))), request.Hash(v.JA4))
	}
	h = mix(mix(h, binary.BigEndian.Uint64(name[:8])), binary.BigEndian.Uint64(name[8:]))
	return max(1, uint32(h>>32)) //nolint:gosec // half of a hash
}

func mix(h, more uint64) uint64 {
	h = (h ^ more) * 0x9e3779b97f4a7c15
	return h ^ h>>29
}

// Stopped reports whether the visitor got something else than what it asked for.
func (e *Event) Stopped() bool { return e.Verdict != Human && e.Mode == Enforce }

// Writes reports whether the request asks the service to change something: it reads no page, whatever is answered.
func (e *Event) Writes() bool { return writes(e.Method) }

// Writes is Event.Writes for a method.
func Writes(method []byte) bool { return writes(methodOf(method)) }

func writes(method uint8) bool {
	switch method {
	case 'G', 'H', 'O', 0:
		return false
	}
	return true
}

// Contradicts reports whether what the request says of its client does not fit together, or is known to be false.
func (e *Event) Contradicts() bool { return e.Misfits != 0 || e.Liar || e.Forged > 0 }

// Answered sets what is known of the answer: its status, Content-Type, bytes, and how long it took.
func (e *Event) Answered(status int, contentType []byte, bytesOut int64, took time.Duration) {
	e.Status = uint16(status) //nolint:gosec // an HTTP status
	e.Type = typeOf(contentType)
	e.Document = e.Type == TypeHTML || e.Type.Data()
	e.BytesOut = uint64(max(bytesOut, 0))
	e.Took = took
}

// Type is what kind of content an answer is.
type Type uint8

// The types.
const (
	TypeUnknown Type = iota // no Content-Type
	TypeHTML
	TypeData // JSON or XML
	TypePart // of a page: picture, style, font, sound
	TypeOther
	TypeScript // a part of a page, or data in a script's clothes (JSONP)
	TypeRanges // several ranges of something
	TypeFeed   // data, and a feed
)

// Data reports whether it is what programs read.
func (t Type) Data() bool { return t == TypeData || t == TypeFeed }

// IsPart reports whether an answer of this Content-Type is a part of a page.
func IsPart(contentType []byte) bool {
	t := typeOf(contentType)
	return t == TypePart || t == TypeScript
}

// IsHTML reports whether an answer of this Content-Type is a page.
func IsHTML(contentType []byte) bool { return typeOf(contentType) == TypeHTML }

// IsData reports whether an answer of this Content-Type is what programs read.
func IsData(contentType []byte) bool { return typeOf(contentType).Data() }

// typeOf reads a Content-Type.
func typeOf(b []byte) Type {
	if len(b) == 0 {
		return TypeUnknown
	}
	for i := range knownTypes {
		k := &knownTypes[i]
		if b[0]|0x20 == k.prefix[0] && request.HasPrefixFold(b, k.prefix) {
			return k.is
		}
	}
	if bytes.IndexByte(b, '+') >= 0 && (suffixed(b, "+json") || suffixed(b, "+xml")) {
		return TypeData
	}
	return TypeOther
}

// knownTypes are the types of content that are recognised by how they begin, the frequent ones first.
var knownTypes = [...]struct {
	prefix string
	is     Type
}{
	{"text/html", TypeHTML},
	{"application/json", TypeData},
	{"image/", TypePart},
	{"text/css", TypePart},
	{"text/javascript", TypeScript},
	{"application/javascript", TypeScript},
	{"application/xhtml+xml", TypeHTML},
	{"application/rss+xml", TypeFeed},
	{"application/atom+xml", TypeFeed},
	{"application/feed+json", TypeFeed},
	{"application/xml", TypeData},
	{"text/xml", TypeData},
	{"application/x-javascript", TypeScript},
	{"font/", TypePart},
	{"audio/", TypePart},
	{"video/", TypePart},
	{"application/font", TypePart},
	{"application/wasm", TypePart},
	{"application/manifest", TypePart},
	{"application/vnd.apple.mpegurl", TypePart}, // lists of the pieces of a film, which players read again and again
	{"application/x-mpegurl", TypePart},
	{"application/dash+xml", TypePart},
	{"text/vtt", TypePart},
	{"multipart/byteranges", TypeRanges},
}

// suffixed reports whether a type, without its parameters, ends so.
func suffixed(b []byte, suffix string) bool {
	if i := bytes.IndexByte(b, ';'); i >= 0 {
		b = b[:i]
	}
	return request.HasSuffixFold(bytes.TrimRight(b, " \t"), suffix)
}

// EventKind distinguishes requests from what happened at the captcha.
type EventKind uint8

// The kinds of events.
const (
	EventRequest EventKind = iota
	EventShown             // a challenge was shown
	EventSolved
	EventFailed
	EventEvidence // a page has told of its browser
)

// Sink takes events off the request's path. Offer never blocks and never allocates; false means that the event was
// dropped (and counted by the sink). The Event is copied.
type Sink interface {
	Offer(e *Event) bool
}

// Trace is the ID of the trace that a request is part of; the zero value: it is not traced.
type Trace [16]byte

// String returns the ID as traces are named, in hexadecimal digits; nothing of the zero value.
func (t Trace) String() string {
	if t == (Trace{}) {
		return ""
	}
	return hex.EncodeToString(t[:])
}

// ParseTrace reads what String returns; false if it is no ID.
func ParseTrace(s string) (t Trace, ok bool) {
	n, err := hex.Decode(t[:], []byte(s[:min(len(s), 2*len(t))]))
	return t, err == nil && n == len(t) && len(s) == 2*n && t != (Trace{})
}
