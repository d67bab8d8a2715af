package identity

import (
	"net/netip"

	"antirobot/spravka"
)

// Kind says what a Subject is known by. The order is the order of preference.
type Kind uint8

// The kinds of FORMATS, strongest first.
const (
	KindNone Kind = iota
	KindSpravka
	KindL
	KindFuid
	KindI
	KindService
	KindIP
)

// Subject is who asks: a kind and an ID. It is comparable and serves as a map key. ID is 16 bytes: the ID of a pass or
// of an i cookie, the address (IPv4 mapped, IPv6 masked to /64), or the first half of SHA-256 over the text of an L,
// fuid or service identity.
type Subject struct {
	Kind Kind
	ID   [16]byte
}

// maxPasses is how many spravka cookies of one request are tried.
const maxPasses = 4

// Identity is what Resolve found out about one request. It is reused from request to request; nothing in it points
// into the View except Text.
type Identity struct {
	Addr     netip.Addr   // the client's address after trusted proxies, unmapped
	Net      netip.Prefix // its /24 or /48
	Proto    string       // "http" or "https" as the client used it: TLS, or what a trusted proxy says
	Subjects [6]Subject   // verified, strongest first; the last of the N is the address
	Texts    [6][]byte    // the printed ID of each where it is not derivable (L, fuid, service); borrowed from the View
	N        int
	Passes   [maxPasses]spravka.Pass // the verified passes, in the order of the cookies
	NPasses  int
	IBirth   int64 // unix time of a verified i cookie's birth, 0 if there is none; young ones too
	WantI    bool  // the request came from a browser without an i cookie of ours: mint one
	Refused  [8]Refusal
	NRefused int
}

// Winner is the subject that the request is charged to.
func (id *Identity) Winner() Subject {
	if id.N == 0 {
		return Subject{}
	}
	return id.Subjects[0]
}

// Refusal says why a presented identity was not accepted; for logs and answers to "why".
type Refusal struct {
	Kind   Kind
	Reason RefusalReason
}

// RefusalReason is why an identity was refused.
type RefusalReason uint8

// Why an identity is refused.
const (
	RefusedNone RefusalReason = iota
	RefusedSeal               // the seal does not open, or no key fits
	RefusedExpired
	RefusedYoung  // younger than its kind requires
	RefusedDomain // sealed for another domain or service
	RefusedRevoked
	RefusedUnseen // an unsigned fuid that this gateway has not known for a day
	RefusedMalformed
	RefusedUnearned // a fresh pass without allowance, not yet a day old
	RefusedTooMany  // more than four passes in one request
)
