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

	"antirobot/captcha/location"
	"antirobot/spravka"
	"antirobot/templates"
)

// original is the URL of the request itself.
func (q *Request) original() string {
	target := string(q.View.Target)
	if target == "" || target[0] != '/' || len(target) > location.Longest {
		return q.Base + "/"
	}
	path, query, has := strings.Cut(target, "?")
	path = location.Escape(strings.ReplaceAll(path, "\\", "%5C"))
	if has {
		path += "?" + location.Escape(query)
	}
	return q.Base + path
}

// wanted is where the visitor goes after a right answer: X-Retpath-Y if it may be followed, else the original URL.
func (q *Request) wanted() string {
	if raw := q.View.Get("X-Retpath-Y"); len(raw) > 0 && len(raw) <= location.Longest {
		if u, ok := q.readRetpath(string(raw)); ok {
			return u
		}
	}
	return q.original()
}

// tightReturn bounds the return URL as it stands in a Location, in bytes, where the head of an answer must be small: nginx has a page
// of memory for it, 4 KiB, of which the site's name and the cookies take a half at most.
const tightReturn = 2 << 10

// linked is wanted for an answer's Location: what is too long there is left out, the query first.
func (q *Request) linked() string {
	to := q.wanted()
	if !q.Tight || len(url.QueryEscape(to)) <= tightReturn {
		return to
	}
	if i := strings.IndexAny(to, "?#"); i >= 0 && len(url.QueryEscape(to[:i])) <= tightReturn {
		return to[:i]
	}
	return q.Base + "/"
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
	if len(raw) <= location.Longest {
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
	l, ok := location.Parse(raw)
	if !ok || !q.mayReturn(l) {
		return "", false
	}
	return l.Text, true
}

// mayReturn reports whether a visitor may be sent there: the service's own hosts with the scheme and port that the
// client uses now, or the retpath_hosts with https or the present scheme.
func (q *Request) mayReturn(l location.URL) bool {
	base, ok := location.Parse(q.Base)
	if !ok {
		return false
	}
	if l.Scheme == base.Scheme && l.Port == base.Port && (l.Host == base.Host || q.Service.hosts.OwnsHost(l.Host)) {
		return true
	}
	if l.Scheme != "https" && l.Scheme != base.Scheme {
		return false
	}
	for _, r := range q.Service.retpathHosts {
		if r.Fits(&l) {
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

// links sign the return URLs of visitors, and read them again.
type links struct{ *core }

// signLink makes the link for a return URL.
func (ls *links) signLink(q *Request, to string, hasProbe bool, at time.Time) link {
	mark := byte(unprobed)
	switch {
	case hasProbe && q.Named:
		mark = named
	case hasProbe:
		mark = probed
	}
	l := link{url: to, u: string([]byte{mark, '0' + byte(q.Reason)})}
	if q.Unread {
		return l
	}
	l.t, l.u = strconv.FormatInt(at.Unix(), 10), l.u+q.requestMark()+q.linkTail(q.least())
	l.s = string(ls.keys.Ring().Seal(nil, spravka.PurposeRetpath, l.context(q), nil, at.Add(ls.cfg.KeyTTL)))
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
	if len(l.u) != 2+requestIDLen+linkTail {
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
func (ls *links) genuine(q *Request, l *link, at time.Time) bool {
	if l.s == "" || len(l.url) > location.Longest || len(l.t) > 20 || len(l.u) > 2+requestIDLen+linkTail {
		return false
	}
	_, err := ls.keys.Ring().Open(nil, spravka.PurposeRetpath, l.context(q), []byte(l.s), at)
	return err == nil || errors.Is(err, spravka.ErrExpired)
}

// fresh reports whether a genuine link has not expired.
func (ls *links) fresh(q *Request, l *link, at time.Time) bool {
	_, err := ls.keys.Ring().Open(nil, spravka.PurposeRetpath, l.context(q), []byte(l.s), at)
	return err == nil
}

// follow returns where a right answer leads, and turns l into a link of ours to it. A link is trusted if it is signed or is
// the one that the key was issued with; a changed or foreign link is refused, and the visitor goes to the site's start
// page.
func (ls *links) follow(q *Request, l *link, k *key, at time.Time) string {
	signed := ls.genuine(q, l, at)
	if signed || k != nil && l.url != "" && k.ret == returnHash(l.url) {
		if p, ok := location.Parse(l.url); ok && q.mayReturn(p) {
			if !signed {
				*l = ls.signLink(q, p.Text, false, at)
			}
			return p.Text
		}
	}
	start := q.Base + "/"
	*l = ls.signLink(q, start, false, at)
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
	l := c.links.signLink(q, q.linked(), false, c.now())
	c.count.shown["redirect"].Inc()
	a := c.SubResource(q, false)
	a.Status = 401
	a.add("Location", q.Base+q.Service.showURL(&l))
	q.noteRetpath(&a)
	return a
}

// Original is the absolute URL of q itself, fit for a Location.
func (q *Request) Original() string { return q.original() }
