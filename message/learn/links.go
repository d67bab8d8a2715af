package learn

import (
	"strings"
	"unicode/utf8"

	"antirobot/request"
)

func (x *extractor) link(text string, atStart bool) int {
	if !atStart || len(text) < 4 {
		return 0
	}
	rest := text
	switch {
	case text[0] >= utf8.RuneSelf:
		return 0
	case request.HasPrefixFold(rest, "http://"):
		rest = rest[7:]
	case request.HasPrefixFold(rest, "https://"):
		rest = rest[8:]
	case request.HasPrefixFold(rest, "www."):
	case len(rest) > x.noHost:
		return 0 // within a run that was already tried
	default:
		ok, end := bareHost(rest)
		if !ok {
			x.noHost = len(rest) - end
			return 0
		}
	}
	skipped := len(text) - len(rest)
	if request.HasPrefixFold(rest, "www.") {
		rest, skipped = rest[4:], skipped+4
	}
	end := 0
	hash := uint64(fnvOffset)
	for end < len(rest) && hostByte(rest[end]) {
		hash = (hash ^ uint64(request.Lower(rest[end]))) * fnvPrime
		end++
	}
	if end == 0 {
		return 0
	}
	host := rest[:end]
	x.add(featureHost, hash, func() string { return strings.ToLower(host) })
	if dot := strings.LastIndexByte(host, '.'); dot >= 0 {
		x.add(featureHost, hashString(host[dot:]), func() string { return strings.ToLower(host[dot:]) })
	}
	for end < len(rest) && rest[end] > ' ' && rest[end] != '"' && rest[end] != '<' && rest[end] != '>' {
		end++
	}
	x.before = 0
	x.pair(1 << 41)
	return skipped + end
}

// bareHost finds a host without a scheme: ASCII labels, and a path or a known end. end is behind it, or behind a
// run without any.
func bareHost(s string) (ok bool, end int) {
	dot := -1
	for end < len(s) && hostByte(s[end]) {
		if s[end] == '.' {
			dot = end
		}
		end++
	}
	if dot <= 0 || dot == end-1 || end-dot > 8 || end < len(s) && s[end] >= utf8.RuneSelf {
		return false, end
	}
	top := s[dot+1 : end]
	for i := range len(top) {
		if c := request.Lower(top[i]); c < 'a' || c > 'z' {
			return false, end
		}
	}
	if end < len(s) && s[end] == '/' {
		return true, end
	}
	switch strings.ToLower(top) {
	case "com", "net", "org", "ru", "me", "io", "info", "biz", "xyz", "top", "shop", "site", "online", "club", "uk",
		"su", "ua", "by", "kz", "cc", "ly", "tk", "link", "live", "pro":
		return true, end
	}
	return false, end
}

func hostByte(c byte) bool {
	c = request.Lower(c)
	return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '.' || c == '-'
}
