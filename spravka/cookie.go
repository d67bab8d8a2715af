package spravka

import (
	"strconv"
	"time"
)

// AppendSetCookie appends the value of a Set-Cookie field. An empty domain makes a host-only cookie; an empty path
// means "/"; maxAge 0 makes a session cookie and a negative one deletes it; sameSite is "Lax", "Strict", "None" or
// empty. Name, value, domain and path must be clean (ValidCookieName, ValidCookieValue): it escapes nothing.
func AppendSetCookie(dst []byte, name string, value []byte, domain, path string, maxAge time.Duration,
	secure, httpOnly bool, sameSite string,
) []byte {
	dst = append(dst, name...)
	dst = append(dst, '=')
	dst = append(dst, value...)
	if path == "" {
		path = "/"
	}
	dst = append(dst, "; Path="...)
	dst = append(dst, path...)
	if domain != "" {
		dst = append(dst, "; Domain="...)
		dst = append(dst, domain...)
	}
	if maxAge != 0 {
		dst = append(dst, "; Max-Age="...)
		dst = strconv.AppendInt(dst, max(0, int64(maxAge/time.Second)), 10)
	}
	if secure {
		dst = append(dst, "; Secure"...)
	}
	if httpOnly {
		dst = append(dst, "; HttpOnly"...)
	}
	if sameSite != "" {
		dst = append(dst, "; SameSite="...)
		dst = append(dst, sameSite...)
	}
	return dst
}

// ValidCookieName reports whether s is a token of RFC 9110, which is what a cookie may be called.
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

// ValidCookieValue reports whether b consists of the octets that RFC 6265 allows in a cookie's value, quotes excluded.
func ValidCookieValue(b []byte) bool {
	for _, c := range b {
		if c <= ' ' || c >= 0x7f || c == '"' || c == ',' || c == ';' || c == '\\' {
			return false
		}
	}
	return true
}
