package main

import (
	"maps"
	"strings"
	"testing"
	"time"

	"antirobot/config"
	"antirobot/replay"
)

// Of a hundred people who share a habit with robots so many may be stopped, and of the other people so many may meet the
// silent check, for how they arrive or for how much their network reads.
const (
	mostOddPercent    = 20
	mostGuestsPercent = 30 // challenged
	mostTakenPercent  = 6  // guests taken for robots, such as people whose mail is opened by a scanner that shares its addresses
	mostEarlyPercent  = 3
)

// leavesInPeace reports people who are stopped for no reason that these tests allow, and returns what happened to each kind.
func leavesInPeace(t *testing.T, cfg Config) map[Kind]outcome {
	t.Helper()
	f := fatesAt(t, cfg, gatewayFor(t, &cfg, replay.Deps{}, nil))
	of := byKind(f)
	early, odd, challenged, taken := map[Kind]int{}, 0, 0, 0
	for _, h := range f.hurt() {
		t.Logf("%s %d (%s) was stopped at %v after %d requests as %s, taken for a robot %v: %s", h.kind, h.number, h.habit, h.at, h.before, h.subject, h.taken, h.why)
		switch {
		case h.kind == Odd:
			odd++
		case h.kind == Guests && h.taken:
			taken++
		case h.kind == Guests:
			challenged++
		case !h.taken && (strings.HasPrefix(h.why, "arrives like") || strings.HasPrefix(h.why, "quota of")):
			early[h.kind]++
		default:
			t.Errorf("%s %d, who is not a robot, was stopped", h.kind, h.number)
		}
	}
	for k, n := range early {
		o := of[k]
		if 100*n > mostEarlyPercent*o.clients {
			t.Errorf("of %d %s %d met the silent check", o.clients, k, n)
		}
		o.stopped -= n
		of[k] = o
	}
	if n := of[Odd].clients; 100*odd > mostOddPercent*n {
		t.Errorf("of %d odd people %d were stopped", n, odd)
	}
	if n := of[Guests].clients; 100*challenged > mostGuestsPercent*n || 100*taken > mostTakenPercent*n {
		t.Errorf("of %d guests %d were challenged, %d taken for robots", n, challenged, taken)
	}
	return of
}

// TestDay: people and a verified crawler are left in peace on a day with robots, of which those that lie, hurry, or call
// all day are stopped.
func TestDay(t *testing.T) {
	for name, via := range map[string]Via{"direct": Direct, "behind nginx": Nginx} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := DefaultConfig()
			cfg.Length, cfg.WarmUp, cfg.Scale, cfg.Via = 6*time.Hour, 27*time.Hour, 0.5, via
			if via == Nginx { // all but the agents, who make half of the requests
				cfg.Kinds = []Kind{People, Office, Mobile, Odd, Guests, Crawler, Fast, Slow, Spread, Headless, Liar, API, Evasive}
			}
			if testing.Short() {
				cfg.Length, cfg.WarmUp, cfg.Scale = 2*time.Hour, 25*time.Hour, 0.1
			}
			of := leavesInPeace(t, cfg)
			for kind, want := range map[Kind]struct {
				share  float64 // of the clients, at least
				before int     // requests until the first that is stopped, at most, for the median
			}{Fast: {1, 110}, Liar: {1, 60}, API: {1, 200}, Slow: {0.8, 100}} {
				if o := of[kind]; o.clients == 0 || float64(o.stopped) < want.share*float64(o.clients) || o.before > want.before {
					t.Errorf("%s: %d of %d stopped, after %d requests; want %.0f %% after at most %d", kind, o.stopped, o.clients, o.before, 100*want.share, want.before)
				}
			}
			for _, kind := range []Kind{People, Office, Mobile, Crawler} {
				if o := of[kind]; o.requests < 500 || o.stopped > 0 {
					t.Errorf("%s: %d requests, %d stopped", kind, o.requests, o.stopped)
				}
			}
		})
	}
}

// TestOffice: of two hundred people behind one address, beside whom there are no robots, none is challenged or stopped on
// three days: those without cookies, who all have the same browser, are not taken for one reader.
func TestOffice(t *testing.T) {
	for name, w := range map[string]struct {
		site Site
		seed uint64
	}{"course": {Course, 2}, "course, the first morning": {Course, 1}, "shop": {Shop, 2}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := DefaultConfig()
			cfg.Site, cfg.Seed, cfg.Kinds, cfg.Length = w.site, w.seed, []Kind{People, Office}, 12*time.Hour
			if o := leavesInPeace(t, cfg)[Office]; o.clients != 200 || o.stopped > 0 {
				t.Errorf("of an office of %d %d were stopped or challenged", o.clients, o.stopped)
			}
		})
	}
}

// TestCallers: forty people behind one address whose page polls every three seconds, half of them without cookies, and the
// users of a site's own app are neither stopped nor challenged, on a gateway that knows nobody and on the day after.
func TestCallers(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.Kinds, cfg.WarmUp, cfg.Length = []Kind{Callers, People}, 9*time.Hour, 26*time.Hour
	least := 1000
	if testing.Short() {
		cfg.Length, least = 3*time.Hour, 500
	}
	f := fatesAt(t, cfg, gatewayFor(t, &cfg, replay.Deps{}, nil))
	maps.DeleteFunc(f, func(_ string, one *fate) bool { return one.kind != Callers })
	for habit, o := range by(f, func(one *fate) string { return one.habit }) {
		if o.requests < least {
			t.Errorf("%s: %d requests show nothing", habit, o.requests)
		}
	}
	for _, h := range f.hurt() {
		t.Errorf("%s %d is stopped at %v: %s", h.habit, h.number, h.at, h.why)
	}
}

// TestRealTimes: of people who open pages when real ones did hardly any is stopped. Those of a panel answer surveys or look
// through galleries, as evenly as robots; readers beyond their quota meet the silent check, and these run no scripts.
func TestRealTimes(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.Kinds, cfg.WarmUp, cfg.Length = []Kind{Timed}, 9*time.Hour, 16*24*time.Hour
	of := by(fatesAt(t, cfg, gatewayFor(t, &cfg, replay.Deps{}, nil)), func(one *fate) string { return one.habit })
	for habit, most := range map[string]float64{"encyclopedia": 0.005, "customers": 0, "members": 0.02} {
		if o := of[habit]; o.clients < 10 || float64(o.stopped) > most*float64(o.clients) {
			t.Errorf("of %d %s %d were stopped", o.clients, habit, o.stopped)
		}
	}
}

// TestSilentCheck: people whose network has read too much go on after a silent check, if their browsers run scripts; robots
// only if they hide that they are driven. A captcha stops all of them.
func TestSilentCheck(t *testing.T) {
	t.Parallel()
	run := func(step string, hidden bool) (people, robots outcome) {
		cfg := DefaultConfig()
		cfg.Kinds, cfg.Scale, cfg.WarmUp, cfg.Length, cfg.Hidden = []Kind{Office, Agents}, 0.15, 24*time.Hour, 4*time.Hour, hidden
		of := byKind(fatesAt(t, cfg, gatewayFor(t, &cfg, replay.Deps{}, func(c *config.Config) {
			for i := range c.Resolved {
				c.Resolved[i].Verdict.Quota = step
			}
			c.Processor.Quota.Hour, c.Processor.Quota.Day = 20, 20
		})))
		return of[Office], of[Agents]
	}
	checked, robots := run("check", false)
	solved, _ := run("captcha", false)
	_, hidden := run("check", true)
	t.Logf("people: with a check %d stopped and %d checked, with a captcha %d stopped; robots took %d checks, hidden ones %d", checked.stopped, checked.checked, solved.stopped, robots.checks, hidden.checks)
	if solved.checks != 0 || checked.checks < 5 || checked.checked == 0 || checked.challenged >= solved.challenged {
		t.Errorf("with a check %+v, with a captcha %+v", checked, solved)
	}
	if robots.checks != 0 || hidden.checks == 0 {
		t.Errorf("robots took %d checks, hidden ones %d", robots.checks, hidden.checks)
	}
}
