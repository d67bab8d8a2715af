package captcha

import (
	"time"

	"antirobot/templates"
)

// Check handles /checkcaptcha.
func (c *Captcha) Check(q *Request) Response {
	switch q.method() {
	case "OPTIONS":
		return c.preflight(q)
	case "GET", "POST":
	default:
		return c.notAllowed(q, "GET, POST, OPTIONS")
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
		return c.checkForm(q, &p, at)
	}
	return c.checkPage(q, &p, at)
}

func (c *Captcha) checkJSON(q *Request, p *params, at time.Time) Response {
	if p.fresh != "" { // another picture: nothing was answered
		return c.freshJSON(q, p, at)
	}
	r := c.judge(q, channelPage, p, at)
	var a Response
	switch r.state {
	case stateSolved, stateMoved, stateLost:
		a = c.own(q, 200, typeJSON, verdictCaptcha)
		c.cors(q, &a)
		c.addPass(q, &a, &r)
		c.noteSolved(q, &a, at)
		a.Body = []byte(solvedJSON)
	case stateLimited, stateUnavailable:
		a = c.limitedJSON(q, r.status(), r.wait)
	default:
		l := p.link()
		c.follow(q, &l, r.keyOrNil(), at)
		if r.opened {
			q.Require = max(q.least(), r.key.asked)
		}
		a = c.challengeJSON(q, &l, &r, 200, at)
	}
	r.note(&a)
	return a
}

// freshJSON returns another challenge. A script that sends its visitor to the captcha page says here where the visitor is
// now: retpath is read as X-Retpath-Y is.
func (c *Captcha) freshJSON(q *Request, p *params, at time.Time) Response {
	l := p.link()
	if to, ok := q.readRetpath(p.retpath); ok && p.s == "" {
		l = c.signLink(q, to, false, at)
	} else {
		c.follow(q, &l, nil, at)
	}
	if p.kind == kindWork && q.offersWork() {
		return c.workJSON(q, &l, at)
	}
	if k, _, err := c.open(q, p.key, at); err == nil {
		q.Require = max(q.least(), k.asked)
	}
	return c.challengeJSON(q, &l, nil, 200, at)
}

// checkPage answers a visitor of the captcha page: on to their destination, or back to a new picture.
func (c *Captcha) checkPage(q *Request, p *params, at time.Time) Response {
	l := p.link()
	if p.fresh != "" || p.toLang != "" || p.step != "" { // a language or digits were chosen: nothing was answered
		if p.back != "" {
			return c.tooLargePage(q, p, templates.ProblemNone, at)
		}
		c.follow(q, &l, nil, at)
		return c.seeOther(q, q.Base+q.Service.showURL(&l, "lang", p.lang, fieldStep, c.instead(q, p, at)))
	}
	r := c.judge(q, channelPage, p, at)
	to := c.follow(q, &l, r.keyOrNil(), at)
	var a Response
	switch r.state {
	case stateSolved, stateMoved, stateHas, stateLost:
		if p.back != "" {
			a = c.message(q, p, 200, verdictCaptcha, templates.GoBack, "")
		} else {
			a = c.seeOther(q, to)
		}
		if r.state != stateHas {
			c.addPass(q, &a, &r)
			c.noteSolved(q, &a, at)
		}
	case stateLimited:
		a = c.limited(q, p, r.wait, q.againURL(p, &l, &r))
	case stateUnavailable:
		a = c.message(q, p, 503, verdictCaptcha, templates.Unavailable, q.showPath(&l))
		a.after(r.wait)
	default:
		if p.back != "" {
			a = c.tooLargePage(q, p, r.problem(), at)
			break
		}
		status := string(r.problem())
		next := ""
		if r.state == stateNext {
			next = c.seal(q, r.next, l.url, at)
		}
		if status == string(templates.ProblemUsed) {
			status = "failed"
		}
		a = c.seeOther(q, q.Base+q.Service.showURL(&l, "status", status, "lang", p.lang, "key", next, fieldStep, c.instead(q, p, at), fieldStay, r.stay()))
	}
	r.note(&a)
	return a
}

// seeOther redirects: with 303 after a POST, so that a reload repeats nothing, otherwise with 302.
func (c *Captcha) seeOther(q *Request, to string) Response {
	code := 302
	if q.method() == "POST" {
		code = 303
	}
	a := c.own(q, code, "", verdictCaptcha)
	a.add("Location", to)
	a.add("Referrer-Policy", "no-referrer")
	return a
}
