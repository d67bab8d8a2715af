package captcha

import (
	"fmt"
	"testing"
	"time"

	"antirobot/captcha/media"
)

// TestMediaAreForWhomTheyWereMade: only the network that got the key, or its browser, gets the media; each is rendered
// once.
func TestMediaAreForWhomTheyWereMade(t *testing.T) {
	e := newEnv(t, nil)
	page, fields := e.visit("https://example.com/")
	probe := header("Cookie", "antirobot_probe="+value(cookies(&page)["antirobot_probe"]))
	get := func(opts ...opt) Response {
		return e.c.Image(e.request("GET", "https://example.com/captcha/image?key="+fields.Get("key"), opts...))
	}
	for what, c := range map[string]struct {
		opts   []opt
		status int
	}{
		"the same address":              {nil, 200},
		"the same network":              {[]opt{from("203.0.113.99")}, 200},
		"another network":               {[]opt{from("198.51.100.1")}, 404},
		"the same browser over IPv6":    {[]opt{from("2001:db8::1"), probe}, 200},
		"another browser over IPv6":     {[]opt{from("2001:db8::1"), header("Cookie", "antirobot_probe=AAAAAAAAAAAAAAAAAAAAAA.0")}, 404},
		"another network with no probe": {[]opt{from("203.0.114.7"), header("Cookie", "antirobot_probe=")}, 404},
	} {
		if a := get(c.opts...); a.Status != c.status {
			t.Errorf("%s: status %d", what, a.Status)
		}
	}
	if made, again := e.c.count.media[media.Picture]["made"].Get(), e.c.count.media[media.Picture]["again"].Get(); made != 1 ||
		again != 2 {
		t.Errorf("made %d times, %d from memory", made, again)
	}
}

// TestMediaAreCountedByKey: a key that is passed around gets no more pictures than one in a single hand.
func TestMediaAreCountedByKey(t *testing.T) {
	e := newEnv(t, nil, func(b *bounds) { b.media = rate{6, 10} })
	_, fields := e.visit("https://example.com/")
	ask := func(ask func(*Request) Response, i int) Response {
		return ask(e.request("GET", "https://example.com/captcha/image?key="+fields.Get("key"),
			from(fmt.Sprintf("203.0.113.%d", i))))
	}
	for i := range 10 {
		if a := ask(e.c.Image, i); a.Status != 200 {
			t.Fatalf("%d: status %d", i, a.Status)
		}
	}
	if a := ask(e.c.Image, 11); a.Status != 429 || a.Get("Retry-After") != "10" || len(a.Body) == 0 {
		t.Errorf("status %d, Retry-After %q", a.Status, a.Get("Retry-After"))
	}
	if a := ask(e.c.Audio, 11); a.Status != 200 {
		t.Errorf("the sound of the same key: %d", a.Status)
	}
	e.pass(10 * time.Second)
	if a := ask(e.c.Image, 11); a.Status != 200 {
		t.Errorf("later: %d", a.Status)
	}
}
