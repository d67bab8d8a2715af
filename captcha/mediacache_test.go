package captcha

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"antirobot/identity"
)

func TestMediaCache(t *testing.T) {
	m := newMediaCache(10 * (1000 + renderedCost))
	made := 0
	get := func(n byte) {
		t.Helper()
		body, err := m.get(mediaKey{nonce: [16]byte{n}}, 0, func() ([]byte, error) {
			made++
			return bytes.Repeat([]byte{n}, 1000), nil
		})
		if err != nil || len(body) != 1000 || body[0] != n {
			t.Fatalf("%d bytes, %v", len(body), err)
		}
	}
	for n := range byte(10) {
		get(n)
	}
	get(0) // the latest now
	if made != 10 {
		t.Fatalf("%d made", made)
	}
	get(10)
	get(0)
	if made != 11 {
		t.Errorf("the latest was forgotten")
	}
	get(1) // evicted to make room
	if made != 12 || m.used > m.most || len(m.made) != 10 || m.order.Len() != 10 {
		t.Errorf("%d made, %d bytes in %d entries", made, m.used, len(m.made))
	}
	_, err := m.get(mediaKey{nonce: [16]byte{99}}, 0, func() ([]byte, error) { return nil, errors.New("no") })
	if err == nil || len(m.under) != 0 || len(m.made) != 10 {
		t.Errorf("a failure was kept: %v", err)
	}
	m = newMediaCache(0)
	get(1)
	if len(m.made) != 0 {
		t.Error("kept more than nothing")
	}
}

// TestMediaCacheMakesOnce: concurrent callers wait for the rendering in progress.
func TestMediaCacheMakesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMediaCache(1 << 20)
		made := 0
		var late error
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				wait := 2 * time.Second
				if i == 19 {
					time.Sleep(time.Millisecond)
					wait = time.Millisecond
				}
				_, err := m.get(mediaKey{}, wait, func() ([]byte, error) {
					time.Sleep(time.Second)
					made++
					return []byte("x"), nil
				})
				if i == 19 {
					late = err
				} else if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if made != 1 || !errors.Is(late, errBusy) {
			t.Errorf("made %d times; who could not wait: %v", made, late)
		}
	})
}

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
	if made, again := e.c.count.media[picture]["made"].Get(), e.c.count.media[picture]["again"].Get(); made != 1 || again != 2 {
		t.Errorf("made %d times, %d from memory", made, again)
	}
}

// TestMediaAreCountedByKey: a key that is passed around gets no more pictures than one in a single hand.
func TestMediaAreCountedByKey(t *testing.T) {
	e := newEnv(t, func(c *Config, _ *ServiceConfig, _ *identity.ServiceConfig) {
		c.Rates.Key = Rate{PerMinute: 6, Burst: 10}
	})
	_, fields := e.visit("https://example.com/")
	ask := func(ask func(*Request) Response, i int) Response {
		return ask(e.request("GET", "https://example.com/captcha/image?key="+fields.Get("key"), from(fmt.Sprintf("203.0.113.%d", i))))
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
