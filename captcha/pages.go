package captcha

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"antirobot/request"
	"antirobot/templates"
)

const (
	typeHTML = "text/html; charset=utf-8"
	typeJSON = "application/json; charset=utf-8"
	typeXML  = "text/xml; charset=utf-8"
)

const (
	verdictCaptcha = "captcha"
	verdictBlocked = "blocked"
)

// pages renders the gateway's own answers.
type pages struct {
	*core
	zippers sync.Pool // of *gzip.Writer
}

// own starts a response. verdict may be empty.
func (pg *pages) own(q *Request, status int, contentType, verdict string) Response {
	a := Response{Status: status, Header: make([]HeaderField, 0, 14)}
	if contentType != "" {
		a.add("Content-Type", contentType)
	}
	a.add("Cache-Control", "no-store")
	a.add("X-Content-Type-Options", "nosniff")
	if q.RequestID != "" {
		a.add(pg.cfg.Headers.RequestID, q.RequestID)
	}
	if verdict != "" {
		a.add(pg.cfg.Headers.Verdict, verdict)
		if q.Service.yandex {
			if verdict == verdictBlocked {
				verdict = "403"
			}
			a.add("X-Yandex-Captcha", verdict)
		}
	}
	if pg.cfg.TestAnswer != "" {
		a.add("X-Antirobot-Test", "1")
	}
	return a
}

// json is a response that scripts of allowed origins may read.
func (pg *pages) json(q *Request, status int, verdict string, body any) Response {
	a := pg.own(q, status, typeJSON, verdict)
	pg.cors(q, &a)
	a.Body = marshal(body)
	return a
}

func (pg *pages) html(q *Request, status int, verdict string, lang *templates.Language) Response {
	a := pg.own(q, status, typeHTML, verdict)
	a.add("Content-Language", lang.Tag)
	a.add("Content-Security-Policy", q.Service.brand.CSP())
	a.add("Referrer-Policy", "no-referrer")
	a.add("X-Robots-Tag", "noindex, nofollow")
	if len(q.Service.origins) == 0 { // it can't name others than the page's own; frame-ancestors can
		a.add("X-Frame-Options", "SAMEORIGIN")
	}
	a.add("Vary", "Accept-Language, Accept-Encoding, Cookie")
	return a
}

// language is the page's language: chosen in the URL or form, remembered, or requested by the browser.
func (pg *pages) language(q *Request, p *params) *templates.Language {
	if p != nil {
		if l := q.Service.set.Lang(p.lang); l != nil {
			return l
		}
	}
	if l := q.Service.set.Lang(cookieValue(q.View, langCookie)); l != nil {
		return l
	}
	return q.Service.set.Match(string(q.View.Get("Accept-Language")))
}

func (pg *pages) fault(q *Request, err error) Response {
	pg.log.Error().Err(err).Str("request_id", q.RequestID).Msg("captcha page")
	a := pg.own(q, 500, "text/plain; charset=utf-8", "")
	a.Body = []byte(fmt.Sprintf("Internal error. Request number: %s\n", q.RequestID))
	return a
}

// setPage makes body the response's page, compressed if the client accepts that.
//
// A page repeats parts of its visitor's URL or form next to secrets, and compressed lengths reveal repetitions
// (BREACH). That takes many responses with one secret; here each response has secrets of its own, encrypted with a
// fresh nonce. Keep it so.
func (pg *pages) setPage(q *Request, a *Response, body []byte) {
	a.Body = body
	if !request.AcceptsCoding(q.View.Get("Accept-Encoding"), "gzip") {
		return
	}
	z, ok := pg.zippers.Get().(*gzip.Writer)
	if !ok {
		z, _ = gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is one
	}
	defer pg.zippers.Put(z)
	b := bytes.NewBuffer(make([]byte, 0, len(body)/2))
	z.Reset(b)
	if _, err := z.Write(body); err != nil || z.Close() != nil {
		return // it is sent as it is
	}
	a.Body = b.Bytes()
	a.add("Content-Encoding", "gzip")
}

func (pg *pages) message(
	q *Request, p *params, status int, verdict string, m templates.Message, retry string,
) Response {
	return pg.messagePage(
		q, p, status, verdict, &templates.MessagePage{Message: m, Retry: retry, Sent: m == templates.FormSent},
	)
}

func (pg *pages) messagePage(q *Request, p *params, status int, verdict string, page *templates.MessagePage) Response {
	if q.Unread {
		return Response{Status: status}
	}
	lang := pg.language(q, p)
	a := pg.html(q, status, verdict, lang)
	page.Brand, page.RequestID, page.Limit = q.Service.brand, q.RequestID, printBytes(pg.cfg.FormMaxBytes)
	body, err := lang.AppendMessage(make([]byte, 0, 6<<10), page)
	if err != nil {
		return pg.fault(q, err)
	}
	pg.setPage(q, &a, body)
	if page.Wait > 0 {
		a.set("Content-Security-Policy", q.Service.brand.WaitCSP())
	}
	return a
}

// limited is 429 for too many attempts.
func (pg *pages) limited(q *Request, p *params, wait time.Duration, retry string) Response {
	a := pg.messagePage(
		q, p, 429, verdictCaptcha, &templates.MessagePage{Message: templates.Limited, Retry: retry, Wait: wait},
	)
	a.after(wait)
	a.Outcome = OutcomeLimited
	return a
}

func (pg *pages) rememberLang(q *Request, a *Response, p *params) {
	l := q.Service.set.Lang(p.lang)
	if l == nil || cookieValue(q.View, langCookie) == l.Tag {
		return
	}
	a.Header = append(a.Header, q.cookieField(langCookie, []byte(l.Tag), "", 0))
}

// seeOther redirects: with 303 after a POST, so that a reload repeats nothing, otherwise with 302.
func (pg *pages) seeOther(q *Request, to string) Response {
	code := 302
	if q.method() == "POST" {
		code = 303
	}
	a := pg.own(q, code, "", verdictCaptcha)
	a.add("Location", to)
	a.add("Referrer-Policy", "no-referrer")
	return a
}

func (pg *pages) notAllowed(q *Request, allow string) Response {
	a := pg.own(q, 405, "text/plain; charset=utf-8", "")
	a.add("Allow", allow)
	a.Body = []byte("Here only " + allow + " are answered.\n")
	return a
}

func (q *Request) allowedOrigin() string {
	origin := string(q.View.Get("Origin"))
	if origin == "" || len(origin) > 512 {
		return ""
	}
	if request.EqualFold(origin, strings.TrimSuffix(q.Base, q.Mount)) {
		return origin
	}
	lower := string(request.AppendLower(nil, origin))
	for _, r := range q.Service.origins {
		if r.Fits(lower) {
			return origin
		}
	}
	return ""
}

// cors lets a script of an allowed origin read the response.
func (pg *pages) cors(q *Request, a *Response) {
	a.add("Vary", "Origin")
	origin := q.allowedOrigin()
	if origin == "" {
		return
	}
	a.add("Access-Control-Allow-Origin", origin)
	a.add("Access-Control-Allow-Credentials", "true")
	a.add(exposeField, pg.cfg.Headers.Verdict+", "+pg.cfg.Headers.RequestID)
}

// preflight answers a CORS preflight request for /checkcaptcha.
func (pg *pages) preflight(q *Request) Response {
	a := pg.own(q, 204, "", verdictCaptcha)
	pg.cors(q, &a)
	if q.allowedOrigin() != "" {
		a.add("Access-Control-Allow-Methods", "GET, POST")
		a.add("Access-Control-Allow-Headers", "X-Requested-With, Content-Type, Accept")
		a.add("Access-Control-Max-Age", "600")
	}
	return a
}

func (pg *pages) limitedJSON(q *Request, code int, wait time.Duration) Response {
	body, outcome := waitJSON{"limited", q.RequestID, seconds(wait)}, OutcomeLimited
	if code == 503 {
		body.Type, outcome = "unavailable", OutcomeNone
	}
	a := pg.json(q, code, verdictCaptcha, body)
	a.after(wait)
	a.Outcome = outcome
	return a
}

func (pg *pages) tryLater(q *Request, status int, wait time.Duration) Response {
	if q.View.Accept().PrefersJSON() {
		return pg.limitedJSON(q, status, wait)
	}
	a := pg.own(q, status, "text/plain; charset=utf-8", verdictCaptcha)
	a.after(wait)
	a.Body = fmt.Appendf(nil, "Please try again in %d s.\n", seconds(wait))
	if status == 429 {
		a.Outcome = OutcomeLimited
	}
	return a
}

type problemJSON struct {
	Type       string `json:"type"`
	Title      string `json:"title"`
	Status     int    `json:"status"`
	RequestID  string `json:"request-id,omitempty"`
	RetryAfter int64  `json:"retry-after,omitempty"` // seconds
}

// program is a short response for a program, never a success.
func (pg *pages) program(q *Request, status int, verdict, title string, wait time.Duration) Response {
	if q.Unread {
		return Response{Status: status}
	}
	if q.View.Accept().PrefersJSON() {
		a := pg.own(q, status, "application/problem+json", verdict)
		pg.cors(q, &a)
		a.Body = marshal(problemJSON{"about:blank", title, status, q.RequestID, seconds(wait)})
		return a
	}
	a := pg.own(q, status, "text/plain; charset=utf-8", verdict)
	a.add("Vary", "Accept")
	text := fmt.Sprintf("%d %s.", status, title)
	if wait > 0 {
		text += fmt.Sprintf(" Try again in %d s.", seconds(wait))
	}
	if q.RequestID != "" {
		text += " Request number: " + q.RequestID
	}
	a.Body = []byte(text + "\n")
	return a
}

func (pg *pages) waitXML(q *Request, code int, verdict string, wait time.Duration) Response {
	a := pg.own(q, code, typeXML, verdict)
	a.after(wait)
	a.Body = errorXML(code, fmt.Sprintf("Please try again in %d s", seconds(wait)), q.RequestID)
	return a
}

type noticeJSON struct {
	Type      string `json:"type"` // blocked, queued, or a failure that trying again does not mend
	RequestID string `json:"request-id,omitempty"`
}

type waitJSON struct {
	Type       string `json:"type"` // limited, throttle or a failure
	RequestID  string `json:"request-id,omitempty"`
	RetryAfter int64  `json:"retry-after"` // seconds
}

// marshal encodes without escaping characters that only matter in HTML: some clients look for literal URLs.
func marshal(v any) []byte {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("BUG: " + err.Error())
	}
	return buf.Bytes()
}

// solvedXML contains none of the marks that clients look for in a challenge.
const solvedXML = `<?xml version="1.0" encoding="utf-8"?>
<yandexsearch version="1.0">
</yandexsearch>
`

func errorXML(code int, text, requestID string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b,
		"<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<yandexsearch version=\"1.0\">\n<response>\n<error code=\"%d\">",
		code)
	writeXML(&b, text)
	b.WriteString("</error>\n</response>\n")
	if requestID != "" {
		b.WriteString("<request-id>")
		writeXML(&b, requestID)
		b.WriteString("</request-id>\n")
	}
	b.WriteString("</yandexsearch>\n")
	return b.Bytes()
}

func writeXML(b *bytes.Buffer, text string) {
	_ = xml.EscapeText(b, []byte(text)) // a Buffer does not fail
}

func hidden(name, value string) templates.HiddenField {
	return templates.HiddenField{Name: name, Value: value}
}

func printBytes(n int64) string {
	if n >= 1<<20 && n%(1<<20) == 0 {
		return strconv.FormatInt(n>>20, 10) + " MB"
	}
	return strconv.FormatInt(n>>10, 10) + " KB"
}
