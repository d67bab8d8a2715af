package captcha

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"

	"antirobot/captcha/location"
	"antirobot/identity"
	"antirobot/spravka"
	"antirobot/templates"
)

// links sign the return URLs of visitors, and read them again.
type links struct{ *core }

type link struct {
	url     string
	t, u, s string
}

// The first letter of a link's u says whether the browser was given a probe cookie with it, or a probe cookie and a
// name; the second is the number of the reason; then follow the ID of the stopped request, the passes, the step and
// the network (linkTail).
const (
	probed   = 'p'
	unprobed = 'n'
	named    = 'i'
)

const (
	linkPasses = 2 // characters
	linkStep   = 1 // a digit
	linkNet    = 3 // characters
	linkTail   = linkPasses + linkStep + linkNet
)

// tightReturn bounds the return URL in a Location where the head of a response must be small, in bytes: nginx has 4
// KiB for it, of which the site's name and the cookies take half at most.
const tightReturn = 2 << 10

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

// Original is the absolute URL of q itself, fit for a Location.
func (q *Request) Original() string { return q.original() }

func (q *Request) wanted() string {
	if raw := q.View.Get("X-Retpath-Y"); len(raw) > 0 && len(raw) <= location.Longest {
		if u, ok := q.readRetpath(string(raw)); ok {
			return u
		}
	}
	return q.original()
}

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

// readRetpath reads a raw or percent-encoded value.
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

func (q *Request) requestMark() string {
	if len(q.RequestID) == requestIDLen {
		return q.RequestID
	}
	id := spravka.NewID()
	return hex.EncodeToString(id[:6])
}

const requestIDLen = 26

func (l *link) stoppedID() string {
	if len(l.u) != 2+requestIDLen+linkTail {
		return ""
	}
	return l.u[2 : 2+requestIDLen]
}

func (l *link) reason() templates.Reason {
	if len(l.u) < 2 || l.u[1] < '0' || l.u[1] > '9' {
		return templates.ReasonNetwork
	}
	return templates.Reason(l.u[1] - '0')
}

func (l *link) context(q *Request) []byte {
	return spravka.AppendContext(nil, q.Service.name, string(q.View.Host), l.url, l.t, l.u)
}

// A ban or a challenge may concern one client of an address alone. A browser without a name of ours may be this client
// or another: it is sent to the captcha page together with a name, and if it comes back with that name, it is another
// client, and is sent on unchallenged.

func (l *link) gaveProbe() bool { return l.u != "" && (l.u[0] == probed || l.u[0] == named) }

func (l *link) passes() string {
	if len(l.u) < linkTail {
		return ""
	}
	return l.u[len(l.u)-linkTail:][:linkPasses]
}

func (q *Request) linkTail(least Step) string {
	return cmp.Or(q.passMark(), noPasses) + string('0'+byte(least)) + q.netMark()
}

const noPasses = "--"

func (q *Request) netMark() string {
	b := binary.BigEndian.AppendUint64(nil, identity.NetKey(identity.NetOf(q.ID.Addr)))
	return base64.RawURLEncoding.EncodeToString(b)[:linkNet]
}

// genuine reports whether we signed the link for this service and host. An expired link is still genuine: the page
// may have been open overnight, and its destination is checked again each time.
func (ls *links) genuine(q *Request, l *link, at time.Time) bool {
	if l.s == "" || len(l.url) > location.Longest || len(l.t) > 20 || len(l.u) > 2+requestIDLen+linkTail {
		return false
	}
	_, err := ls.keys.Ring().Open(nil, spravka.PurposeRetpath, l.context(q), []byte(l.s), at)
	return err == nil || errors.Is(err, spravka.ErrExpired)
}

func (ls *links) fresh(q *Request, l *link, at time.Time) bool {
	_, err := ls.keys.Ring().Open(nil, spravka.PurposeRetpath, l.context(q), []byte(l.s), at)
	return err == nil
}

// follow returns the destination of a right answer, and turns l into our link to it. A link is trusted if it is
// signed or is the one that the key was issued with; otherwise the visitor goes to the site's start page.
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

// returnHash is how a key stores its return URL: clients that send back the URL without its signature are trusted if
// it matches. It is inside a sealed key, and only URLs that may be followed anyway are compared, so eight bytes are
// enough.
func returnHash(u string) uint64 {
	sum := sha256.Sum256([]byte(u))
	return max(1, binary.BigEndian.Uint64(sum[:]))
}

// showURL is the captcha page for a link. retpath is never the last parameter: one client reads it up to the next
// "&".
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

func (q *Request) prefix() string { return q.Mount + q.Service.prefix }

func (q *Request) showPath(l *link, extra ...string) string {
	return q.Mount + q.Service.showURL(l, extra...)
}

// overURL lets a page that carries a request find out whether its answer was right.
func (ls *links) overURL(q *Request, at time.Time) string {
	l := ls.signLink(q, q.Base+"/", false, at)
	return q.Service.showURL(&l)
}

// leastOf is the lowest step for the visitor of our link.
func (ls *links) leastOf(q *Request, l *link, at time.Time) Step {
	rest, mine := strings.CutSuffix(l.u, q.netMark())
	if !mine || rest == "" || !ls.fresh(q, l, at) {
		return q.least()
	}
	said := Step(rest[len(rest)-1] - '0')
	if said < stepSilent || said > stepDynamic {
		return q.least()
	}
	return max(said, q.Require)
}

// A ban or a challenge may concern one client of an address alone. A browser without a name of ours may be this
// client or another: it is sent to the captcha page together with a name, and if it comes back with that name, it is
// another client, and is sent on unchallenged.

func (ls *links) knownByName(q *Request, p *params, l *link, at time.Time) bool {
	if l.u == "" || l.u[0] != named || p.status != "" || p.key != "" {
		return false
	}
	_, has := q.ID.Browser()
	return has && ls.fresh(q, l, at)
}

// passedSince reports whether the visitor of a link has a pass that it did not have when the link was made: a visitor
// who presses twice, reloads the captcha page or has it in another tab is led on. If the pass does not suffice, the
// visitor is stopped again, and the next link knows the pass.
func (q *Request) passedSince(l *link) bool {
	mark := q.passMark()
	return mark != "" && l.passes() != mark
}

func (q *Request) passMark() string {
	var all [linkPasses]byte
	some := false
	for i := range q.ID.NPasses {
		p := &q.ID.Passes[i]
		if !p.Earned {
			continue
		}
		some = true
		sum := sha256.Sum256(append([]byte("has "), p.ID[:]...))
		for j := range all { // in whichever order the cookies come
			all[j] ^= sum[j]
		}
	}
	if !some {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(all[:])[:linkPasses]
}
