package captcha

// Link is the absolute URL of the captcha page for q, for a balancer that leads the visitor there itself. It hands out
// no probe cookie, and so the page does not conclude from a missing one that the browser keeps none.
func (c *Captcha) Link(q *Request) string {
	l := c.signLink(q, q.wanted(), false, c.now())
	c.count.shown["redirect"].Inc()
	return q.Base + q.Service.showURL(&l)
}

// Original is the absolute URL of q itself, fit for a Location.
func (q *Request) Original() string { return q.original() }

// Headers are the names of the fields that answers carry.
func (c *Captcha) Headers() HeadersConfig { return c.cfg.Headers }
