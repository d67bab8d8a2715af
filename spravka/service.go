package spravka

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"
)

// A service's own signed cookie is "value.unixtime.signature": its creation in decimal unix seconds, and HMAC-SHA256
// in lower-case hex over four lines joined by "\
// ": "antirobot.cookie.v1", the cookie's name, the value, the time. None of them can contain a line end, so their
// boundaries can't be shifted. The login cookie L has the same form. docs/cookies.md shows it in other languages.

const (
	serviceLabel = "antirobot.cookie.v1"
	// MinServiceKey is the fewest bytes that a key shared with a service must have.
	MinServiceKey   = 32
	maxServiceValue = 1024
	signatureLen    = 2 * sha256.Size
)

// SignService returns the value of a cookie called name that Antirobot accepts as made by the holder of key at the
// given time, for services written in Go. It fails for a name or value that is not valid in a cookie, an empty value,
// one longer than 1024 bytes, a key shorter than 32 bytes and a time before 1970.
func SignService(name, value string, at time.Time, key []byte) (string, error) {
	switch {
	case !ValidCookieName(name):
		return "", fmt.Errorf("sign cookie: %q can't be the name of a cookie", name)
	case value == "" || len(value) > maxServiceValue || !ValidCookieValue([]byte(value)):
		return "", fmt.Errorf("sign cookie %s: the value is empty, too long, or can't stand in a cookie", name)
	case len(key) < MinServiceKey:
		return "", fmt.Errorf(
			"sign cookie %s: the key has %d bytes, must have %d or more", name, len(key), MinServiceKey,
		)
	case at.Unix() < 0:
		return "", fmt.Errorf("sign cookie %s: the time is before 1970", name)
	}
	stamp := strconv.FormatInt(at.Unix(), 10)
	sum := serviceMAC(name, []byte(value), []byte(stamp), key)
	return value + "." + stamp + "." + hex.EncodeToString(sum), nil
}

// VerifyService checks a cookie of SignService against each of the keys, and returns its value, a part of cookie, and
// the time of its creation. The error is ErrMalformed or ErrSeal. The caller checks the age.
func VerifyService(name string, cookie []byte, keys ...[]byte) (value []byte, at time.Time, err error) {
	value, stamp, signature, ok := splitService(cookie)
	if !ok {
		return nil, time.Time{}, ErrMalformed
	}
	unix, err := strconv.ParseInt(string(stamp), 10, 64)
	if err != nil {
		return nil, time.Time{}, ErrMalformed
	}
	for _, key := range keys {
		var want [signatureLen]byte
		hex.Encode(want[:], serviceMAC(name, value, stamp, key))
		if len(key) >= MinServiceKey && hmac.Equal(want[:], signature) {
			return value, time.Unix(unix, 0), nil
		}
	}
	return nil, time.Time{}, ErrSeal
}

// splitService splits from the right: the value may contain dots.
func splitService(cookie []byte) (value, stamp, signature []byte, ok bool) {
	if len(cookie) > maxServiceValue+64+signatureLen {
		return nil, nil, nil, false
	}
	i := bytes.LastIndexByte(cookie, '.')
	if i < 0 || len(cookie)-i-1 != signatureLen {
		return nil, nil, nil, false
	}
	signature, cookie = cookie[i+1:], cookie[:i]
	i = bytes.LastIndexByte(cookie, '.')
	if i < 1 || i > maxServiceValue {
		return nil, nil, nil, false
	}
	value, stamp = cookie[:i], cookie[i+1:]
	if len(stamp) == 0 || len(stamp) > 12 || !ValidCookieValue(value) {
		return nil, nil, nil, false
	}
	for _, c := range stamp {
		if c < '0' || c > '9' {
			return nil, nil, nil, false
		}
	}
	return value, stamp, signature, true
}

func serviceMAC(name string, value, stamp, key []byte) []byte {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(serviceLabel + "\n" + name + "\n"))
	m.Write(value)
	m.Write([]byte{'\n'})
	m.Write(stamp)
	return m.Sum(nil)
}
