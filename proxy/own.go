package proxy

import (
	"bytes"
	"errors"

	"antirobot/captcha"
	"antirobot/proxy/h1"
	"antirobot/verdict"
)

// ownPage is one of the gateway's own pages on a protected host.
type ownPage struct {
	path   string
	prefix bool // everything below path, too
	serve  func(c *captcha.Captcha, q *captcha.Request) captcha.Answer
}

// ownPages are the pages under one path prefix.
type ownPages []ownPage

func newOwnPages(prefix string) ownPages {
	return ownPages{
		{path: prefix + "/showcaptcha", serve: (*captcha.Captcha).Page},
		{path: prefix + "/checkcaptcha", serve: (*captcha.Captcha).Check},
		{path: prefix + "/xcheckcaptcha", serve: (*captcha.Captcha).XCheck},
		{path: prefix + "/captcha/image", serve: (*captcha.Captcha).Image},
		{path: prefix + "/captcha/audio", serve: (*captcha.Captcha).Audio},
		{path: prefix + "/captcha/", prefix: true, serve: (*captcha.Captcha).Static},
	}
}

// find returns the page at path, compared byte by byte; nil if the path belongs to the service.
func (p ownPages) find(path []byte) *ownPage {
	for i := range p {
		if string(path) == p[i].path || p[i].prefix && bytes.HasPrefix(path, []byte(p[i].path)) {
			return &p[i]
		}
	}
	return nil
}

// serveOwn answers one of the gateway's own pages. They are open to robots, which is their purpose, but not to those
// who are blocked.
func (j *journey) serveOwn(p *ownPage) {
	j.own = true
	j.decideQuietly()
	if j.decision.Verdict == verdict.Blocked && j.svc.Verdict.Mode == verdict.Enforce {
		j.enforce()
		return
	}
	q := j.request()
	if string(j.view.Method) == "POST" {
		body, err := j.x.ReadBody(j.snap.Captcha.MaxCheckBody())
		switch {
		case errors.Is(err, h1.ErrBodyTooLarge):
			j.reply(j.snap.Captcha.PlainPage(q, captcha.PageTooLarge))
			return
		case err != nil:
			j.failure = err
			j.reply(j.snap.Captcha.PlainPage(q, captcha.PageBadRequest))
			return
		}
		q.Body = body
	}
	a := p.serve(j.snap.Captcha, q)
	j.noteOutcome(a.Outcome)
	if a.Resend != nil {
		j.forward(&a)
		return
	}
	j.reply(a)
}
