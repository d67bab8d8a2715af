package captcha

import (
	"time"

	"antirobot/templates"
)

// Check handles /checkcaptcha.
func (c *Captcha) Check(q *Request) Response {
	switch q.method() {
	case "OPTIONS":
		return c.pages.preflight(q)
	case "GET", "POST":
	default:
		return c.pages.notAllowed(q, "GET, POST, OPTIONS")
	}
	at := c.now()
	p := readParams(q)
	p.choose(q)
	switch asScript := wantsJSON(q, &p); {
	case q.BodyTooLarge && asScript:
		return c.Failed(q, 413, ReadsJSON)
	case q.BodyTooLarge:
		return c.Failed(q, 413, ReadsPage)
	case asScript:
		return c.checkJSON(q, &p, at)
	}
	if p.saved != "" {
		return c.forms.checkForm(q, &p, at)
	}
	return c.checkPage(q, &p, at)
}

func (c *Captcha) checkJSON(q *Request, p *params, at time.Time) Response {
	if p.fresh != "" { // another picture: nothing was answered
		return c.freshJSON(q, p, at)
	}
	r := c.answers.judge(q, channelPage, p, at)
	var a Response
	switch r.state {
	case stateSolved, stateMoved, stateLost:
		a = c.pages.own(q, 200, typeJSON, verdictCaptcha)
		c.pages.cors(q, &a)
		c.answers.addPass(q, &a, &r)
		c.probes.noteSolved(q, &a, at)
		a.Body = []byte(solvedJSON)
	case stateLimited, stateUnavailable:
		a = c.pages.limitedJSON(q, r.status(), r.wait)
	default:
		l := p.link()
		c.links.follow(q, &l, r.keyOrNil(), at)
		if r.opened {
			q.Require = max(q.least(), r.key.asked)
		}
		a = c.asks.challengeJSON(q, &l, &r, 200, at)
	}
	r.note(&a)
	return a
}

// freshJSON is another challenge. A script that sends its visitor to the captcha page names the visitor's present URL
// in retpath, which is read like X-Retpath-Y.
func (c *Captcha) freshJSON(q *Request, p *params, at time.Time) Response {
	l := p.link()
	if to, ok := q.readRetpath(p.retpath); ok && p.s == "" {
		l = c.links.signLink(q, to, false, at)
	} else {
		c.links.follow(q, &l, nil, at)
	}
	if p.kind == kindWork && q.offersWork() {
		return c.asks.workJSON(q, &l, at)
	}
	if k, _, err := c.issuer.open(q, p.key, at); err == nil {
		q.Require = max(q.least(), k.asked)
	}
	return c.asks.challengeJSON(q, &l, nil, 200, at)
}

// checkPage leads a visitor of the captcha page on to the destination, or back to a new picture.
func (c *Captcha) checkPage(q *Request, p *params, at time.Time) Response {
	l := p.link()
	if p.fresh != "" || p.toLang != "" || p.step != "" { // a language or digits were chosen: nothing was answered
		if p.back != "" {
			return c.asks.tooLargePage(q, p, templates.ProblemNone, at)
		}
		c.links.follow(q, &l, nil, at)
		return c.pages.seeOther(q, q.Base+q.Service.showURL(&l, "lang", p.lang, fieldStep, c.asks.instead(q, p, at)))
	}
	r := c.answers.judge(q, channelPage, p, at)
	to := c.links.follow(q, &l, r.keyOrNil(), at)
	var a Response
	switch r.state {
	case stateSolved, stateMoved, stateHas, stateLost:
		if p.back != "" {
			a = c.pages.message(q, p, 200, verdictCaptcha, templates.GoBack, "")
		} else {
			a = c.pages.seeOther(q, to)
		}
		if r.state != stateHas {
			c.answers.addPass(q, &a, &r)
			c.probes.noteSolved(q, &a, at)
		}
	case stateLimited:
		a = c.pages.limited(q, p, r.wait, q.againURL(p, &l, &r))
	case stateUnavailable:
		a = c.pages.message(q, p, 503, verdictCaptcha, templates.Unavailable, q.showPath(&l))
		a.after(r.wait)
	default:
		if p.back != "" {
			a = c.asks.tooLargePage(q, p, r.problem(), at)
			break
		}
		status := string(r.problem())
		next := ""
		if r.state == stateNext {
			next = c.issuer.seal(q, r.next, l.url, at)
		}
		if status == string(templates.ProblemUsed) {
			status = "failed"
		}
		a = c.pages.seeOther(q, q.Base+q.Service.showURL(&l, "status", status, "lang", p.lang, "key", next, fieldStep,
			c.asks.instead(q, p, at), fieldStay, r.stay()))
	}
	r.note(&a)
	return a
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
		who, partner = r.key.addr, r.key.partner // the partner's "key" parameter is the captcha's here
	}
	a := c.asks.challengeXML(q, who, partner, "failed", at)
	r.note(&a)
	return a
}
