package identity

import (
	"slices"
	"strings"
	"testing"
	"time"

	"antirobot/spravka"
)

// TestTossedCookiesHideNothing: cookies that a sibling domain sets in a browser, including sealed ones of its own, do
// not lock a person out.
func TestTossedCookiesHideNothing(t *testing.T) {
	b, s := newBench(t, nil), newService(t, func(c *ServiceConfig) { c.Domain = "" })
	here := spravka.ScopeOf("www.example.com")
	pass := func(born time.Time) string { return b.pass(born, func(p *spravka.Pass) { p.Scope = here }) }
	good, expired, old := pass(start), pass(start.Add(-40*day)), start.Add(-2*day)
	foreign := b.pass(start, func(p *spravka.Pass) { p.Scope = spravka.ScopeOf("evil.example.com") })
	i, session := b.i(old, func(c *iCookie) { c.scope = here }), signed(t, "sid", "x", old)
	junk := func(cookie string, n int) []string { return slices.Repeat([]string{cookie}, n) }
	f := func(what, want string, passes int, cookies ...[]string) {
		t.Helper()
		var id Identity
		b.Resolve(&id, page(start, "203.0.113.7", slices.Concat(cookies...)...), s)
		if got, _, _ := strings.Cut(told(&id), " -"); got != want || id.NPasses != passes {
			t.Errorf("%s: got %q with %d passes, want %q with %d", what, got, id.NPasses, want, passes)
		}
	}
	f("four", "spravka ip", 1, junk("spravka=junk", 4), []string{good})
	f("fifty, well-formed", "spravka ip", 1, junk(expired, 25), junk(foreign, 25), []string{good})
	f("between", "spravka ip", 1, junk(foreign, 20), []string{good}, junk(expired, 20))
	f("the other kinds with a seal", "i service ip", 0, junk("i=junk", 10), junk("sid=junk", 10), []string{i, session})
	f("more than are tried", "ip", 0, junk("spravka="+strings.Repeat("x", 500), maxTried/500+1), []string{good})
	host := hostPrefix + good
	f("set by this host, more than are tried", "spravka ip", 1, junk("spravka="+strings.Repeat("x", 500),
		maxTried/500+1), []string{host})
	f("both names", "spravka ip", 1, []string{good, host})

	// Somebody else's valid passes: the one that only this host can set comes first.
	var others []string
	for range 6 {
		others = append(others, pass(start))
	}
	token := pass(start)
	var id Identity
	b.Resolve(&id, page(start, "203.0.113.7", token), s)
	mine := id.Passes[0]
	b.Resolve(&id, page(start, "203.0.113.7", slices.Concat(others, []string{hostPrefix + token, token})...), s)
	if id.NPasses != maxPasses || id.Passes[0] != mine || id.Winner().ID != mine.ID {
		t.Errorf("%d passes, the first one mine: %t", id.NPasses, id.Passes[0] == mine)
	}
}

// TestHostCookieIsOfOneHost: a pass for a whole domain has no such name.
func TestHostCookieIsOfOneHost(t *testing.T) {
	b := newBench(t, nil)
	whole := newService(t, func(c *ServiceConfig) { c.Domain = "example.com" })
	if name := whole.HostSpravkaCookie(); name != "" {
		t.Errorf("it is called %q", name)
	}
	var id Identity
	b.Resolve(&id, page(start, "203.0.113.7", hostPrefix+b.pass(start, nil)), whole)
	if told(&id) != "ip" {
		t.Errorf("read all the same: %s", told(&id))
	}
	if names := newService(t, func(c *ServiceConfig) { c.Domain = "" }).OwnCookies(); !slices.Contains(
		names, "__Host-spravka",
	) {
		t.Errorf("the service gets it: %v", names)
	}
}
