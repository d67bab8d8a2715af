package captcha

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// gate bounds how many pictures and sounds are made at once and how many wait for that.
type gate struct {
	places  chan struct{}
	waiting atomic.Int64
	queue   int64
	wait    time.Duration
}

func newGate(places, queue int, wait time.Duration) *gate {
	return &gate{places: make(chan struct{}, places), queue: int64(queue), wait: wait}
}

// enter takes a place, waiting for one within the limits; leave gives it back.
func (g *gate) enter() bool {
	select {
	case g.places <- struct{}{}:
		return true
	default:
	}
	if g.waiting.Add(1) > g.queue {
		g.waiting.Add(-1)
		return false
	}
	defer g.waiting.Add(-1)
	t := time.NewTimer(g.wait)
	defer t.Stop()
	select {
	case g.places <- struct{}{}:
		return true
	case <-t.C:
		return false
	}
}

func (g *gate) leave() { <-g.places }

// Image is GET /captcha/image.
func (c *Captcha) Image(q *Request) Response { return c.media(q, picture, "image/png") }

// Audio is GET /captcha/audio. It answers ranges: Safari plays nothing without them.
func (c *Captcha) Audio(q *Request) Response { return c.media(q, sound, "audio/wav") }

func (c *Captcha) media(q *Request, m medium, contentType string) Response {
	if method := q.method(); method != "GET" && method != "HEAD" {
		return c.notAllowed(q, "GET, HEAD")
	}
	at := c.now()
	refuse := func(status int, result string, wait time.Duration) Response {
		c.count.media[m][result].Inc()
		a := c.own(q, status, "", verdictCaptcha)
		if wait > 0 {
			a.after(wait)
		}
		return a
	}
	rate := c.rates[m]
	if wait := rate.take(rate.addrKey(q.ID.Addr, 0), at); wait > 0 {
		a := refuse(429, "limited", wait)
		a.Outcome = OutcomeLimited
		return a
	}
	p := readParams(q)
	k, kd, err := c.open(q, p.key, at)
	if err != nil {
		return refuse(404, "refused", 0)
	}
	if !c.gate.enter() {
		return refuse(503, "busy", time.Second)
	}
	body, err := func() ([]byte, error) {
		defer c.gate.leave()
		return kd.render(m, base64.RawURLEncoding.EncodeToString(k.nonce[:]), k.secret, c.language(q, &p).Voice)
	}()
	if errors.Is(err, errNoMedium) {
		return refuse(404, "refused", 0)
	}
	if err != nil {
		return c.fault(q, err)
	}
	c.count.media[m]["made"].Inc()
	a := c.own(q, 200, contentType, verdictCaptcha)
	a.add("Referrer-Policy", "no-referrer")
	if m == sound {
		a.serveRange(q, body)
		return a
	}
	a.Body = body
	return a
}

// serveRange puts the part of body that is asked for into the answer. Only a single range is served; several, or
// one of another body, get the whole, as RFC 9110 allows.
func (a *Response) serveRange(q *Request, body []byte) {
	sum := sha256.Sum256(body)
	etag := `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
	a.add("Accept-Ranges", "bytes")
	a.add("ETag", etag)
	a.Body = body
	spec := string(q.View.Get("Range"))
	if cond := string(q.View.Get("If-Range")); spec == "" || cond != "" && cond != etag {
		return
	}
	from, to, ok, satisfiable := parseRange(spec, len(body))
	if !ok {
		return
	}
	size := strconv.Itoa(len(body))
	if !satisfiable {
		a.Status, a.Body = 416, nil
		a.add("Content-Range", "bytes */"+size)
		return
	}
	a.Status, a.Body = 206, body[from:to]
	a.add("Content-Range", "bytes "+strconv.Itoa(from)+"-"+strconv.Itoa(to-1)+"/"+size)
}

// parseRange reads a single range of bytes (RFC 9110, 14.1.2). ok is false for what is not one.
func parseRange(spec string, size int) (from, to int, ok, satisfiable bool) {
	spec, ok = strings.CutPrefix(spec, "bytes=")
	first, last, dash := strings.Cut(strings.TrimSpace(spec), "-")
	if !ok || !dash || len(spec) > 32 || strings.Trim(first, "0123456789") != "" || strings.Trim(last, "0123456789") != "" {
		return 0, 0, false, false
	}
	number := func(s string) int {
		n, err := strconv.Atoi(s)
		if err != nil {
			return size // too large for an int: beyond the end in any case
		}
		return n
	}
	switch {
	case first == "" && last == "":
		return 0, 0, false, false
	case first == "":
		n := min(number(last), size)
		return size - n, size, true, n > 0
	case last != "" && number(last) < number(first):
		return 0, 0, false, false
	}
	from, to = number(first), size
	if last != "" {
		to = min(number(last)+1, size)
	}
	return from, to, true, from < size
}
