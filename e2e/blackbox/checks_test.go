package blackbox

import (
	"slices"
	"strings"
	"time"
)

// Check is the expectation of a case.
type Check = func(x *X, c *Client)

// refused expects an error from the proxy itself, a closed connection, and a service that saw nothing. The status must be
// one of codes; default 400.
func refused(codes ...int) Check {
	if len(codes) == 0 {
		codes = []int{400}
	}
	return func(x *X, c *Client) {
		p := c.TryRecv("GET")
		if p == nil {
			x.Errorf("closed without an answer, wanted %v", codes)
		} else if !slices.Contains(codes, p.Status) {
			x.Errorf("status %d, wanted %v; the service saw %s", p.Status, codes, describe(x.Seen()))
		}
		c.MustEnd()
		time.Sleep(settle)
		if seen := x.Seen(); len(seen) > 0 {
			x.Errorf("the service saw %s", describe(seen))
		}
	}
}

// neverWhole is for a body that turns out to be broken while it streams: the service may have seen its beginning, but never
// a complete request; the client gets a 4xx, or at least its connection is closed.
func neverWhole(x *X, c *Client) {
	if p := c.TryRecv("GET"); p != nil {
		if p.Status < 400 || p.Status > 499 {
			x.Errorf("status %d, wanted 4xx; the service saw %s", p.Status, describe(x.Seen()))
		}
	}
	c.MustEnd()
	time.Sleep(settle)
	seen := x.Seen()
	if len(seen) > 1 {
		x.Errorf("the service saw more than one request: %s", describe(seen))
	}
	for _, q := range seen {
		if q.Complete {
			x.Errorf("the service saw a complete request: %s", describe(seen))
		}
	}
}

// forwarded expects exactly one clean request at the service and a 200 for the client; more checks further.
func forwarded(more ...func(x *X, q *Req)) Check {
	return func(x *X, c *Client) {
		p := c.Recv("GET")
		if p.Status != 200 || !p.Complete {
			x.Errorf("status %d complete %v, wanted 200", p.Status, p.Complete)
		}
		once(x, more...)
	}
}

// once expects exactly one clean request at the service.
func once(x *X, more ...func(x *X, q *Req)) {
	seen := x.Seen()
	if len(seen) != 1 || !seen[0].Complete || seen[0].Err != "" {
		x.Errorf("the service saw %s, wanted one complete request", describe(seen))
		return
	}
	for _, f := range more {
		f(x, &seen[0])
	}
}

// refusedOr accepts a refusal with any 4xx or 5xx from the proxy itself, with the connection closed and the service
// untouched; otherwise what safe accepts.
func refusedOr(safe Check) Check {
	return func(x *X, c *Client) {
		c.SetReadDeadline(time.Now().Add(c.x.within()))
		b, _ := c.R.Peek(12)
		if len(b) == 12 && (b[9] == '4' || b[9] == '5') {
			refused(400, 403, 404, 405, 411, 413, 414, 421, 431, 501, 505)(x, c)
			return
		}
		safe(x, c)
	}
}

// brokenOr accepts neverWhole, or else what safe accepts.
func brokenOr(safe Check) Check {
	return func(x *X, c *Client) {
		c.SetReadDeadline(time.Now().Add(c.x.within()))
		b, _ := c.R.Peek(12)
		if len(b) == 12 && b[9] == '2' {
			safe(x, c)
			return
		}
		neverWhole(x, c)
	}
}

// one is a safe reading: one request with this body.
func one(body string) Check {
	return forwarded(func(x *X, q *Req) {
		if q.Body != body {
			x.Errorf("the service got the body %q, wanted %q", clip(q.Body), clip(body))
		}
	})
}

// oneClosed is one, and the client's connection ends afterwards without another byte.
func oneClosed(body string) Check {
	f := one(body)
	return func(x *X, c *Client) {
		f(x, c)
		c.MustEnd()
	}
}

// noSmuggled expects that no request for /smuggled reached the service and nobody got an answer to it.
func noSmuggled(x *X, c *Client) {
	for i := 0; ; i++ {
		c.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
		if _, err := c.R.Peek(1); err != nil {
			break
		}
		p := c.TryRecv("GET")
		if p == nil {
			break
		}
		if strings.Contains(p.Body, "/smuggled") {
			x.Errorf("the client got an answer for the smuggled request")
		}
		if i > 5 {
			break
		}
	}
	time.Sleep(settle)
	for _, q := range x.Seen() {
		if strings.Contains(q.Target, "smuggled") {
			x.Errorf("the service saw the smuggled request: %s", describe(x.Seen()))
		}
	}
}

// field expects exactly these values of a field at the service.
func field(name string, want ...string) func(x *X, q *Req) {
	return func(x *X, q *Req) {
		if got := q.Fields.All(name); !slices.Equal(got, want) {
			x.Errorf("%s reached the service as %q, wanted %q", name, got, want)
		}
	}
}

// noField expects that the service does not see a field.
func noField(names ...string) func(x *X, q *Req) {
	return func(x *X, q *Req) {
		for _, n := range names {
			if q.Fields.Has(n) {
				x.Errorf("%s reached the service: %q", n, q.Fields.All(n))
			}
		}
	}
}

// target expects the request target byte for byte.
func target(want string) func(x *X, q *Req) {
	return func(x *X, q *Req) {
		if q.Target != want {
			x.Errorf("the target reached the service as %q, wanted %q", clip(q.Target), clip(want))
		}
	}
}

// answered expects a complete answer with this status; more checks further.
func answered(status int, more ...func(x *X, p *Resp)) Check {
	return func(x *X, c *Client) {
		p := c.Recv("GET")
		if p.Status != status || !p.Complete {
			x.Errorf("status %d complete %v (%v), wanted %d", p.Status, p.Complete, p.Err, status)
		}
		for _, f := range more {
			f(x, p)
		}
	}
}

// got expects exactly these values of a field at the client.
func got(name string, want ...string) func(x *X, p *Resp) {
	return func(x *X, p *Resp) {
		if v := p.Fields.All(name); !slices.Equal(v, want) {
			x.Errorf("%s reached the client as %q, wanted %q", name, v, want)
		}
	}
}

// body expects this body at the client.
func body(want string) func(x *X, p *Resp) {
	return func(x *X, p *Resp) {
		if p.Body != want {
			x.Errorf("the client got the body %q, wanted %q", clip(p.Body), clip(want))
		}
	}
}

// badGateway expects a 502 from the proxy itself that reveals none of the service's bytes.
func badGateway(leaks ...string) Check {
	return func(x *X, c *Client) {
		p := c.Recv("GET")
		if p.Status != 502 || !p.Complete {
			x.Errorf("status %d complete %v, wanted 502", p.Status, p.Complete)
		}
		for _, l := range leaks {
			if strings.Contains(p.Head, l) || strings.Contains(p.Body, l) {
				x.Errorf("the client saw %q", l)
			}
		}
	}
}

// cut expects that an answer which the service did not finish does not look finished.
func cut(x *X, c *Client) {
	p := c.TryRecv("GET")
	if p != nil && p.Status < 500 && p.Complete && p.Framing != "close" {
		x.Errorf("a cut answer looks whole: %d, %d bytes", p.Status, len(p.Body))
	}
	if p != nil && p.Framing == "close" && p.Complete {
		x.Errorf("a cut answer was ended like a whole one")
	}
	c.MustEnd()
}

// drain reads the remaining answers, so that a request in progress does not reach the service in the next case.
func drain(_ *X, c *Client) {
	for !c.Silent(150 * time.Millisecond) {
		if c.TryRecv("GET") == nil {
			return
		}
	}
}
