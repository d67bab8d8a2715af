package verdict

import (
	"context"
	"fmt"
	"testing"
	"time"

	"antirobot/cbb"
	"antirobot/verdict/bans"
)

// TestWellKnownFilesPass: what programs look for at a fixed place passes during a ban, a quota and an attack, and is stopped by what an
// operator says alone; the question of a certificate's issuer is stopped by nothing.
func TestWellKnownFilesPass(t *testing.T) {
	const acme = "/.well-known/acme-challenge/LoqXcYV8q5ONbJQxbmR7SCTNo3tiAXDfowyjxAjEuX0"
	for what, c := range map[string]struct {
		stop func(t *testing.T, w *world, s *Settings)
		want Verdict // on robots.txt
	}{
		"a ban by hand": {func(_ *testing.T, w *world, _ *Settings) { w.ban(ip("192.0.2.1")) }, Human},
		"a ban list":    {func(_ *testing.T, w *world, _ *Settings) { w.lists.Ban = &cbb.Entry{List: "ban"} }, Human},
		"a fetched list": {func(_ *testing.T, w *world, _ *Settings) {
			w.lists.Block = &cbb.Entry{List: "drop"}
		}, Human},
		"a quota": {func(_ *testing.T, w *world, s *Settings) {
			w.excess(s, "192.0.2.1")
		}, Human},
		"an attack": {func(t *testing.T, w *world, _ *Settings) {
			if _, err := w.Attack(context.Background(), time.Time{}); err != nil {
				t.Fatal(err)
			}
			w.clock.advance(2 * time.Minute)
		}, Human},
		"a throttling rule":   {func(_ *testing.T, _ *world, s *Settings) { s.Rules = ruleSays(RuleThrottle) }, Human},
		"an operator's entry": {func(_ *testing.T, w *world, _ *Settings) { w.lists.OwnBlock = &cbb.Entry{List: "block"} }, Blocked},
		"a blocking rule":     {func(_ *testing.T, _ *world, s *Settings) { s.Rules = ruleSays(RuleBlock) }, Blocked},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			s := service(t)
			c.stop(t, w, s)
			ask := func(path string) Verdict {
				v, id := newRequest(w.now(), "192.0.2.1")
				v.Path, v.Target = []byte(path), []byte(path)
				d := &Decision{}
				w.Decide(d, v, id, s)
				return d.Verdict
			}
			if got := ask("/a"); got == Human {
				t.Fatal("nothing stops a page")
			}
			for path, want := range map[string]Verdict{"/robots.txt": c.want, "/.well-known/security.txt": c.want, acme: Human} {
				if got := ask(path); got != want {
					t.Errorf("%s: %v, wanted %v", path, got, want)
				}
			}
			for n := 0; c.want == Human && ask("/robots.txt") == Human; n++ {
				if n > wellKnownFiles {
					t.Fatal("a flood of requests for robots.txt passes")
				}
			}
			w.clock.advance(time.Minute)
			if got := ask("/robots.txt"); got != c.want {
				t.Errorf("a minute later robots.txt: %v", got)
			}
		})
	}
}

// TestRetryAfter: a program is told when a limit ends, at most an hour ahead, and is refused for what will not change by waiting.
func TestRetryAfter(t *testing.T) {
	f := func(want time.Duration, ban func(w *world)) {
		t.Helper()
		w := newWorld(t)
		ban(w)
		d := w.ask(service(t), "192.0.2.1")
		if got := d.RetryAfter(w.now()); d.Verdict == Human || got != want {
			t.Errorf("%v by %v: %v, wanted %v", d.Verdict, d.Cause, got, want)
		}
	}
	judged := func(until time.Duration) func(w *world) {
		return func(w *world) {
			w.ban(ip("192.0.2.1"), func(b *bans.Ban) { b.Source, b.Score, b.Until = bans.SourceProcessor, 1, w.now().Add(until) })
		}
	}
	f(5*time.Minute, judged(5*time.Minute))
	f(time.Hour, judged(5*time.Hour))
	f(0, func(w *world) { w.ban(ip("192.0.2.1")) })
	f(0, func(w *world) { w.lists.OwnBlock = &cbb.Entry{List: "block"} })
	f(0, func(w *world) { w.lists.Ban = &cbb.Entry{List: "ban"} })
	f(0, func(w *world) { judged(5 * time.Minute)(w); w.lists.Liar = true })
	f(time.Minute, func(w *world) {
		if _, err := w.Attack(context.Background(), time.Time{}); err != nil {
			t.Fatal(err)
		}
		w.clock.advance(2 * time.Minute)
	})
	var d Decision
	d.Limit(3 * time.Second)
	if got := d.RetryAfter(day0); got != 3*time.Second || fmt.Sprint(d.Cause) != "limit" {
		t.Errorf("%v: %v", d.Cause, got)
	}
}
