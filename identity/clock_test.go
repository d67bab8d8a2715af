package identity

import (
	"strings"
	"testing"
	"time"

	"antirobot/spravka"
	"antirobot/store"
)

// slowStore is a shared store whose clock is right at a gateway whose own is ahead.
type slowStore struct {
	*store.Memory
	ahead time.Duration // of this gateway's clock
}

func (s *slowStore) Skew() time.Duration { return -s.ahead }

// TestCookiesGoByTheStoresClock: a gateway whose clock is an hour ahead, or behind, accepts for as long as the others
// what they made, makes what they accept, and finds nothing older than it is.
func TestCookiesGoByTheStoresClock(t *testing.T) {
	s := newService(t, nil)
	for _, ahead := range []time.Duration{time.Hour, -time.Hour} {
		right, wrong := newBench(t, nil), newBench(t, nil)
		wrong.store = &slowStore{store.NewMemory(nil), ahead}
		wrong.use(t, right.keys.Ring())
		pass := right.pass(start, func(p *spravka.Pass) { p.Expires = start.Add(10 * time.Minute).Unix() })
		for name, old := range map[string]time.Duration{"spravka": 9 * time.Minute, "-spravka:expired": 11 * time.Minute} {
			var id Identity
			wrong.Resolve(&id, page(start.Add(old+ahead), "192.0.2.1", pass), s)
			if got := told(&id); !strings.Contains(" "+got, " "+name) {
				t.Errorf("%v ahead, a pass of ten minutes after %v: %s", ahead, old, got)
			}
		}
		made := func(by *bench, at time.Time) string {
			var id Identity
			v := page(at, "192.0.2.1")
			by.Resolve(&id, v, s)
			return strings.SplitN(string(by.MintI(nil, &id, v, s)), ";", 2)[0]
		}
		const age = 30 * time.Minute
		for name, c := range map[string]struct {
			by     *bench
			cookie string
			at     time.Time // at which it comes back, by the clock of who gets it
		}{
			"made at a right gateway": {wrong, made(right, start), start.Add(age + ahead)},
			"made at a wrong one":     {right, made(wrong, start.Add(ahead)), start.Add(age)},
			"made at its own":         {wrong, made(wrong, start.Add(ahead)), start.Add(age + ahead)},
		} {
			var id Identity
			c.by.Resolve(&id, page(c.at, "192.0.2.1", c.cookie), s)
			if got := c.at.Sub(time.Unix(id.IBirth, 0)); got != age {
				t.Errorf("%v ahead, a cookie %s: %v old, want %v", ahead, name, got, age)
			}
		}
	}
}
