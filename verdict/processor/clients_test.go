package processor

import (
	"testing"
	"time"

	"antirobot/identity"
)

// TestCallsShowNobody: a browser that begins anew with each page brings the cookie that it has just been given with the calls of that page.
// Only who comes back for another page with one is somebody.
func TestCallsShowNobody(t *testing.T) {
	clients := func(back bool) float32 {
		var s session
		for i := range 10 {
			e := event(time.Unix(1.8e9+int64(60*i), 0), 1)
			s.turn(e, true)
			e.Browser = uint32(1 + i)
			s.turn(e, back)
		}
		return s.clients()
	}
	if got := clients(false); got != 1 {
		t.Errorf("the calls of ten pages show %.1f clients", got)
	}
	if got := clients(true); got < 8 {
		t.Errorf("ten people who go on to a second page are %.1f clients", got)
	}
}

// TestUnnamedAreMany: where the people of an address are known by their cookies, those who keep none are several, as far as they load the
// parts of pages. Who has a cookie, and who loads no parts, is one.
func TestUnnamedAreMany(t *testing.T) {
	clients := func(settled int, parts uint32, subjects ...identity.Subject) float32 {
		e := event(time.Unix(1.8e9, 0), 1, subjects...)
		c := &evidence{e: e, usual: 5, settled: settled}
		for i := range 50 {
			e.At = e.At.Add(time.Minute)
			e.Path = uint64(i) * 0x9e3779b97f4a7c15
			c.s.turn(e, true)
		}
		c.s.parts = parts
		return c.clients()
	}
	if got := clients(32, 250); got != 4 {
		t.Errorf("at an address with 32 people who are known %.1f read without cookies", got)
	}
	for name, got := range map[string]float32{"nobody is known": clients(0, 250), "no parts": clients(32, 0), "a cookie": clients(32, 250, cookie(1))} {
		if got != 1 {
			t.Errorf("%s: %.1f read", name, got)
		}
	}
}
