package identity

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"antirobot/request"
	"antirobot/spravka"
)

// Kind says by what a Subject is identified. The order is the order of preference.
type Kind uint8

// The kinds, strongest first.
const (
	KindNone Kind = iota
	KindSpravka
	KindL
	KindAuth // an Authorization that the service honours
	KindFuid
	KindI
	KindService
	KindIP
)

// String returns the name that precedes the colon of a printed subject.
func (k Kind) String() string {
	switch k {
	case KindSpravka:
		return "spravka"
	case KindL:
		return "L"
	case KindAuth:
		return "auth"
	case KindFuid:
		return "fuid"
	case KindI:
		return "i"
	case KindService:
		return "service"
	case KindIP:
		return "ip"
	default:
		return "none"
	}
}

func parseKind(s string) (Kind, error) {
	for k := KindSpravka; k <= KindIP; k++ {
		if s == k.String() {
			return k, nil
		}
	}
	return KindNone, fmt.Errorf("kind %q: must be one of spravka, L, auth, fuid, i, service, ip", cut(s))
}

// Vouched reports whether the service itself knows the client, be it a person or a program.
func (k Kind) Vouched() bool { return k == KindAuth || k.SignedIn() }

// SignedIn reports whether the service itself identifies the person.
func (k Kind) SignedIn() bool { return k == KindL || k == KindService }

func (k Kind) hashed() bool { return k == KindL || k == KindAuth || k == KindFuid || k == KindService }

func (k Kind) cheap() bool { return k == KindSpravka || k == KindI || k == KindService }

// Subject is the identity that a request is attributed to. It is comparable and can be a map key. ID is 16 bytes: the
// ID of a pass or of an i cookie, the address (IPv4 mapped, IPv6 masked to /64), the first half of SHA-256 over the
// text of an L, fuid or service identity, or a keyed hash of an Authorization.
type Subject struct {
	Kind Kind
	ID   [16]byte
}

// MaxSubjects is one of each kind.
const MaxSubjects = int(KindIP)

const maxPasses = 4

// AddrSubject returns the subject of an address: IPv4 as it is (including mapped ones), IPv6 by its /64. An address
// with a zone, and the zero Addr, have none.
func AddrSubject(a netip.Addr) Subject {
	if !a.IsValid() || a.Zone() != "" {
		return Subject{}
	}
	s := Subject{Kind: KindIP, ID: a.As16()}
	if !a.Unmap().Is4() {
		clear(s.ID[8:])
	}
	return s
}

// TextSubject is the subject identified by a text of a hashed kind (L, fuid, service).
func TextSubject(k Kind, text []byte) Subject {
	sum := sha256.Sum256(text)
	return Subject{Kind: k, ID: [16]byte(sum[:16])}
}

const maxText = 1024

// ParseSubject reads a printed subject:
//
//	ip:203.0.113.7   ip:2001:db8:1:2::/64   ip:2001:db8:1:2::7 (means its /64)
//	i:<32 hex digits>   spravka:<32 hex digits>
//	L:alice   fuid:5f1e2d3c4b5a6978   service:NAME=VALUE   or, by its hash, L:#<32 hex digits>
//	auth:#<32 hex digits> (only by its hash: the gateway never shows a credential)
func ParseSubject(s string) (Subject, error) {
	if s != "" && strings.Trim(s, "0123456789.:") == "" {
		return Subject{}, fmt.Errorf("%q is no address", cut(s))
	}
	name, rest, ok := strings.Cut(s, ":")
	if !ok {
		return Subject{}, fmt.Errorf("subject %q: must be kind:id", cut(s))
	}
	k, err := parseKind(name)
	if err != nil {
		return Subject{}, fmt.Errorf("subject %q: %w", cut(s), err)
	}
	sub := Subject{Kind: k}
	switch {
	case k == KindIP:
		sub, err = parseAddrSubject(rest)
	case !k.hashed():
		sub.ID, err = parseID(rest)
	case len(rest) == 33 && rest[0] == '#':
		sub.ID, err = parseID(rest[1:])
	case k == KindAuth:
		err = errors.New(
			"an Authorization is named by its hash alone: auth:# and 32 hexadecimal digits, as antirobot why prints it",
		)
	case rest == "":
		err = errors.New("the id is empty")
	case len(rest) > maxText:
		err = fmt.Errorf("the id is longer than %d bytes", maxText)
	default:
		sub = TextSubject(k, []byte(rest))
	}
	if err != nil {
		return Subject{}, fmt.Errorf("subject %q: %w", cut(s), err)
	}
	return sub, nil
}

func parseID(s string) (id [16]byte, err error) {
	if len(s) != 32 {
		return id, errors.New("the id must have 32 hexadecimal digits")
	}
	if _, err := hex.Decode(id[:], []byte(s)); err != nil {
		return id, errors.New("the id must have 32 hexadecimal digits")
	}
	return id, nil
}

func parseAddrSubject(s string) (Subject, error) {
	text, bits, slash := strings.Cut(s, "/")
	a, err := netip.ParseAddr(text)
	if err != nil {
		return Subject{}, errors.New("not an IP address")
	}
	if a.Zone() == "" {
		a = request.Unwrap(a)
	}
	if slash && (a.Is4() && bits != "32" || a.Is6() && bits != "64") {
		return Subject{}, errors.New("a subject is one IPv4 address or one IPv6 /64; wider networks belong in lists")
	}
	sub := AddrSubject(a)
	if sub.Kind == KindNone {
		return Subject{}, errors.New("an address with a zone is not a subject")
	}
	return sub, nil
}

// Append appends the form that ParseSubject reads, for a hashed kind the hash: L:#<hex>.
func (s Subject) Append(dst []byte) []byte {
	dst = append(dst, s.Kind.String()...)
	dst = append(dst, ':')
	switch {
	case s.Kind == KindNone:
		return dst
	case s.Kind == KindIP:
		a := netip.AddrFrom16(s.ID).Unmap()
		dst = a.AppendTo(dst)
		if a.Is6() {
			dst = append(dst, "/64"...)
		}
		return dst
	case s.Kind.hashed():
		dst = append(dst, '#')
	}
	return hex.AppendEncode(dst, s.ID[:])
}

// String returns what Append appends.
func (s Subject) String() string { return string(s.Append(nil)) }

// Addr returns the address of a subject of kind ip: the IPv4 address, or the first of its IPv6 /64.
func (s Subject) Addr() (a netip.Addr, ok bool) {
	if s.Kind != KindIP {
		return netip.Addr{}, false
	}
	return netip.AddrFrom16(s.ID).Unmap(), true
}

func cut(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}

// Identity is the result of Resolve. It is reused from request to request, and belongs to one goroutine at a time.
// Nothing in it points into the View.
type Identity struct {
	Addr     netip.Addr           // the client's address after trusted proxies, unmapped
	Net      netip.Prefix         // its /24 or /48
	Proto    string               // "http" or "https", whichever the client used: TLS, or what a trusted proxy says
	Subjects [MaxSubjects]Subject // verified, strongest first; the last of the N is the address
	N        int
	Passes   [maxPasses]spravka.Pass // the verified passes in order; their times are of the clock that gateways share
	NPasses  int
	Away     spravka.Pass // a pass that was brought to a network in which its browser has not proved itself; zero: none
	NFresh   int          // valid passes that were never earned and are too young to be a subject; not among Passes
	IBirth   int64        // unix time of a verified i cookie, young or not, by the requests' clock; 0 if there is none
	Partner  bool         // an XML partner asks on behalf of its user: no field of the request is the user's
	WantI    bool         // a browser lacks an i cookie, or should renew it: call MintI
	Refused  [8]Refusal
	NRefused int

	i    iCookie // of the i cookie, for MintI
	fuid Subject // a fuid that will count when it is old enough; no kind: none
	key  []byte  // scratch: the key of a cache look-up
}

// Winner is the strongest subject.
func (id *Identity) Winner() Subject {
	if id.N == 0 {
		return Subject{}
	}
	return id.Subjects[0]
}

// HasPass reports whether the request has a spravka that is valid here, earned or not: an XML partner's user without
// one receives a fresh one.
func (id *Identity) HasPass() bool { return id.NPasses+id.NFresh > 0 }

// Browser returns the ID of a verified i cookie, old enough or not; false without one.
func (id *Identity) Browser() ([16]byte, bool) { return id.i.id, id.i.born != 0 }

// Young returns the subject that a too young cookie will become: a verified i cookie or else, as on a browser's first
// page, a fuid. Zero if there is none.
func (id *Identity) Young() Subject {
	if id.i.born != 0 && !id.i.crowded && !id.has(KindI) {
		return Subject{Kind: KindI, ID: id.i.id}
	}
	if id.has(KindFuid) {
		return Subject{}
	}
	return id.fuid
}

// NetKey is the hash of the client's /24 or /48 for soft binding.
func (id *Identity) NetKey() uint64 { return NetKey(id.Net) }

// reset clears the last request, but not the scratch memory.
func (id *Identity) reset() {
	id.N, id.NPasses, id.NFresh, id.NRefused = 0, 0, 0, 0
	id.IBirth, id.WantI, id.Partner = 0, false, false
	id.i, id.fuid, id.Away = iCookie{}, Subject{}, spravka.Pass{}
}

func (id *Identity) has(k Kind) bool {
	for i := range id.N {
		if id.Subjects[i].Kind == k {
			return true
		}
	}
	return false
}

func (id *Identity) hasPass(pass [16]byte) bool {
	for i := range id.NPasses {
		if id.Passes[i].ID == pass {
			return true
		}
	}
	return false
}

func (id *Identity) add(s Subject) {
	if id.N < len(id.Subjects) {
		id.Subjects[id.N] = s
		id.N++
	}
}

func (id *Identity) setAddr(a netip.Addr, https bool) {
	if !a.IsValid() {
		a = netip.IPv6Unspecified() // a peer without an address, such as a Unix socket
	}
	id.Addr, id.Net = a, NetOf(a)
	id.Proto = "http"
	if https {
		id.Proto = "https"
	}
}

// Assume inserts a subject before the weaker ones, as if a cookie had proved it, for recorded traffic.
func (id *Identity) Assume(s Subject) {
	at := 0
	for at < id.N && id.Subjects[at].Kind <= s.Kind {
		at++
	}
	if id.N == len(id.Subjects) || at > 0 && id.Subjects[at-1].Kind == s.Kind {
		return
	}
	copy(id.Subjects[at+1:id.N+1], id.Subjects[at:id.N])
	id.Subjects[at] = s
	id.N++
}

func (id *Identity) refuse(k Kind, why RefusalReason) {
	if id.NRefused < len(id.Refused) {
		id.Refused[id.NRefused] = Refusal{Kind: k, Reason: why}
		id.NRefused++
	}
}

// Refusal says why a presented identity was not accepted, for logs and operators.
type Refusal struct {
	Kind   Kind
	Reason RefusalReason
}

// RefusalReason is why an identity was refused.
type RefusalReason uint8

// The reasons.
const (
	RefusedNone RefusalReason = iota
	RefusedSeal               // the seal does not fit the key that it names
	RefusedExpired
	RefusedYoung  // younger than its kind requires, or created in the future
	RefusedDomain // sealed for another domain, service or partner
	RefusedRevoked
	RefusedUnseen // an unsigned fuid that this gateway has not known for a day
	RefusedMalformed
	RefusedUnearned // a fresh pass without allowance, not yet a day old
	RefusedTooMany  // more cookies of one kind in one request than are tried
	RefusedCrowded  // an i cookie that was made above its network's rate, and never counts
	RefusedAway     // a pass in a network in which its browser has not proved itself yet
	RefusedKey      // sealed with a key that is gone, or by another installation
)

var refusals = [...]struct{ name, words string }{
	RefusedNone:      {"none", "it was not refused"},
	RefusedSeal:      {"seal", "its seal does not open"},
	RefusedExpired:   {"expired", "it has expired"},
	RefusedYoung:     {"young", "it is too young"},
	RefusedDomain:    {"domain", "it was made for another domain, service or partner"},
	RefusedRevoked:   {"revoked", "it was revoked"},
	RefusedUnseen:    {"unseen", "it has not been known for a day yet"},
	RefusedMalformed: {"malformed", "it can't be read"},
	RefusedUnearned:  {"unearned", "it was not earned by a captcha and is not a day old"},
	RefusedTooMany:   {"too many", "there are too many cookies of its kind"},
	RefusedCrowded:   {"crowded", "its network made too many of them"},
	RefusedKey:       {"key", "its key is not known"},
	RefusedAway:      {"away", "its browser has not proved itself in this network yet"},
}

func (r RefusalReason) String() string {
	if int(r) < len(refusals) {
		return refusals[r].name
	}
	return refusals[RefusedNone].name
}

// RefusalWords returns the description of a reason; an unknown name is returned as it is.
func RefusalWords(name string) string {
	for _, r := range refusals {
		if r.name == name {
			return r.words
		}
	}
	return name
}
