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

// freshJSON returns another challenge. A script that sends its visitor to the captcha page says here where the visitor is
// now: retpath is read as X-Retpath-Y is.
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

// checkPage answers a visitor of the captcha page: on to their destination, or back to a new picture.
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
		a = c.pages.seeOther(q, q.Base+q.Service.showURL(&l, "status", status, "lang", p.lang, "key", next, fieldStep, c.asks.instead(q, p, at), fieldStay, r.stay()))
	}
	r.note(&a)
	return a
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
