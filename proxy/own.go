package proxy

import "antirobot/captcha"

// Answer answers a request for one of the gateway's own pages, and opens the allowance of a pass that is earned there; body is
// what was posted.
func (c *Case) Answer(body []byte) captcha.Response {
	q := c.request()
	q.Body = body
	a := ownPage(c.snap.Captcha, c.Own(), q)
	if a.Outcome == captcha.OutcomeSolved {
		c.core.deps.Decider.Issued(&a.Pass, c.view, &c.id)
	}
	return a
}

func ownPage(c *captcha.Captcha, e captcha.Endpoint, q *captcha.Request) captcha.Response {
	switch e {
	case captcha.EndpointPage:
		return c.Page(q)
	case captcha.EndpointCheck:
		return c.Check(q)
	case captcha.EndpointEvidence:
		return c.Evidence(q)
	case captcha.EndpointEvidenceScript:
		return c.EvidenceScript(q)
	case captcha.EndpointXCheck:
		return c.XCheck(q)
	case captcha.EndpointImage:
		return c.Image(q)
	case captcha.EndpointAudio:
		return c.Audio(q)
	default:
		return c.Static(q, string(q.View.Path))
	}
}
