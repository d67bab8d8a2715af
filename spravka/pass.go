package spravka

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"antirobot/request"
)

// Pass is the content of a spravka: its own subject with a guaranteed allowance. It is a plain value.
type Pass struct {
	ID        [16]byte
	Born      int64  // unix seconds
	Expires   int64  // unix seconds
	Allowance uint32 // requests that it pays for in total; the ledger counts what was spent
	Earned    bool   // false: handed out fresh to an XML partner's user; no allowance, no subject until a day old
	Scope     uint64 // hash of the cookie domain, or host, that it is valid for; see ScopeOf
	Partner   uint64 // hash of the XML partner that it was made for, 0: none; see PartnerOf
	Net       uint64 // hash of the /24 or /48 that solved
	Agent     uint64 // hash of the user-agent family that solved
	Step      uint8  // what was passed, and what was asked for, as captcha/steps numbers them; 0: not known …
	Asked     uint8  // … 1 to 7
}

const (
	passVersion = 1
	passSize    = 1 + 1 + 16 + 8 + 4 + 4*8
	flagEarned  = 1
	stepShift   = 1 // the flags hold Step and Asked, three bits each
	askedShift  = 4
	stepMask    = 7
	flagsKnown  = 1<<7 - 1
)

// NewID returns a random ID for a pass or an i cookie.
func NewID() (id [16]byte) {
	_, _ = rand.Read(id[:]) // never fails: crypto/rand ends the process instead
	return id
}

// SealPass appends the token of the pass to dst. A pass that was not earned is sealed without allowance.
func (r *Ring) SealPass(dst []byte, p *Pass) []byte {
	var buf [passSize]byte
	return r.Seal(dst, PurposePass, nil, p.append(buf[:0]), time.Unix(p.Expires, 0))
}

// OpenPass checks a token and returns its pass; the errors are those of Open. The caller must check scope, partner and
// revocation: they depend on where the pass was presented.
func (r *Ring) OpenPass(token []byte, now time.Time) (Pass, error) {
	var buf [passSize]byte
	payload, expires, err := r.OpenUntil(buf[:0], PurposePass, nil, token, now)
	if err != nil {
		return Pass{}, err
	}
	p, ok := parsePass(payload)
	if !ok {
		return Pass{}, ErrMalformed
	}
	p.Expires = expires.Unix()
	return p, nil
}

// append writes everything except Expires, which is the seal's own expiry.
func (p *Pass) append(dst []byte) []byte {
	var flags byte
	var allowance uint32
	if p.Earned {
		flags, allowance = flagEarned, p.Allowance
	}
	flags |= (p.Step&stepMask)<<stepShift | (p.Asked&stepMask)<<askedShift
	dst = append(dst, passVersion, flags)
	dst = append(dst, p.ID[:]...)
	dst = binary.BigEndian.AppendUint64(dst, uint64(p.Born))
	dst = binary.BigEndian.AppendUint32(dst, allowance)
	dst = binary.BigEndian.AppendUint64(dst, p.Scope)
	dst = binary.BigEndian.AppendUint64(dst, p.Partner)
	dst = binary.BigEndian.AppendUint64(dst, p.Net)
	return binary.BigEndian.AppendUint64(dst, p.Agent)
}

func parsePass(b []byte) (p Pass, ok bool) {
	if len(b) != passSize || b[0] != passVersion || b[1]&^flagsKnown != 0 {
		return Pass{}, false
	}
	p.Earned, p.Step, p.Asked = b[1]&flagEarned != 0, b[1]>>stepShift&stepMask, b[1]>>askedShift&stepMask
	copy(p.ID[:], b[2:18])
	p.Born = int64(binary.BigEndian.Uint64(b[18:]))
	p.Allowance = binary.BigEndian.Uint32(b[26:])
	p.Scope = binary.BigEndian.Uint64(b[30:])
	p.Partner = binary.BigEndian.Uint64(b[38:])
	p.Net = binary.BigEndian.Uint64(b[46:])
	p.Agent = binary.BigEndian.Uint64(b[54:])
	return p, p.Earned || p.Allowance == 0
}

// AppendPacked appends the pass in a fixed form of PackedPassSize bytes, for caches of opened passes. It proves
// nothing: keep it where only the gateway writes.
func (p *Pass) AppendPacked(dst []byte) []byte {
	return binary.BigEndian.AppendUint64(p.append(dst), uint64(p.Expires))
}

// PackedPassSize is the length of what AppendPacked appends.
const PackedPassSize = passSize + 8

// UnpackPass reads what AppendPacked wrote, and reports false for anything else.
func UnpackPass(b []byte) (p Pass, ok bool) {
	if len(b) != PackedPassSize {
		return Pass{}, false
	}
	p, ok = parsePass(b[:passSize])
	p.Expires = int64(binary.BigEndian.Uint64(b[passSize:]))
	return p, ok
}

// ScopeOf returns the hash that binds a pass to a cookie domain or a host. Case, a leading dot and a trailing dot make
// no difference; nothing else is normalised, so hand it a host without port. It does not allocate for names that DNS
// allows.
func ScopeOf[T string | []byte](domainOrHost T) uint64 {
	var buf [320]byte
	b := append(buf[:0], "scope\x00"...)
	for i := range len(domainOrHost) {
		c := domainOrHost[i]
		if c == '.' && (i == 0 || i == len(domainOrHost)-1) {
			continue
		}
		b = append(b, request.Lower(c))
	}
	sum := sha256.Sum256(b)
	return binary.BigEndian.Uint64(sum[:])
}

// PartnerOf returns the hash that binds a pass to an XML partner's name. It is never 0.
func PartnerOf(name string) uint64 {
	sum := sha256.Sum256([]byte("partner\x00" + name))
	return max(1, binary.BigEndian.Uint64(sum[:]))
}
