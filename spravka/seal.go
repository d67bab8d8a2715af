package spravka

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"time"

	"github.com/gorilla/securecookie"
)

// Seal appends to dst a token that proves that we made payload for this purpose and context, valid until expires
// (whole seconds). The payload is readable; see SealSecret. The context is not in the token: Open must get the same
// one. Use AppendContext to build it from several parts.
func (r *Ring) Seal(dst []byte, p Purpose, context, payload []byte, expires time.Time) []byte {
	return r.seal(dst, r.keys[0].signers[p], p, context, payload, expires)
}

// SealSecret is Seal with the payload encrypted (AES-256 in counter mode, then HMAC-SHA256). A token of Seal does not
// open with OpenSecret, nor vice versa.
func (r *Ring) SealSecret(dst []byte, p Purpose, context, payload []byte, expires time.Time) []byte {
	return r.seal(dst, r.keys[0].sealers[p], p, context, payload, expires)
}

func (r *Ring) seal(
	dst []byte, sc *securecookie.SecureCookie, p Purpose, context, payload []byte, expires time.Time,
) []byte {
	box := make([]byte, 8, 8+len(payload))
	binary.BigEndian.PutUint64(box, uint64(expires.Unix()))
	box = append(box, payload...)
	body, err := sc.Encode(sealName(p, context), box)
	if err != nil {
		panic("BUG: seal " + p.String() + ": " + err.Error())
	}
	for body[len(body)-1] == '=' {
		body = body[:len(body)-1]
	}
	dst = append(dst, r.keys[0].id...)
	dst = append(dst, '.')
	return append(dst, body...)
}

// Open checks a token of Seal with the same purpose and context, and appends its payload to dst. The error is
// ErrMalformed, ErrSeal or ErrExpired; dst is then unchanged.
func (r *Ring) Open(dst []byte, p Purpose, context, token []byte, now time.Time) ([]byte, error) {
	dst, _, err := r.OpenUntil(dst, p, context, token, now)
	return dst, err
}

// OpenUntil is Open, but also returns the token's expiry, for caches.
func (r *Ring) OpenUntil(dst []byte, p Purpose, context, token []byte, now time.Time) ([]byte, time.Time, error) {
	k, body, err := r.split(p, token)
	if err != nil {
		return dst, time.Time{}, err
	}
	return open(dst, k.signers[p], p, context, body, now)
}

// OpenSecret is Open for what SealSecret made.
func (r *Ring) OpenSecret(dst []byte, p Purpose, context, token []byte, now time.Time) ([]byte, error) {
	k, body, err := r.split(p, token)
	if err != nil {
		return dst, err
	}
	dst, _, err = open(dst, k.sealers[p], p, context, body, now)
	return dst, err
}

// SealedByNewest reports whether the token names the key that seals now, without checking anything else: otherwise an
// opened token should be renewed.
func (r *Ring) SealedByNewest(token []byte) bool {
	id, _, ok := bytes.Cut(token, dot)
	return ok && string(id) == r.keys[0].id
}

var dot = []byte{'.'}

// split finds the key that a token names and checks the spelling of the rest.
func (r *Ring) split(p Purpose, token []byte) (*ringKey, []byte, error) {
	if len(token) > p.maxToken() {
		return nil, nil, ErrMalformed
	}
	id, body, ok := bytes.Cut(token, dot)
	if !ok || len(id) < minIDLen || len(id) > maxIDLen || !canonical(body) {
		return nil, nil, ErrMalformed
	}
	for i := range r.keys {
		if string(id) == r.keys[i].id {
			return &r.keys[i], body, nil
		}
	}
	return nil, nil, ErrKey
}

func open(
	dst []byte, sc *securecookie.SecureCookie, p Purpose, context, body []byte, now time.Time,
) ([]byte, time.Time, error) {
	padded := make([]byte, len(body), len(body)+2)
	copy(padded, body)
	for len(padded)%4 != 0 {
		padded = append(padded, '=')
	}
	var box []byte
	if err := sc.Decode(sealName(p, context), string(padded), &box); err != nil {
		if errors.Is(err, securecookie.ErrMacInvalid) {
			return dst, time.Time{}, ErrSeal
		}
		return dst, time.Time{}, ErrMalformed
	}
	if len(box) < 8 {
		return dst, time.Time{}, ErrMalformed
	}
	expires := time.Unix(int64(binary.BigEndian.Uint64(box)), 0)
	if !now.Before(expires) {
		return dst, expires, ErrExpired
	}
	return append(dst, box[8:]...), expires, nil
}

// canonical reports whether b is URL-safe base64 without padding in its only spelling: securecookie's decoder ignores
// line ends and the unused bits of the last character, but a token must not have a second spelling (invariant 4).
func canonical(b []byte) bool {
	for _, c := range b {
		if sextet(c) < 0 {
			return false
		}
	}
	switch len(b) % 4 {
	case 0:
		return len(b) > 0
	case 2:
		return sextet(b[len(b)-1])&0x0f == 0
	case 3:
		return sextet(b[len(b)-1])&0x03 == 0
	default:
		return false
	}
}

func sextet(c byte) int {
	switch {
	case 'A' <= c && c <= 'Z':
		return int(c - 'A')
	case 'a' <= c && c <= 'z':
		return int(c-'a') + 26
	case '0' <= c && c <= '9':
		return int(c-'0') + 52
	case c == '-':
		return 62
	case c == '_':
		return 63
	default:
		return -1
	}
}

// sealName is the name that securecookie binds the seal to. It must not contain '|', securecookie's own delimiter;
// the context is therefore hashed, which also bounds it.
func sealName(p Purpose, context []byte) string {
	if len(context) == 0 {
		return p.String()
	}
	sum := sha256.Sum256(context)
	return p.String() + "." + base64.RawURLEncoding.EncodeToString(sum[:])
}

// AppendContext appends the parts of a context, each preceded by its length, so that ("ab", "c") and ("a", "bc")
// differ, as do ("a") and ("a", "").
func AppendContext(dst []byte, parts ...string) []byte {
	for _, s := range parts {
		dst = binary.AppendUvarint(dst, uint64(len(s)))
		dst = append(dst, s...)
	}
	return dst
}

// verbatim hands bytes to securecookie unchanged.
type verbatim struct{}

func (verbatim) Serialize(src any) ([]byte, error) {
	b, ok := src.([]byte)
	if !ok {
		return nil, errors.New("not bytes")
	}
	return b, nil
}

func (verbatim) Deserialize(src []byte, dst any) error {
	p, ok := dst.(*[]byte)
	if !ok {
		return errors.New("not a pointer to bytes")
	}
	*p = src
	return nil
}
