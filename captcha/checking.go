package captcha

import (
	"encoding/json"
	"time"

	"antirobot/templates"
)

// checkingPage is the captcha page for a step below digits.
func (ak *asks) checkingPage(q *Request, p *params, l *link, asked question, at time.Time) Response {
	lang := ak.pages.language(q, p)
	page := ak.checking(q, asked, l.url, at)
	page.Hidden = append(page.Hidden, hidden("retpath", l.url), hidden("t", l.t), hidden("u", l.u), hidden("s", l.s))
	if p.lang != "" {
		page.Hidden = append(page.Hidden, hidden("lang", lang.Tag))
	}
	page.OverURL = q.showPath(l)
	page.DigitsURL = q.showPath(l, "lang", p.lang, fieldStep, stepDigits.String())
	page.Reason = l.reason()
	if id := l.stoppedID(); id != "" {
		page.RequestID = id
	}
	return ak.showChecking(q, p, page, asked, "", at)
}

// checkingForm is the same for a page that carries a request.
func (fs *forms) checkingForm(q *Request, p *params, token string, asked question, at time.Time) Response {
	page := fs.asks.checking(q, asked, "", at)
	page.FormKept, page.Reason, page.Written, page.OverURL = true, q.Reason, q.Written, fs.links.overURL(q, at)
	page.Hidden = append(page.Hidden, hidden(fieldSaved, token))
	return fs.asks.showChecking(q, p, page, asked, "same-origin", at)
}

func (ak *asks) checking(q *Request, asked question, to string, at time.Time) *templates.CheckPage {
	token, t := ak.issuer.issueCheck(q, asked, to, at)
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
		Press:     asked.step == stepPress && !asked.move,
	}
}

// showChecking renders the page. referrer is its Referrer-Policy, if it needs one of its own.
func (ak *asks) showChecking(q *Request, p *params, page *templates.CheckPage, asked question, referrer string, at time.Time) Response {
	lang := ak.pages.language(q, p)
	a := ak.pages.html(q, 200, verdictCaptcha, lang)
	a.set("Content-Security-Policy", q.Service.brand.CheckCSP())
	if referrer != "" {
		a.set("Referrer-Policy", referrer)
	}
	ak.probes.probe(q, &a, ak.probes.probeOf(q))
	if p != nil {
		ak.pages.rememberLang(q, &a, p)
	}
	body, err := lang.AppendCheck(make([]byte, 0, 12<<10), page)
	if err != nil {
		return ak.pages.fault(q, err)
	}
	ak.pages.setPage(q, &a, body)
	a.Outcome = OutcomeShown
	shown := waySilent
	if page.Press {
		shown = wayPress
	}
	ak.count.shown["page"].Inc()
	if !asked.move {
		ak.watch.noteShown(q, shown, at)
	}
	return a
}
