// Package verdict decides, for every request and from memory alone, whether a human or a robot asks.
//
// The order of decisions; the first match wins (TestDecisionOrder walks it):
//  1. the operator's own block entry, or a blocking rule: Blocked
//  2. an allow list, a verified crawler: Human; never judged, banned or challenged
//  3. a block entry of a fetched list, or a rule that throttles or quarantines: Blocked
//  4. a ban entry of a list, a ban, a rule or the inline judge says robot, or the quota of the client or of a scope around it
//     is exceeded, or the visitor is unsure, arrives like robots of a cohort, or the service is under attack: a solved pass
//     with allowance left pays for one request and the answer is Human; otherwise Robot, or Unsure if nothing is said about
//     the visitor itself (unless the service's conditions, verdict.when, do not hold)
//  5. Human
//
// A request that demands the captcha comes between 3 and 4, and takes precedence over the allow list. The first two
// requests of a new visitor pass because nothing is known of it; in a wave of new visitors the first does (see quota).
//
// Invariants:
//  1. Nothing here waits for the store or takes a lock that all requests share. What a request changes is in memory at
//     once and in the store a moment later; what the operator changes is in memory at once even if the store fails.
//  2. Every table has a bound, and says in a metric when it was reached.
//  3. Without list entry, ban, rule or inline judge the answer is Human: the first two requests of a new subject pass.
//  4. Mode observe changes nothing for a visitor: no allowance is spent by it.
//  5. A verdict is given when a request comes and never taken back: a ban made later cuts no stream.
package verdict

import (
	"bytes"
	"slices"
	"time"

	"antirobot/identity"
	"antirobot/request"
	"antirobot/verdict/client"
	"antirobot/verdict/label"
)

// Verdict is the judgement of a request.
type Verdict uint8

// The verdicts, the mildest first.
const (
	Human  Verdict = iota
	Unsure         // the visitor may be a robot, and is asked in the way that Decision.Step says
	Robot
	Blocked
)

func (v Verdict) String() string {
	switch v {
	case Human:
		return "human"
	case Unsure:
		return "unsure"
	case Robot:
		return "robot"
	default:
		return "blocked"
	}
}

// Cause is the deciding step.
type Cause uint8

// The causes, in the order of the decision except for the last ones.
const (
	CauseNone      Cause = iota // nothing decided: human
	CauseOwnBlock               // the operator's own block entry
	CauseWhite                  // a white list, or a verified crawler
	CauseBlockList              // a block entry of a fetched list
	CauseRule                   // a rule
	CauseBanList                // a ban entry of a list
	CauseBan                    // a live ban
	CauseJudge                  // the inline judge
	CauseDemand                 // the client asked for the captcha (test query of the XML interface)
	CauseOff                    // the service's mode is off: nothing was looked up
	CauseMessage                // the rules of a message route, when all else said human
	CauseQuota                  // more was read than the quota allows: see Excess
	CauseDoubt                  // it may be a robot, and the service asks those: see Doubt
	CauseAttack                 // the gateway is under attack, and the site does not know the visitor: see AttackConfig
	CauseCampaign               // it arrives as nearly only robots do at present: see Campaign
	CauseLimit                  // a program that asks more often than programs may
)

// Causes is how many causes there are.
const Causes = len(causeNames)

var causeNames = [...]string{
	"none", "own-block", "white", "block-list", "rule", "ban-list", "ban", "judge", "demand", "off", "message", "quota", "doubt", "attack",
	"campaign", "limit",
}

// String returns the name that logs, metrics and the header X-Antirobot-Reason use.
func (c Cause) String() string {
	if int(c) < len(causeNames) {
		return causeNames[c]
	}
	return "unknown"
}

// causeWords say in words, for each cause, what decided; they are in the order of the causes.
var causeWords = [...]string{
	"nothing spoke against it", "the operator's own block entry", "a white list, or a verified crawler", "a block list", "a rule of the service",
	"a ban list", "a live ban", "the judge, before the answer", "the client asked for the captcha itself", "the service's mode is off",
	"the rules of a message route", "more was read than the quota allows",
	"it may be a robot, but that is not certain", "the gateway is under attack, and asks whom the site does not know",
	"it is new, and arrives as many robots from other addresses do", "a program asks more often than programs may",
}

// CauseWords returns the cause of a Story in words; a name that only a later version knows is returned as it is.
func CauseWords(name string) string {
	if i := slices.Index(causeNames[:], name); i >= 0 {
		return causeWords[i]
	}
	return name
}

// Mode is what a service does with a verdict.
type Mode uint8

// The modes.
const (
	Enforce Mode = iota
	Observe      // decides, logs and counts, but lets everything through
	Off
)

func (m Mode) String() string {
	switch m {
	case Enforce:
		return "enforce"
	case Observe:
		return "observe"
	default:
		return "off"
	}
}

// Event is what the slow half learns about one request: a plain value, no pointers into the connection.
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
