package identity

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/golang-jwt/jwt/v5"

	"antirobot/spravka"
)

const (
	maxLogin     = 4096 // most bytes of a cookie that are examined
	maxLoginText = 256  // most bytes of the name that it proves
)

// login verifies the login session. It is immutable.
type login struct {
	cookie    string
	algorithm string
	keys      [][]byte               // shared secrets of hmac
	jwtKeys   jwt.VerificationKeySet // keys of a JWT, for the one algorithm
	parser    *jwt.Parser
	issuer    string
	audience  string
	maxAge    int64  // seconds; 0: none
	print     uint64 // part of the keys of cached cookies
}

func newLogin(c LoginConfig) (*login, error) {
	l := &login{
		cookie: c.Cookie, algorithm: c.Algorithm, issuer: c.Issuer, audience: c.Audience,
		maxAge: int64(c.MaxAge / time.Second),
	}
	parts := [][]byte{[]byte(c.Cookie), []byte(c.Algorithm), []byte(c.Issuer), []byte(c.Audience)}
	switch c.Algorithm {
	case algHMAC, algHS256:
		keys, err := readSecrets("login.keys", c.Keys)
		if err != nil {
			return nil, err
		}
		l.keys = keys
		for _, key := range keys {
			l.jwtKeys.Keys = append(l.jwtKeys.Keys, key)
		}
		parts = append(parts, keys...)
	default:
		var errs []error
		for i, ref := range c.Keys {
			key, pem, err := readPublic(c.Algorithm, ref)
			if err != nil {
				errs = append(errs, fmt.Errorf("login.keys[%d]: %w", i, err))
			}
			l.jwtKeys.Keys = append(l.jwtKeys.Keys, key)
			parts = append(parts, pem)
		}
		if err := errors.Join(errs...); err != nil {
			return nil, err
		}
	}
	// The times are checked against the request's clock, on every request and not only when the token is opened.
	l.parser = jwt.NewParser(jwt.WithValidMethods([]string{c.Algorithm}), jwt.WithoutClaimsValidation())
	l.print = printOf(parts...)
	return l, nil
}

func readPublic(algorithm string, ref KeyRef) (key jwt.VerificationKey, pem []byte, err error) {
	pem, err = ref.read()
	if err != nil {
		return nil, nil, err
	}
	if algorithm == algEdDSA {
		key, err := jwt.ParseEdPublicKeyFromPEM(pem)
		if err != nil {
			return nil, nil, errors.New("not the PEM of an Ed25519 public key")
		}
		return key, pem, nil
	}
	rsaKey, err := jwt.ParseRSAPublicKeyFromPEM(pem)
	if err != nil {
		return nil, nil, errors.New("not the PEM of an RSA public key")
	}
	if rsaKey.N.BitLen() < 2048 {
		return nil, nil, fmt.Errorf("an RSA key of %d bits, must have 2048 or more", rsaKey.N.BitLen())
	}
	return rsaKey, pem, nil
}

type session struct {
	born, notBefore, expires int64

	id [16]byte
}

// open verifies a cookie that is not in the cache.
func (l *login) open(cookie []byte) (session, RefusalReason) {
	if l.algorithm != algHMAC {
		return l.openJWT(cookie)
	}
	text, at, err := spravka.VerifyService(l.cookie, cookie, l.keys...)
	switch {
	case errors.Is(err, spravka.ErrMalformed) || len(text) > maxLoginText:
		return session{}, RefusedMalformed
	case err != nil:
		return session{}, RefusedSeal
	}
	return session{born: at.Unix(), id: TextSubject(KindL, text).ID}, RefusedNone
}

func (l *login) openJWT(cookie []byte) (session, RefusalReason) {
	var claims jwt.RegisteredClaims
	t, err := l.parser.ParseWithClaims(string(cookie), &claims, func(t *jwt.Token) (any, error) {
		if _, ok := t.Header["crit"]; ok {
			return nil, errors.New("a critical extension") // RFC 7515: extensions that are not understood are rejected
		}
		return l.jwtKeys, nil
	})
	switch {
	case errors.Is(err, jwt.ErrTokenMalformed):
		return session{}, RefusedMalformed
	case err != nil || !t.Valid:
		return session{}, RefusedSeal
	case l.issuer != "" && claims.Issuer != l.issuer,
		l.audience != "" && !slices.Contains(claims.Audience, l.audience):
		return session{}, RefusedDomain
	case !validLoginText(claims.Subject),
		claims.ExpiresAt == nil && (l.maxAge == 0 || claims.IssuedAt == nil):
		return session{}, RefusedMalformed // without a name, or without an end
	}
	s := session{born: unixOf(claims.IssuedAt), notBefore: unixOf(claims.NotBefore), expires: unixOf(claims.ExpiresAt)}
	if claims.ExpiresAt != nil && s.expires <= 0 {
		return session{}, RefusedExpired
	}
	s.id = TextSubject(KindL, []byte(claims.Subject)).ID
	return s, RefusedNone
}

func validLoginText(s string) bool {
	if s == "" || len(s) > maxLoginText || !utf8.ValidString(s) {
		return false
	}
	for _, c := range s {
		if c < ' ' || (c >= 0x7f && c < 0xa0) {
			return false
		}
	}
	return true
}

func unixOf(d *jwt.NumericDate) int64 {
	if d == nil {
		return 0
	}
	return d.Unix()
}

// skew is how far the clocks of a service and the gateway may differ.
const skew = 60

func (l *login) check(s *session, at int64) RefusalReason {
	switch {
	case s.expires != 0 && at >= s.expires,
		l.maxAge != 0 && s.born != 0 && at-s.born > l.maxAge:
		return RefusedExpired
	case s.notBefore > at+skew, s.born > at+skew:
		return RefusedYoung
	default:
		return RefusedNone
	}
}

const sessionSize = 3*8 + 16

func (s *session) append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(s.born))
	dst = binary.BigEndian.AppendUint64(dst, uint64(s.notBefore))
	dst = binary.BigEndian.AppendUint64(dst, uint64(s.expires))
	return append(dst, s.id[:]...)
}

func unpackSession(b []byte) (s session, ok bool) {
	if len(b) < sessionSize {
		return session{}, false
	}
	s.born = int64(binary.BigEndian.Uint64(b))
	s.notBefore = int64(binary.BigEndian.Uint64(b[8:]))
	s.expires = int64(binary.BigEndian.Uint64(b[16:]))
	copy(s.id[:], b[24:])
	return s, true
}
