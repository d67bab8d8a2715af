package captcha

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"time"

	"antirobot/bounded"
	"antirobot/captcha/media"
	"antirobot/identity"
)

// pictures serve the media of challenges.
type pictures struct {
	*core
	pages  *pages
	issuer *issuer
	watch  *watch
	rates  [media.Count]*bounded.Rate
	perKey *bounded.Rate // deliveries of a challenge's media
}

// Image handles GET /captcha/image.
func (c *Captcha) Image(q *Request) Response { return c.pictures.media(q, media.Picture, "image/png") }

// Audio handles GET /captcha/audio, with ranges, without which Safari plays nothing.
func (c *Captcha) Audio(q *Request) Response { return c.pictures.media(q, media.Sound, "audio/wav") }

func (pc *pictures) media(q *Request, m media.Medium, contentType string) Response {
	if method := q.method(); method != "GET" && method != "HEAD" {
		return pc.pages.notAllowed(q, "GET, HEAD")
	}
	at := pc.now()
	refuse := func(status int, result string, wait time.Duration) Response {
		pc.count.media[m][result].Inc()
		if wait > 0 {
			return pc.pages.tryLater(q, status, wait)
		}
		return pc.pages.own(q, status, "", verdictCaptcha)
	}
	p := readParams(q)
	for _, name := range q.Service.imgParams {
		if p.key == "" {
			p.key = queryValue(q.View.Query, name)
		}
	}
	k, kd, err := pc.issuer.open(q, p.key, at)
	if err != nil ||
		k.read() { // the part of a check costs nothing: an address where many are checked is not led to digits for it
		rate := pc.rates[m]
		if wait := rate.Take(rate.AddrKey(q.ID.Addr, 0), at); wait > 0 {
			return refuse(429, "limited", wait)
		}
	}
	if err != nil {
		return refuse(404, "refused", 0)
	}
	if !pc.issuer.shownTo(&k, q) {
		return refuse(404, "foreign", 0)
	}
	if wait := pc.perKey.Take(pc.perKey.NonceKey(k.nonce, byte(m)), at); wait > 0 {
		return refuse(429, "limited", wait)
	}
	body, err := pc.renderOnce(q, m, &k, kd, pc.pages.language(q, &p).Voice)
	switch {
	case errors.Is(err, media.ErrBusy):
		return refuse(503, "busy", retryBusy)
	case errors.Is(err, errNoMedium):
		return refuse(404, "refused", 0)
	case err != nil:
		return pc.pages.fault(q, err)
	}
	if m == media.Picture && k.kind != digitsCode {
		contentType = "image/gif"
	}
	if q.method() == "GET" {
		pc.watch.noteLoaded(q, &k, at)
	}
	a := pc.pages.own(q, 200, contentType, verdictCaptcha)
	a.add("Referrer-Policy", "no-referrer")
	if m == media.Sound {
		a.serveRange(q, body)
		return a
	}
	a.Body = body
	return a
}

const retryBusy = time.Second

func (pc *pictures) renderOnce(q *Request, m media.Medium, k *key, kd kind, voice string) ([]byte, error) {
	if m == media.Picture {
		voice = "" // the same for all languages
	}
	render := func() ([]byte, error) {
		return kd.render(m, base64.RawURLEncoding.EncodeToString(k.nonce[:]), k.secret, k.level, voice)
	}
	var body []byte
	var err error
	result := "made"
	if k.read() {
		it := media.Item{Medium: m, Nonce: k.nonce, Voice: voice, Level: k.level}
		if k.kind == digitsCode {
			it.Digits = k.secret
		}
		body, result, err = pc.issuer.maker.Make(&it, identity.NetKey(q.ID.Net), render)
	} else {
		body, err = render() // the part of a check costs less than to wait for a place, or to be kept
	}
	if err == nil {
		pc.count.media[m][result].Inc()
	}
	return body, err
}

// serveRange puts the requested part of body into the response. Several ranges, or one of another body, get the whole
// body, as RFC 9110 allows.
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

// parseRange reads a single byte range (RFC 9110, 14.1.2). ok is false for anything else.
func parseRange(spec string, size int) (from, to int, ok, satisfiable bool) {
	spec, ok = strings.CutPrefix(spec, "bytes=")
	first, last, dash := strings.Cut(strings.TrimSpace(spec), "-")
	if !ok || !dash || len(spec) > 32 || strings.Trim(first, "0123456789") != "" ||
		strings.Trim(last, "0123456789") != "" {
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
