package request

import (
	"bytes"
)

// The files that programs request at fixed places, and that none of them can answer a challenge for.
var (
	wellKnownNames = [...]string{
		"/robots.txt", "/favicon.ico", "/ads.txt", "/app-ads.txt", "/security.txt", "/llms.txt", "/sitemap.xml",
		"/sitemap.xml.gz", "/sitemap.txt", "/sitemap_index.xml", "/sitemap-index.xml",
	}
	wellKnownPrefix = []byte("/.well-known/")
	acmePrefix      = []byte("/.well-known/acme-challenge/")
)

// IsWellKnown reports whether v reads one of the well-known files. A path with several readings is none.
func (v *View) IsWellKnown() bool {
	if !v.reads() {
		return false
	}
	if v.WellKnown {
		return true
	}
	for _, name := range wellKnownNames {
		if string(v.Path) == name {
			return len(v.Query) == 0
		}
	}
	return bytes.HasPrefix(v.Path, wellKnownPrefix) && isUnambiguous(v.Path)
}

// IsACMEChallenge reports whether v is a certificate issuer's request (RFC 8555, 8.3).
func (v *View) IsACMEChallenge() bool {
	token, ok := bytes.CutPrefix(v.Path, acmePrefix)
	if !ok || !v.reads() || len(v.Query) > 0 || len(token) > longestToken {
		return false
	}
	for _, c := range token {
		if !isToken(c) {
			return false
		}
	}
	return len(token) > 0
}

// longestToken bounds an issuer's token, in bytes: those in use have 43.
const longestToken = 128

// reads reports whether v is a GET or a HEAD, without a body, of the path that it names.
func (v *View) reads() bool {
	return !v.Body && (string(v.Method) == "GET" || string(v.Method) == "HEAD") && len(v.Named) == 0
}

// isUnambiguous reports whether a path has letters, digits, hyphens, underscores, single slashes and no segment that
// begins with a dot, but for the first.
func isUnambiguous(path []byte) bool {
	for i, c := range path {
		switch {
		case isToken(c):
		case c == '.':
			if i > 1 && path[i-1] == '/' || path[i-1] == '.' {
				return false
			}
		case c == '/':
			if i > 0 && path[i-1] == '/' {
				return false
			}
		default:
			return false
		}
	}
	return true
}

func isToken(c byte) bool {
	return c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}
