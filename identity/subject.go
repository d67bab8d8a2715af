package identity

import (
	"net/netip"

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

// MaxSubjects is how many identities a request can have: one of each kind.
const MaxSubjects = int(KindIP)

// Subject is whom a request is attributed to: a kind and an ID. It is comparable and can be a map key. ID is 16 bytes:
// the ID of a pass or of an i cookie, the address (IPv4 mapped, IPv6 masked to /64), the first half of SHA-256 over
// the text of an L, fuid or service identity, or a hash with a key over an Authorization.
type Subject struct {
	Kind Kind
	ID   [16]byte
}

// maxPasses is how many valid passes of one request count.
const maxPasses = 4

// Identity is what Resolve found out about one request. It is reused from request to request, and belongs to one
// goroutine at a time. Nothing in it points into the View.
type Identity struct {
	Addr     netip.Addr           // the client's address after trusted proxies, unmapped
	Net      netip.Prefix         // its /24 or /48
	Proto    string               // "http" or "https", whichever the client used: TLS, or what a trusted proxy says
	Subjects [MaxSubjects]Subject // verified, strongest first; the last of the N is the address
	N        int
	Passes   [maxPasses]spravka.Pass // the verified passes, in the order of the cookies; their times are of the clock that gateways share
	NPasses  int
	Away     spravka.Pass // a pass that was brought to a network in which its browser has not proved itself; zero: none
	NFresh   int          // valid passes that were never earned and are too young to be a subject; not among Passes
	IBirth   int64        // unix time when a verified i cookie was created, by the requests' clock; 0 if there is none; young ones too
	Partner  bool         // an XML partner asks on behalf of its user: no field of the request is the user's
	WantI    bool         // the request came from a browser without an i cookie of ours, or with one to renew: call MintI
	Refused  [8]Refusal
	NRefused int

	i    iCookie // what is known of the i cookie, for MintI
	fuid Subject // a fuid that will count when it is old enough; no kind: none
	key  []byte  // scratch: the key of a cache look-up
}

// Winner is the subject that the request is charged to.
func (id *Identity) Winner() Subject {
	if id.N == 0 {
		return Subject{}
	}
	return id.Subjects[0]
}

// HasPass reports whether the request presented a spravka that is valid here, earned or not: an XML partner's user
// without one receives a fresh one.
func (id *Identity) HasPass() bool { return id.NPasses+id.NFresh > 0 }

// Browser returns the ID of a verified i cookie, whether or not it will ever count as a subject; false without one.
func (id *Identity) Browser() ([16]byte, bool) { return id.i.id, id.i.born != 0 }

// Young returns the subject that a cookie which is too young to be one will become: a verified i cookie or else, as on a
// browser's first page, a fuid. No kind if there is none, or if it never will be one.
func (id *Identity) Young() Subject {
	if id.i.born != 0 && !id.i.crowded && !id.has(KindI) {
		return Subject{Kind: KindI, ID: id.i.id}
	}
	if id.has(KindFuid) {
		return Subject{}
	}
	return id.fuid
}

// NetKey is the hash of the client's /24 or /48 for soft binding; see NetKey.
func (id *Identity) NetKey() uint64 { return NetKey(id.Net) }

// reset clears the last request, but not the scratch memory. Arrays are bounded by their counters and stay as they are,
// except for what would keep a connection's buffer alive.
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

func (id *Identity) add(s Subject) {
	if id.N < len(id.Subjects) {
		id.Subjects[id.N] = s
		id.N++
	}
}

// Assume inserts a subject before the weaker ones, as if a cookie had proved it. It is for recorded traffic.
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

// Refusal says why a presented identity was not accepted; for logs and for operators who ask why.
type Refusal struct {
	Kind   Kind
	Reason RefusalReason
}

// RefusalReason is why an identity was refused.
type RefusalReason uint8

// Why an identity is refused.
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

// refusals has the name of each reason, for logs and the API, and its description in words.
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

// RefusalWords returns the reason of a refusal in words; a name that only a later version knows is returned as it is.
func RefusalWords(name string) string {
	for _, r := range refusals {
		if r.name == name {
			return r.words
		}
	}
	return name
}
