package texts

import (
	"net/netip"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"

	"antirobot/request"
)

// Link is a link in a text.
type Link struct {
	Host   string // lower case, ASCII, no port
	Path   string // as written, without query and fragment
	Length int
}

// Short reports whether the host is a link shortener.
func (l *Link) Short() bool { return shortens(l.Host) }

const maxLinks = 64

// Forget drops the remembered text, whose memory may be reused.
func (r *Reader) Forget() { r.has, r.seen = false, "" }

// Links returns the links of a text: URLs, www hosts, and hosts with a path or a usual end. Valid until the next
// text; the last one is remembered until Forget.
func (r *Reader) Links(text string) []Link {
	if r.has && r.seen == text {
		return r.links
	}
	r.seen, r.has, r.links = text, true, r.links[:0]
	s := addresses{rest: r.skeleton.Plain(text)}
	for len(s.rest) > 0 && len(r.links) < maxLinks {
		a := s.next()
		if a.kind != isLink {
			continue
		}
		host, ok := appendHost(r.buf[:0], a.host)
		if r.buf = host; ok {
			r.links = append(r.links, Link{
				Host: string(host), Path: strings.Clone(a.path),
				Length: utf8.RuneCountInString(a.whole),
			})
		}
	}
	return r.links
}

func (r *Reader) findHost(s *Set, text string) (string, bool) {
	all := addresses{rest: r.skeleton.Plain(text)}
	for len(all.rest) > 0 {
		a := all.next()
		if a.host == "" {
			continue
		}
		host, ok := appendHost(r.buf[:0], a.host)
		r.buf = host
		for ok && len(host) > 0 {
			if _, found := s.entries[string(host)]; found {
				return request.Borrow(host), true
			}
			dot := slices.Index(host, '.')
			host = host[dot+1:]
			ok = dot >= 0
		}
	}
	return "", false
}

type addressKind uint8

const (
	isNothing addressKind = iota
	isLink
	isMail
	isMaybe // by its form only: readme.md
)

type address struct {
	kind              addressKind
	whole, host, path string
}

type addresses struct {
	rest string
	// A run of bytes that could begin a mail address is scanned once, not again from each host in it: none begins
	// with noMailTo < rest ≤ noMail bytes left.
	noMail, noMailTo int
}

func (s *addresses) next() (a address) {
	text := s.rest
	for i := 0; i < len(text); {
		c, n := utf8.DecodeRuneInString(text[i:])
		if !hostRune(c) && c != '[' {
			i += n
			continue
		}
		if a, end := s.at(text[i:]); a.kind != isNothing {
			s.rest = text[i+end:]
			return a
		}
		for i < len(text) {
			c, n = utf8.DecodeRuneInString(text[i:])
			i += n
			if !localRune(c) && c != '@' {
				break
			}
		}
	}
	s.rest = ""
	return address{}
}

func (s *addresses) at(text string) (a address, end int) {
	at := schemeLength(text)
	if at > 0 {
		// "https://bank.example@evil.example/" leads to evil.example.
		if i := strings.IndexAny(text[at:], "/?#\\@ \t\r\n<>\""); i >= 0 && text[at+i] == '@' {
			at += i + 1
		}
	}
	if at == 0 {
		if a, end = s.mail(text); a.kind != isNothing {
			return a, end
		}
	}
	n := hostLength(text[at:])
	host := strings.TrimRight(text[at:at+n], ".-")
	end = at + len(host)
	a.host = host
	switch {
	case host == "":
		return address{}, 0
	case at > 0:
		a.kind = isLink
	case !strings.Contains(host, ".") || !bareHost(host):
		return address{}, 0
	case request.HasPrefixFold(host, "www."), knownEnd(host), strings.HasPrefix(text[end:], "/"):
		a.kind = isLink
	default:
		a.kind = isMaybe
	}
	if p := end; p < len(text) && text[p] == ':' {
		for p++; p < len(text) && '0' <= text[p] && text[p] <= '9'; p++ {
		}
		if p > end+1 {
			end = p
		}
	}
	path, n := pathOf(text[end:])
	end += n
	a.path, a.whole = path, text[:end]
	return a, end
}

func (s *addresses) mail(text string) (a address, end int) {
	if left := len(text); s.noMailTo < left && left <= s.noMail {
		return address{}, 0
	}
	to := len(text)
	for i, c := range text {
		if c == '@' && i > 0 {
			n := hostLength(text[i+1:])
			a.host = strings.TrimRight(text[i+1:i+1+n], ".-")
			end = i + 1 + len(a.host)
			if strings.Contains(a.host, ".") {
				a.kind, a.whole = isMail, text[:end]
				return a, end
			}
			to = i
			break
		}
		if !localRune(c) {
			to = i
			break
		}
	}
	s.noMail, s.noMailTo = len(text), len(text)-to
	return address{}, 0
}

func localRune(c rune) bool { return hostRune(c) || c == '+' || c == '%' || c == '=' || c == '\'' }

func pathOf(text string) (path string, n int) {
	if text == "" || strings.IndexByte("/?#\\", text[0]) < 0 {
		return "/", 0
	}
	for n < len(text) && text[n] > ' ' && strings.IndexByte("<>\"`", text[n]) < 0 {
		n++
	}
	for n > 1 && strings.IndexByte(".,;:!?)]}'*_", text[n-1]) >= 0 { // it ends a sentence
		n--
	}
	path = text[:n]
	if i := strings.IndexAny(path, "?#"); i >= 0 {
		path = path[:i]
	}
	if path == "" {
		path = "/"
	}
	return path, n
}

func schemeLength(text string) int {
	for _, s := range [...]string{"http://", "https://", "ftp://", "http:\\\\", "https:\\\\"} {
		if request.HasPrefixFold(text, s) {
			return len(s)
		}
	}
	return 0
}

// hostLength returns how much of the text may be a host.
func hostLength(text string) int {
	if strings.HasPrefix(text, "[") { // IPv6
		if end := strings.IndexByte(text[:min(len(text), 64)], ']'); end > 0 {
			return end + 1
		}
		return 0
	}
	for i, c := range text {
		if !hostRune(c) {
			return i
		}
	}
	return len(text)
}

func hostRune(c rune) bool {
	if c < utf8.RuneSelf {
		return 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || c == '.' || c == '-' || c == '_'
	}
	return unicode.IsLetter(c) || unicode.IsNumber(c) || unicode.Is(unicode.Mn, c)
}

func bareHost(host string) bool {
	if strings.Contains(host, "..") || host[0] == '.' || host[0] == '-' {
		return false
	}
	end := host[strings.LastIndexByte(host, '.')+1:]
	if strings.HasPrefix(end, "xn--") {
		return true
	}
	n := 0
	for _, c := range end {
		if !unicode.IsLetter(c) {
			return false
		}
		n++
	}
	return n >= 2 && n <= 24
}

// appendHost appends a host in lower case and ASCII, without a point at its end; ok is false for what can't be one.
func appendHost(dst []byte, host string) (out []byte, ok bool) {
	host = strings.TrimSuffix(host, ".")
	if host == "" || len(host) > 253 || host[0] == '-' || host[len(host)-1] == '-' {
		return dst, false
	}
	if host[0] == '[' {
		addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
		return addr.WithZone("").AppendTo(dst), err == nil
	}
	from := len(dst)
	label := 0
	for i := range len(host) {
		c := request.Lower(host[i])
		switch {
		case c >= utf8.RuneSelf:
			ascii, err := idna.Lookup.ToASCII(host)
			if err != nil || strings.IndexFunc(ascii, func(c rune) bool { return c >= utf8.RuneSelf }) >= 0 {
				return dst[:from], false
			}
			return appendHost(dst[:from], ascii)
		case c == '.':
			if label == 0 || label > 63 {
				return dst[:from], false
			}
			label = -1
		case c != '-' && c != '_' && (c < 'a' || c > 'z') && (c < '0' || c > '9'):
			return dst[:from], false
		}
		label++
		dst = append(dst, c)
	}
	return dst, label > 0 && label <= 63
}

// knownEnd reports a usual end of a host without a scheme, and not one of files or abbreviations (md, py, rs, sh).
func knownEnd(host string) bool {
	switch strings.ToLower(host[strings.LastIndexByte(host, '.')+1:]) {
	case "com", "net", "org", "info", "biz", "io", "me", "co", "app", "dev", "xyz", "top", "shop", "site", "online",
		"club", "store", "vip",
		"live", "pro", "link", "click", "world", "space", "fun", "win", "bet", "casino", "icu", "buzz", "cyou", "cfd",
		"sbs", "tech", "website",
		"ru", "su", "ua", "by", "kz", "uz", "de", "fr", "uk", "eu", "pl", "cz", "it", "es", "nl", "ch", "at", "se",
		"fi", "no", "us", "ca", "br",
		"cn", "jp", "kr", "in", "tr", "ir", "cc", "tk", "ly", "gl", "gg", "to", "ws", "ml", "ga", "cf", "рф", "бел",
		"укр", "xn--p1ai":
		return true
	}
	return false
}

func shortens(host string) bool {
	switch strings.TrimPrefix(host, "www.") {
	case "bit.ly", "t.co", "goo.gl", "tinyurl.com", "is.gd", "v.gd", "ow.ly", "buff.ly", "cutt.ly", "rb.gy",
		"rebrand.ly", "bl.ink", "t.ly",
		"tiny.cc", "shorturl.at", "shorturl.com", "s.id", "clck.ru", "vk.cc", "u.to", "goo.su", "bit.do", "bitly.com",
		"j.mp", "adf.ly", "ouo.io",
		"lnkd.in", "fb.me", "amzn.to", "wp.me", "trib.al", "dlvr.it", "soo.gd", "x.co", "q.gs", "bc.vc", "po.st",
		"mcaf.ee", "su.pr", "snip.ly",
		"shorte.st", "t2m.io", "tny.im", "qps.ru", "tr.im", "cli.gs", "short.io", "surl.li", "kutt.it", "urlz.fr",
		"n9.cl", "acortar.link",
		"dwz.cn", "t.cn", "url.cn", "suo.im", "shrtco.de", "ift.tt", "zpr.io", "linktr.ee", "lnk.to", "db.tt", "git.io",
		"a.co", "spoti.fi":
		return true
	}
	return false
}
