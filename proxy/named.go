package proxy

import "antirobot/captcha"

// redirect sends a page's visitor to the captcha page. If only one client of the address is to be asked, and the browser
// has no name of ours yet, it is given one: with that it is somebody else, and is led back.
func (c *Case) redirect(q *captcha.Request) captcha.Response {
	cookie := c.name()
	q.Named = cookie != nil
	a := c.snap.Captcha.Redirect(q)
	if q.Named {
		a.Header = append(a.Header, captcha.HeaderField{Name: string(nameSetCookie), Value: string(cookie)})
	}
	return a
}

// name returns the browser cookie for a visitor who may be taken for the one client that is asked; nil for none.
func (c *Case) name() []byte {
	if _, has := c.id.Browser(); has || !c.decision.OneClient() {
		return nil
	}
	return c.Cookie()
}

// Named returns the browser cookie that a refused request was given, as the value of Set-Cookie; nil for none. With it the
// visitor is led back at once. It is valid until the next call.
func (c *Case) Named() []byte {
	if !c.ask.Named {
		return nil
	}
	return c.cookie
}
