package h1

import (
	"strings"
	"testing"

	"antirobot/proxy/h1/wire"
)

// TestHighBytes: what the service gets of a target with bytes of 0x80 and above, by the key that says so.
func TestHighBytes(t *testing.T) {
	f := func(mode, target, want string) {
		t.Helper()
		var seen string
		s := newService(t, func(k *talk) {
			line, _, _ := strings.Cut(k.head(), "\r\n")
			seen = line
			k.say(okAnswer)
		})
		g := newGateway(t, s, setup{cfg: func(c *Config) { c.HighBytes, c.MaxTargetBytes = mode, 256 }})
		c := dial(t, g)
		c.say("GET " + target + " HTTP/1.1\r\nHost: a\r\n\r\n")
		status, _, _ := strings.Cut(strings.TrimPrefix(c.head(), "HTTP/1.1 "), " ")
		if got := status + " " + seen; strings.TrimSpace(got) != want {
			t.Errorf("%s of %q: %q, want %q", mode, target, got, want)
		}
	}
	f(wire.HighPass, "/\xd0\xb0?\xff", "200 GET /\xd0\xb0?\xff HTTP/1.1")
	f(wire.HighEncode, "/\xd0\xb0%2f?\xff", "200 GET /%D0%B0%2f?%FF HTTP/1.1")
	f(wire.HighEncode, "/a%zz", "200 GET /a%zz HTTP/1.1")
	f(wire.HighEncode, "/"+strings.Repeat("\xd0", 100), "414")
	f(wire.HighRefuse, "/\xd0\xb0", "400")
	f(wire.HighRefuse, "/%D0%B0", "200 GET /%D0%B0 HTTP/1.1")
}
