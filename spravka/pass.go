package spravka

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"antirobot/request"
)

// Pass is the content of a spravka: its own subject with a guaranteed allowance. It is a plain value.
type Pass struct {
	ID        [16]byte
	Born      int64  // unix seconds
	Expires   int64  // unix seconds
	Allowance uint32 // in requests; the ledger counts the spent ones
	Earned    bool   // false: handed out fresh to an XML partner's user; no allowance, no subject until a day old
	Scope     uint64 // hash of the cookie domain, or host, that it is valid for; see ScopeOf
	Partner   uint64 // hash of the XML partner that it was made for, 0: none; see PartnerOf
	Net       uint64 // hash of the /24 or /48 that solved
	Agent     uint64 // hash of the user-agent family that solved
	Step      uint8  // the passed step as captcha numbers it, 1 to 7; 0: unknown
	Asked     uint8  // the required step
	// Key is the fingerprint of the key pair of the browser that solved, zero: it has shown none. A pass with a key is
	// good in Net and in Places alone, the networks in which that browser has proved itself, the latest first.
	Key    [16]byte
	Places [3]uint64
	// Shape is the hash of how the client that solved looks (handshake, fields, browser) if it answered as machines
	// do; 0: it answered as people do.
	Shape uint64
}

const (
	passVersion = 1
	passSize    = 1 + 1 + 16 + 8 + 4 + 4*8
	// keyedVersion is that of passes with a key, which is followed by the places.
	keyedVersion = 2
	keyedSize    = passSize + 16 + 3*8
	// maxPassSize is that of a pass with a shape, which stands at the end.
	maxPassSize = keyedSize + 8
	flagEarned  = 1
	flagShaped  = 1 << 7
	stepShift   = 1 // the flags hold Step and Asked, three bits each
	askedShift  = 4
	stepMask    = 7
)

// Keyed reports whether the pass is bound to a browser's key.
func (p *Pass) Keyed() bool { return p.Key != [16]byte{} }

// Away reports whether a network (identity.NetKey; 0: unknown) is one in which the pass's browser has not proved
// itself.
func (p *Pass) Away(net uint64) bool {
	return p.Keyed() && net != 0 && net != p.Net && net != p.Places[0] && net != p.Places[1] && net != p.Places[2]
}

// MoveTo adds a network in which the browser has proved itself, in place of the oldest one. The spent allowance stays
// spent.
func (p *Pass) MoveTo(net uint64) {
	if p.Away(net) {
		p.Places = [3]uint64{net, p.Places[0], p.Places[1]}
	}
}

// NewID returns a random ID for a pass or an i cookie.
func NewID() (id [16]byte) {
	_, _ = rand.Read(id[:]) // never fails: crypto/rand ends the process instead
	return id
}

// SealPass appends the token of the pass to dst. A pass that was not earned is sealed without allowance.
func (r *Ring) SealPass(dst []byte, p *Pass) []byte {
	var buf [maxPassSize]byte
	return r.Seal(dst, PurposePass, nil, p.append(buf[:0]), time.Unix(p.Expires, 0))
}

// OpenPass checks a token and returns its pass; the errors are those of Open. The caller must check scope, partner
// and revocation.
func (r *Ring) OpenPass(token []byte, now time.Time) (Pass, error) {
	var buf [maxPassSize]byte
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
	if p.Shape != 0 {
		flags |= flagShaped
	}
	version := byte(passVersion)
	if p.Keyed() {
		version = keyedVersion
	}
	dst = append(dst, version, flags)
	dst = append(dst, p.ID[:]...)
	dst = binary.BigEndian.AppendUint64(dst, uint64(p.Born))
	dst = binary.BigEndian.AppendUint32(dst, allowance)
	dst = binary.BigEndian.AppendUint64(dst, p.Scope)
	dst = binary.BigEndian.AppendUint64(dst, p.Partner)
	dst = binary.BigEndian.AppendUint64(dst, p.Net)
	dst = binary.BigEndian.AppendUint64(dst, p.Agent)
	if p.Keyed() {
		dst = append(dst, p.Key[:]...)
		for _, net := range p.Places {
			dst = binary.BigEndian.AppendUint64(dst, net)
		}
	}
	if p.Shape != 0 {
		dst = binary.BigEndian.AppendUint64(dst, p.Shape)
	}
	return dst
}

func parsePass(b []byte) (p Pass, ok bool) {
	if len(b) < passSize {
		return Pass{}, false
	}
	if b[1]&flagShaped != 0 {
		if p.Shape = binary.BigEndian.Uint64(b[len(b)-8:]); p.Shape == 0 {
			return Pass{}, false
		}
		b = b[:len(b)-8]
	}
	switch {
	case b[0] == passVersion && len(b) == passSize:
	case b[0] == keyedVersion && len(b) == keyedSize:
		copy(p.Key[:], b[passSize:])
		for i := range p.Places {
			p.Places[i] = binary.BigEndian.Uint64(b[passSize+16+8*i:])
		}
		if !p.Keyed() {
			return Pass{}, false
		}
	default:
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

// AppendPacked appends the pass in at most PackedPassSize bytes, for caches of opened passes. It proves nothing: keep
// it where only the gateway writes.
func (p *Pass) AppendPacked(dst []byte) []byte {
	return binary.BigEndian.AppendUint64(p.append(dst), uint64(p.Expires))
}

// PackedPassSize bounds the output of AppendPacked.
const PackedPassSize = maxPassSize + 8

// UnpackPass reads the output of AppendPacked, and reports false for anything else.
func UnpackPass(b []byte) (p Pass, ok bool) {
	if len(b) < 8 {
		return Pass{}, false
	}
	p, ok = parsePass(b[:len(b)-8])
	p.Expires = int64(binary.BigEndian.Uint64(b[len(b)-8:]))
	return p, ok
}

// ScopeOf returns the hash that binds a pass to a cookie domain or a host without port. Case, a leading dot and a
// trailing dot make no difference. It does not allocate for valid DNS names.
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

// Cookie is a cookie to set, which no script of a page can read. Nothing is escaped: name, value, domain and path must
// be clean (ValidCookieName, ValidCookieValue).
type Cookie struct {
	Name     string
	Value    []byte
	Domain   string        // empty: this host alone
	Path     string        // empty: "/"
	MaxAge   time.Duration // 0: until the browser ends; negative: the cookie is deleted
	Secure   bool
	SameSite string
}

// Append appends the value of a Set-Cookie field.
func (c *Cookie) Append(dst []byte) []byte {
	dst = append(append(append(dst, c.Name...), '='), c.Value...)
	dst = append(append(dst, "; Path="...), cmp.Or(c.Path, "/")...)
	if c.Domain != "" {
		dst = append(append(dst, "; Domain="...), c.Domain...)
	}
	if c.MaxAge != 0 {
		dst = append(dst, "; Max-Age="...)
		dst = strconv.AppendInt(dst, max(0, int64(c.MaxAge/time.Second)), 10)
	}
	if c.Secure {
		dst = append(dst, "; Secure"...)
	}
	return append(append(dst, "; HttpOnly; SameSite="...), c.SameSite...)
}

// ValidCookieName reports whether s is a token of RFC 9110.
func ValidCookieName(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c <= ' ' || c >= 0x7f {
			return false
		}
		switch c {
		case '(', ')', '<', '>', '@', ',', ';', ':', '\\', '"', '/', '[', ']', '?', '=', '{', '}':
			return false
		}
	}
	return s != ""
}

// ValidCookieValue reports whether b consists of the octets that RFC 6265 allows in a cookie's value, without quotes.
func ValidCookieValue(b []byte) bool {
	for _, c := range b {
		if c <= ' ' || c >= 0x7f || c == '"' || c == ',' || c == ';' || c == '\\' {
			return false
		}
	}
	return true
}

// Config is what a solved captcha earns.
type Config struct {
	// Lifetime is how long a pass is valid, and its cookie kept.
	Lifetime time.Duration `mapstructure:"lifetime"`
	// Allowance is how many requests a pass guarantees.
	Allowance int64 `mapstructure:"allowance"`
}

// DefaultConfig returns 30 days and 100 pages.
func DefaultConfig() Config { return Config{Lifetime: 30 * 24 * time.Hour, Allowance: 100} }

// allowanceFloor is the least that a pass guarantees, however many its network earned.
const allowanceFloor = 10

// Validate returns all problems, each with its key.
func (c Config) Validate() error {
	var errs []error
	if c.Lifetime < time.Minute || c.Lifetime > 400*24*time.Hour {
		errs = append(errs, fmt.Errorf("lifetime: %v is outside 1m to 9600h", c.Lifetime))
	}
	if c.Allowance < 1 || c.Allowance > 1_000_000 {
		errs = append(errs, fmt.Errorf("allowance: %d is outside 1 to 1000000", c.Allowance))
	}
	return errors.Join(errs...)
}

// Floor is the allowance of every pass.
func (c Config) Floor() uint32 { return uint32(min(allowanceFloor, c.Allowance)) }

// AllowanceOf returns the allowance of a pass for a household after a number of passes in a day: half of it for each
// of them, but never below the floor.
func (c Config) AllowanceOf(earned float64) uint32 {
	n := float64(c.Allowance) * math.Exp2(-max(earned, 0))
	return max(uint32(n), c.Floor())
}
