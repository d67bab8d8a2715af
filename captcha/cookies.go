package captcha

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strings"
	"time"

	"antirobot/bounded"
	"antirobot/request"
	"antirobot/spravka"
)

// probes tell whether browsers keep cookies.
type probes struct {
	*core
	lost *bounded.Rate // right answers without the cookie coming back
}

// probeState is the probe cookie: a random mark of the browser, and how many right answers it gave without bringing
// back a pass. The client may write anything there: it only decides which advice is shown, and whether a carried form
// that knows the mark is sent on from another network.
type probeState struct {
	mark     string
	unkept   int
	returned bool // the browser sent it
}

const probeMarkLen = 22

// probeLife is long enough for a form.
const probeLife = 24 * time.Hour

func (pb *probes) probeOf(q *Request) probeState {
	if q.probe == nil {
		p := readProbe(q, probeCookie)
		q.probe = &p
	}
	return *q.probe
}

func readProbe(q *Request, name string) probeState {
	mark, n, ok := strings.Cut(cookieValue(q.View, name), ".")
	if ok && len(mark) == probeMarkLen && len(n) == 1 && n[0] >= '0' && n[0] <= '9' {
		if _, err := base64.RawURLEncoding.DecodeString(mark); err == nil {
			return probeState{mark: mark, unkept: int(n[0] - '0'), returned: true}
		}
	}
	id := spravka.NewID()
	return probeState{mark: base64.RawURLEncoding.EncodeToString(id[:])}
}

func markHash(mark string) uint64 {
	sum := sha256.Sum256([]byte(mark))
	return binary.BigEndian.Uint64(sum[:])
}

func (pb *probes) probe(q *Request, a *Response, p probeState) {
	if !p.returned {
		pb.setProbe(q, a, p)
	}
}

func (pb *probes) setProbe(q *Request, a *Response, p probeState) {
	value := append([]byte(p.mark), '.', byte('0'+min(p.unkept, 9)))
	a.Header = append(a.Header, q.cookieField(probeCookie, value, "", probeLife))
}

// After lostMany right answers without a returned cookie the page explains that cookies are needed. A browser that
// keeps the probe has its own count; the others are counted by address and kind of browser, for a while.
const (
	lostMany  = 2
	lostEvery = 30 * time.Minute
)

func (pb *probes) lostKey(q *Request) uint64 {
	return pb.lost.AddrKey(q.ID.Addr, agentOf(q))
}

func (pb *probes) cookiesLost(q *Request, p probeState, at time.Time) bool {
	if hasCookie(q, q.Service.cookie) {
		return false
	}
	if p.returned {
		return p.unkept >= lostMany
	}
	return pb.lost.Peek(pb.lostKey(q), at) > 0
}

func (pb *probes) noteSolved(q *Request, a *Response, at time.Time) {
	p := pb.probeOf(q)
	switch {
	case hasCookie(q, q.Service.cookie):
		if p.unkept == 0 {
			return
		}
		p.unkept = 0
	default:
		p.unkept++
		if !p.returned {
			pb.lost.Take(pb.lostKey(q), at)
		}
	}
	pb.setProbe(q, a, p)
}

// cookieField sets a cookie that reaches as far as the pass: into frames of other sites if the service is for them.
func (q *Request) cookieField(name string, value []byte, domain string, life time.Duration) HeaderField {
	same := q.Service.sameSite
	c := spravka.Cookie{
		Name: name, Value: value, Domain: domain, MaxAge: life, Secure: q.secure() || same != "Lax", SameSite: same,
	}
	return HeaderField{"Set-Cookie", string(c.Append(nil))}
}

func (q *Request) secure() bool { return strings.HasPrefix(q.Base, "https://") }

func hasCookie(q *Request, name string) bool {
	_, ok := q.View.Cookie(name)
	return ok
}

func cookieValue(v *request.View, name string) string {
	value, _ := v.Cookie(name)
	return string(value)
}
