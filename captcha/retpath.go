package captcha

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"

	"antirobot/request"
	"antirobot/spravka"
	"antirobot/templates"
)

// maxReturn bounds a return URL, in bytes.
const maxReturn = 8 << 10

// location is a URL that was parsed and can be sent back: absolute, with the authority spelled as browsers read it.
type location struct {
	scheme, host, port string
	text               string
}

// parseLocation reads an absolute http or https URL as strictly as a browser may read it loosely: no user
// information, no backslash before the query, no control character, a host of plain letters, digits, dots and
// hyphens (international names only in their ASCII form). Path, query and fragment stay as they are.
func parseLocation(raw string) (location, bool) {
	if len(raw) > maxReturn {
		return location{}, false
	}
	scheme, rest, ok := strings.Cut(raw, "://")
	scheme = string(request.AppendLower(nil, scheme))
	if !ok || scheme != "http" && scheme != "https" {
		return location{}, false
	}
	authority, tail := rest, ""
	if i := strings.IndexAny(rest, "/?#\\"); i >= 0 {
		authority, tail = rest[:i], rest[i:]
	}
	host, port, ok := splitAuthority(authority)
	if !ok {
		return location{}, false
	}
	if tail == "" || tail[0] != '/' {
		tail = "/" + tail
	}
	path := tail
	if i := strings.IndexAny(tail, "?#"); i >= 0 {
		path = tail[:i]
	}
	if strings.IndexByte(path, '\\') >= 0 || strings.ContainsFunc(tail, isControl) {
		return location{}, false
	}
	text := scheme + "://" + host
	if port != "" && port != defaultPort(scheme) {
		text += ":" + port
	}
	if port == "" {
		port = defaultPort(scheme)
	}
	return location{scheme: scheme, host: host, port: port, text: text + escapeTail(tail)}, true
}

func isControl(r rune) bool { return r <= ' ' || r == 0x7f }

// splitAuthority separates host and port; the host is lower-cased. It refuses anything that parsers may read differently:
// an empty port, leading zeros in it, empty labels, hyphens at either end of a label.
func splitAuthority(a string) (host, port string, ok bool) {
	h, p, ok := request.SplitHost(request.AppendLower(nil, a))
	host, port = string(h), string(p)
	if strings.HasSuffix(a, ":") || strings.HasPrefix(port, "0") {
		return "", "", false
	}
	return host, port, ok && request.PlainHost(host)
}

func defaultPort(scheme string) string {
	if scheme == "https" {
		return "443"
	}
	return "80"
}

// escapeTail percent-encodes what is not allowed in a Location, and nothing else: the URL comes back whole.
func escapeTail(s string) string {
	const upper = "0123456789ABCDEF"
	bad := func(i int) bool {
		c := s[i]
		return c <= ' ' || c >= 0x7f || c == '"' || c == '<' || c == '>'
	}
	for i := range len(s) {
		if !bad(i) {
			continue
		}
		b := append(make([]byte, 0, len(s)+32), s[:i]...)
		for ; i < len(s); i++ {
			if bad(i) {
				b = append(b, '%', upper[s[i]>>4], upper[s[i]&15])
			} else {
				b = append(b, s[i])
			}
		}
		return string(b)
	}
	return s
}

// original is the URL of the request itself.
func (q *Request) original() string {
	target := string(q.View.Target)
	if target == "" || target[0] != '/' || len(target) > maxReturn {
		return q.Base + "/"
	}
	path, query, has := strings.Cut(target, "?")
	path = escapeTail(strings.ReplaceAll(path, "\\", "%5C"))
	if has {
		path += "?" + escapeTail(query)
	}
	return q.Base + path
}

// wanted is where the visitor goes after a right answer: X-Retpath-Y if it may be followed, else the original URL.
func (q *Request) wanted() string {
	if raw := q.View.Get("X-Retpath-Y"); len(raw) > 0 && len(raw) <= maxReturn {
		if u, ok := q.readRetpath(string(raw)); ok {
			return u
		}
	}
	return q.original()
}

// retpathField tells in an answer what happened to X-Retpath-Y.
const (
	retpathField = "X-Antirobot-Retpath"
	exposeField  = "Access-Control-Expose-Headers"
)

// noteRetpath tells a front end why its X-Retpath-Y is not followed: it is malformed, or its host is neither the service's
// nor one of its retpath_hosts.
func (q *Request) noteRetpath(a *Response) {
	raw := q.View.Get("X-Retpath-Y")
	if len(raw) == 0 {
		return
	}
	if len(raw) <= maxReturn {
		if _, ok := q.readRetpath(string(raw)); ok {
			return
		}
	}
	a.add(retpathField, "refused")
	if exposed := a.Get(exposeField); exposed != "" {
		a.set(exposeField, exposed+", "+retpathField)
	}
}

// readRetpath reads a value that is either raw or percent-encoded once.
func (q *Request) readRetpath(raw string) (string, bool) {
	if !strings.Contains(raw, "://") {
		decoded, err := url.PathUnescape(raw)
		if err != nil {
			return "", false
		}
		raw = decoded
	}
	l, ok := parseLocation(raw)
	if !ok || !q.mayReturn(l) {
		return "", false
	}
	return l.text, true
}

// mayReturn reports whether a visitor may be sent there: the service's own hosts with the scheme and port that the
// client uses now, or the retpath_hosts with https or the present scheme.
func (q *Request) mayReturn(l location) bool {
	base, ok := parseLocation(q.Base)
	if !ok {
		return false
	}
	if l.scheme == base.scheme && l.port == base.port && (l.host == base.host || q.Service.hosts.OwnsHost(l.host)) {
		return true
	}
	if l.scheme != "https" && l.scheme != base.scheme {
		return false
	}
	for _, r := range q.Service.retpathHosts {
		if r.fits(l.host, l.port, l.scheme) {
			return true
		}
	}
	return false
}

// link is a return URL together with its signature.
type link struct {
	url     string
	t, u, s string
}

// The first letter of a link's u says whether the browser had been given a probe cookie by then, or a probe cookie and a
// name; the second is the number of
// the reason; the rest names the request that was stopped, and says which step its visitor is asked for (ladder.go).
const (
	probed   = 'p'
	unprobed = 'n'
	named    = 'i'
)

// signLink makes the link for a return URL.
func (c *Captcha) signLink(q *Request, to string, hasProbe bool, at time.Time) link {
	mark := byte(unprobed)
	switch {
	case hasProbe && q.Named:
		mark = named
	case hasProbe:
		mark = probed
	}
	l := link{url: to, t: strconv.FormatInt(at.Unix(), 10), u: string([]byte{mark, '0' + byte(q.Reason)}) + q.requestMark() + q.linkTail(q.least())}
	if q.Unread {
		return l
	}
	l.s = string(c.keys.Ring().Seal(nil, spravka.PurposeRetpath, l.context(q), nil, at.Add(c.cfg.KeyTTL)))
	return l
}

// requestMark makes a link unique. It is the ID of the request that was stopped, so that the captcha page can show that
// one, which has a history, instead of its own.
func (q *Request) requestMark() string {
	if len(q.RequestID) == requestIDLen {
		return q.RequestID
	}
	id := spravka.NewID()
	return hex.EncodeToString(id[:6])
}

const requestIDLen = 26

// stoppedID returns the ID of the request that a genuine link was made for; empty if the link does not say.
func (l *link) stoppedID() string {
	if len(l.u) != 2+requestIDLen+linkStep+linkNet {
		return ""
	}
	return l.u[2 : 2+requestIDLen]
}

// reason returns why the request was stopped that a genuine link was made for.
func (l *link) reason() templates.Reason {
	if len(l.u) < 2 || l.u[1] < '0' || l.u[1] > '9' {
		return templates.ReasonNetwork
	}
	return templates.Reason(l.u[1] - '0')
}

func (l *link) context(q *Request) []byte {
	return spravka.AppendContext(nil, q.Service.name, string(q.View.Host), l.url, l.t, l.u)
}

// genuine reports whether we signed the link for this service and host. An expired link is still genuine: the page may have
// been open overnight, and its destination is checked again each time.
func (c *Captcha) genuine(q *Request, l *link, at time.Time) bool {
	if l.s == "" || len(l.url) > maxReturn || len(l.t) > 20 || len(l.u) > 32 {
		return false
	}
	_, err := c.keys.Ring().Open(nil, spravka.PurposeRetpath, l.context(q), []byte(l.s), at)
	return err == nil || errors.Is(err, spravka.ErrExpired)
}

// fresh reports whether a genuine link has not expired.
func (c *Captcha) fresh(q *Request, l *link, at time.Time) bool {
	_, err := c.keys.Ring().Open(nil, spravka.PurposeRetpath, l.context(q), []byte(l.s), at)
	return err == nil
}

// follow returns where a right answer leads, and turns l into a link of ours to it. A link is trusted if it is signed or is
// the one that the key was issued with; a changed or foreign link is refused, and the visitor goes to the site's start
// page.
func (c *Captcha) follow(q *Request, l *link, k *key, at time.Time) string {
	signed := c.genuine(q, l, at)
	if signed || k != nil && l.url != "" && k.ret == returnHash(l.url) {
		if p, ok := parseLocation(l.url); ok && q.mayReturn(p) {
			if !signed {
				*l = c.signLink(q, p.text, false, at)
			}
			return p.text
		}
	}
	start := q.Base + "/"
	*l = c.signLink(q, start, false, at)
	return start
}

// returnHash is how a key stores the return URL that it was issued with: clients that send back the URL without its
// signature are trusted if it matches. It is inside a sealed key, and only URLs that may be followed anyway are compared,
// so eight bytes are enough.
func returnHash(u string) uint64 {
	sum := sha256.Sum256([]byte(u))
	return max(1, binary.BigEndian.Uint64(sum[:]))
}

// showURL is the captcha page for a link. retpath is never the last parameter: one client reads it up to the next "&".
func (s *Settings) showURL(l *link, extra ...string) string {
	u := s.prefix + "/showcaptcha?cc=1&retpath=" + url.QueryEscape(l.url) +
		"&t=" + url.QueryEscape(l.t) + "&u=" + url.QueryEscape(l.u) + "&s=" + url.QueryEscape(l.s)
	for i := 0; i+1 < len(extra); i += 2 {
		if extra[i+1] != "" {
			u += "&" + extra[i] + "=" + url.QueryEscape(extra[i+1])
		}
	}
	return u
}

// Link is a 401 with the absolute URL of the captcha page for q, for a balancer that redirects the visitor itself. It hands
// out no probe cookie, so the page does not conclude from a missing one that the browser keeps no cookies.
func (c *Captcha) Link(q *Request) Response {
	l := c.signLink(q, q.wanted(), false, c.now())
	c.count.shown["redirect"].Inc()
	a := c.SubResource(q, false)
	a.Status = 401
	a.add("Location", q.Base+q.Service.showURL(&l))
	q.noteRetpath(&a)
	return a
}

// Original is the absolute URL of q itself, fit for a Location.
func (q *Request) Original() string { return q.original() }
