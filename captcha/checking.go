package captcha

import (
	"encoding/json"
	"time"

	"antirobot/captcha/steps"
	"antirobot/templates"
)

// checkingPage is the captcha page for a step below digits.
func (c *Captcha) checkingPage(q *Request, p *params, l *link, asked question, at time.Time) Response {
	lang := c.language(q, p)
	page := c.checking(q, asked, l.url, at)
	page.Hidden = append(page.Hidden, hidden("retpath", l.url), hidden("t", l.t), hidden("u", l.u), hidden("s", l.s))
	if p.lang != "" {
		page.Hidden = append(page.Hidden, hidden("lang", lang.Tag))
	}
	page.OverURL = q.showPath(l)
	page.DigitsURL = q.showPath(l, "lang", p.lang, fieldStep, steps.Digits.String())
	page.Reason = l.reason()
	if id := l.stoppedID(); id != "" {
		page.RequestID = id
	}
	return c.showChecking(q, p, page, asked, "", at)
}

// checkingForm is the same for a page that carries a request.
func (c *Captcha) checkingForm(q *Request, p *params, token string, asked question, at time.Time) Response {
	page := c.checking(q, asked, "", at)
	page.FormKept, page.Reason, page.Written, page.OverURL = true, q.Reason, q.Written, c.overURL(q, at)
	page.Hidden = append(page.Hidden, hidden(fieldSaved, token))
	return c.showChecking(q, p, page, asked, "same-origin", at)
}

func (c *Captcha) checking(q *Request, asked question, to string, at time.Time) *templates.CheckPage {
	token, t := c.issueCheck(q, asked, to, at)
	text, err := json.Marshal(t)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return &templates.CheckPage{
		Brand:     q.Service.brand,
		RequestID: q.RequestID,
		CheckURL:  q.prefix() + "/checkcaptcha",
		Key:       token,
		Work:      string(text),
		PartURL:   q.prefix() + "/captcha/image?key=" + token,
		Press:     asked.step == steps.Press && !asked.move,
	}
}

// showChecking renders the page. referrer is its Referrer-Policy, if it needs one of its own.
func (c *Captcha) showChecking(q *Request, p *params, page *templates.CheckPage, asked question, referrer string, at time.Time) Response {
	lang := c.language(q, p)
	a := c.html(q, 200, verdictCaptcha, lang)
	a.set("Content-Security-Policy", q.Service.brand.CheckCSP())
	if referrer != "" {
		a.set("Referrer-Policy", referrer)
	}
	c.probe(q, &a, c.probeOf(q))
	if p != nil {
		c.rememberLang(q, &a, p)
	}
	body, err := lang.AppendCheck(make([]byte, 0, 12<<10), page)
	if err != nil {
		return c.fault(q, err)
	}
	c.setPage(q, &a, body)
	a.Outcome = OutcomeShown
	shown := waySilent
	if page.Press {
		shown = wayPress
	}
	c.count.shown["page"].Inc()
	if !asked.move {
		c.noteShown(q, shown, at)
	}
	return a
}
