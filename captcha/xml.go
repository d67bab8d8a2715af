package captcha

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"net/netip"
	"time"

	"antirobot/spravka"
)

// ChallengeXML is the challenge for a user of an XML interface. failed says that the previous answer was wrong.
func (c *Captcha) ChallengeXML(q *Request, failed bool) Response {
	c.count.shown["xml"].Inc()
	status := ""
	if failed {
		status = "failed"
	}
	return c.asks.challengeXML(q, q.ID.Addr, q.partnerHash(), status, c.now())
}

func (ak *asks) challengeXML(q *Request, who netip.Addr, partner uint64, status string, at time.Time) Response {
	a := ak.pages.own(q, 200, typeXML, verdictCaptcha)
	ak.watch.noteShown(q, wayXML, at)
	token := ak.issuer.issue(q, channelXML, who, partner, "", at)
	var b bytes.Buffer
	b.WriteString(`<?xml version="1.0" encoding="utf-8"?>
<yandexsearch version="1.0">
<response>
<error code="100">Robot request</error>
</response>
<captcha-img-url>`)
	writeXML(&b, q.Base+q.Service.prefix+"/captcha/image?key="+token)
	b.WriteString("</captcha-img-url>\n<captcha-key>")
	writeXML(&b, token)
	b.WriteString("</captcha-key>\n<captcha-status>")
	writeXML(&b, status)
	b.WriteString("</captcha-status>\n</yandexsearch>\n")
	a.Body = b.Bytes()
	if f, ok := ak.freshPass(q, at); ok {
		a.Header = append(a.Header, f)
	}
	a.Outcome = OutcomeShown
	return a
}

// solvedXML contains none of the marks that clients look for in a challenge.
const solvedXML = `<?xml version="1.0" encoding="utf-8"?>
<yandexsearch version="1.0">
</yandexsearch>
`

// errorXML is an answer without a challenge: it contains none of the marks that clients look for in one.
func errorXML(code int, text, requestID string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<yandexsearch version=\"1.0\">\n<response>\n<error code=\"%d\">", code)
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

// QuarantinedXML is Quarantined for a client of an XML interface.
func (c *Captcha) QuarantinedXML(q *Request) Response {
	a := c.pages.own(q, 409, typeXML, verdictBlocked)
	a.Body = errorXML(409, "Quarantined", q.RequestID)
	return a
}

// waitXML tells a client of an XML interface when to come again.
func (pg *pages) waitXML(q *Request, code int, verdict string, wait time.Duration) Response {
	a := pg.own(q, code, typeXML, verdict)
	a.after(wait)
	a.Body = errorXML(code, fmt.Sprintf("Please try again in %d s", seconds(wait)), q.RequestID)
	return a
}

func writeXML(b *bytes.Buffer, text string) {
	_ = xml.EscapeText(b, []byte(text)) // a Buffer does not fail
}

// XCheck handles /xcheckcaptcha: the answer of a partner's user.
func (c *Captcha) XCheck(q *Request) Response {
	at := c.now()
	p := readParams(q)
	r := c.answers.judge(q, channelXML, &p, at)
	switch r.state {
	case stateSolved, stateLost:
		a := c.pages.own(q, 200, typeXML, verdictCaptcha)
		a.Header = append(a.Header, r.cookie)
		a.Body = []byte(solvedXML)
		r.note(&a)
		return a
	case stateLimited, stateUnavailable:
		a := c.pages.waitXML(q, r.status(), verdictCaptcha, r.wait)
		r.note(&a)
		return a
	}
	who, partner := q.ID.Addr, q.partnerHash()
	if r.opened && r.key.partner != 0 {
		who, partner = r.key.addr, r.key.partner // user and partner need not be named again: "key" is the captcha's here
	}
	a := c.asks.challengeXML(q, who, partner, "failed", at)
	r.note(&a)
	return a
}

// FreshPass is the Set-Cookie field that every answer to a partner's user without a valid spravka carries, including the
// service's own answers: an unearned pass without allowance. ok is false if none is due.
func (c *Captcha) FreshPass(q *Request) (f HeaderField, ok bool) { return c.asks.freshPass(q, c.now()) }

func (ak *asks) freshPass(q *Request, at time.Time) (f HeaderField, ok bool) {
	if q.Partner == nil || q.ID.HasPass() {
		return HeaderField{}, false
	}
	pass := spravka.Pass{
		ID: spravka.NewID(), Born: at.Unix(), Expires: at.Add(ak.cfg.Pass.Lifetime).Unix(),
		Scope: q.Service.id.Scope(q.View.Host), Partner: q.partnerHash(), Net: q.ID.NetKey(),
	}
	ak.count.unearned.Inc()
	return ak.passCookie(q, &pass, at), true
}
