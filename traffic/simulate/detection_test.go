//go:build !race

// Simulated days run in one goroutine, where the race detector finds nothing, and takes minutes.

package main

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"antirobot/config"
	"antirobot/replay"
	"antirobot/traffic"
)

// mostOddPercent is how many of a hundred people with habits of robots may meet a check: those who load no subresources.
const mostOddPercent = 20

// What may become of a hundred guests. Of the sorts that are held out some are known to be taken for robots (people whose
// mail is opened by a scanner first share its addresses): docs/measurements.md has the figures. The bound keeps it from
// getting worse; nothing is tuned to it.
const (
	mostGuestsAskedPercent = 30
	mostHeldTakenPercent   = 12
)

// mostEarlyPercent is how many of a hundred people may meet the silent check, for how they arrive or for what they read.
const mostEarlyPercent = 3

// measure runs made-up traffic through a gateway with all defaults.
func measure(t *testing.T, cfg traffic.Config) map[traffic.Kind]traffic.Outcome {
	t.Helper()
	score := rehearsed(t, cfg, replay.Deps{})
	if t.Failed() || testing.Verbose() {
		_ = score.Text(os.Stdout)
	}
	odd, asked, held := 0, 0, 0
	early := map[traffic.Kind]int{}
	for _, h := range score.Hurt() {
		if h.Kind != traffic.Odd && h.Kind != traffic.Guests && !h.Taken && (strings.HasPrefix(h.Reason, "arrives like") || strings.HasPrefix(h.Reason, "quota of")) {
			early[h.Kind]++
			t.Logf("%s %d was asked silently: %s", h.Kind, h.Client, h.Reason)
			continue
		}
		if h.Kind == traffic.Odd {
			odd++
			t.Logf("%s %d (%s) was stopped: %s [%s]", h.Kind, h.Client, h.Habit, h.Reason, h.Factors)
			continue
		}
		if h.Kind == traffic.Guests && (!h.Taken || h.Held) {
			if !h.Taken {
				asked++
			} else {
				held++
			}
			t.Logf("%s %d (%s), held out %v, taken for a robot %v: %s [%s]", h.Kind, h.Client, h.Habit, h.Held, h.Taken, h.Reason, h.Factors)
			continue
		}
		t.Errorf("%s %d, who is not a robot, was stopped at %v after %d requests as %s: %s [%s]", h.Kind, h.Client, h.At, h.Before, h.Subject, h.Reason, h.Factors)
	}
	of := map[traffic.Kind]traffic.Outcome{}
	all, guests, heldOut := 0, 0, 0
	for _, o := range score.Outcomes() {
		if 100*early[o.Kind] > mostEarlyPercent*o.Clients {
			t.Errorf("of %d %s %d met the silent check", o.Clients, o.Kind, early[o.Kind])
		}
		o.Stopped -= early[o.Kind]
		of[o.Kind] = o
		switch {
		case o.Kind == traffic.Odd:
			all += o.Clients
		case o.Kind == traffic.Guests:
			guests += o.Clients
			if o.Held {
				heldOut += o.Clients
			}
		}
	}
	if 100*odd > mostOddPercent*all {
		t.Errorf("of %d odd people %d were stopped", all, odd)
	}
	if 100*asked > mostGuestsAskedPercent*guests || 100*held > mostHeldTakenPercent*heldOut {
		t.Errorf("of %d guests %d were asked; of %d who are held out %d were taken for robots", guests, asked, heldOut, held)
	}
	return of
}

// TestDetection is the promise of docs/measurements.md with room around it: at the default settings robots of these kinds
// are stopped after so many requests, and nobody who is not a robot is.
func TestDetection(t *testing.T) {
	for name, via := range map[string]traffic.Via{"direct": traffic.Direct, "behind nginx": traffic.Nginx} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testDetection(t, via)
		})
	}
}

func testDetection(t *testing.T, via traffic.Via) {
	cfg := traffic.DefaultConfig()
	cfg.Length, cfg.WarmUp, cfg.Scale, cfg.Via = 6*time.Hour, 27*time.Hour, 0.5, via
	if via == traffic.Nginx { // all but the agents, who make half of the requests: what nginx does to fields it does to all
		cfg.Kinds = []traffic.Kind{
			traffic.People, traffic.Office, traffic.Mobile, traffic.Odd, traffic.Guests, traffic.Crawler,
			traffic.Fast, traffic.Slow, traffic.Spread, traffic.Headless, traffic.Liar, traffic.API, traffic.Evasive,
		}
	}
	if testing.Short() {
		cfg.Length, cfg.WarmUp, cfg.Scale = 2*time.Hour, 25*time.Hour, 0.1
	}
	of := measure(t, cfg)
	for kind, want := range map[traffic.Kind]struct {
		share  float64 // of the clients, at least
		before int     // requests until the first that is stopped, at most, for the median
	}{
		traffic.Fast: {1, 110},
		traffic.Liar: {1, 60},
		traffic.API:  {1, 200},
		traffic.Slow: {0.8, 100},
	} {
		o := of[kind]
		if o.Clients == 0 || float64(o.Stopped) < want.share*float64(o.Clients) || o.BeforeMedian > want.before {
			t.Errorf("%s: %d of %d stopped, after %d requests (median); want %.0f %% after at most %d", kind, o.Stopped, o.Clients, o.BeforeMedian, 100*want.share, want.before)
		}
	}
	for _, kind := range []traffic.Kind{traffic.People, traffic.Office, traffic.Mobile, traffic.Crawler} {
		if o := of[kind]; o.Requests < 500 || o.Stopped > 0 {
			t.Errorf("%s: %d requests, %d stopped", kind, o.Requests, o.Stopped)
		}
	}
}

// TestOfficeIsLeftInPeace: of two hundred people behind one address, beside whom there are no robots, nobody is asked or stopped on three
// days: those without cookies, who all have the same browser, are not taken for one reader.
func TestOfficeIsLeftInPeace(t *testing.T) {
	for name, w := range map[string]struct {
		site traffic.Site
		seed uint64
	}{"course": {traffic.Course, 2}, "course, the first morning": {traffic.Course, 1}, "shop": {traffic.Shop, 2}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := traffic.DefaultConfig()
			cfg.Site, cfg.Seed, cfg.Kinds, cfg.Length = w.site, w.seed, []traffic.Kind{traffic.People, traffic.Office}, 12*time.Hour
			if o := measure(t, cfg)[traffic.Office]; o.Clients != 200 || o.Stopped > 0 {
				t.Errorf("of an office of %d %d were stopped or asked", o.Clients, o.Stopped)
			}
		})
	}
}

// TestTrafficIsTheSame runs the same seed twice, and another.
func TestTrafficIsTheSame(t *testing.T) {
	t.Parallel()
	cfg := traffic.DefaultConfig()
	cfg.Length, cfg.WarmUp, cfg.Scale = 20*time.Minute, 2*time.Hour, 0.05
	first, second := measure(t, cfg), measure(t, cfg)
	if !reflect.DeepEqual(first, second) {
		t.Errorf("the same seed gives different figures:\n%+v\n%+v", first, second)
	}
	cfg.Seed++
	if third := measure(t, cfg); reflect.DeepEqual(first, third) {
		t.Error("another seed gives the same figures")
	}
}

// TestChecksHurtNobody: people whose network has read too much go on after a silent check, if their browsers run scripts; robots only where
// they hide that they are driven. A captcha stops all of them.
func TestChecksHurtNobody(t *testing.T) {
	t.Parallel()
	run := func(step string, hidden bool) (people, robots traffic.Outcome) {
		cfg := traffic.DefaultConfig()
		cfg.Kinds, cfg.Set, cfg.Scale, cfg.WarmUp, cfg.Length, cfg.Hidden = []traffic.Kind{traffic.Office, traffic.Agents}, traffic.Tuning, 0.15, 24*time.Hour, 4*time.Hour, hidden
		r, err := newTrafficRehearsal("", &cfg, replay.Deps{}, func(c *config.Config) {
			for i := range c.Resolved {
				c.Resolved[i].Verdict.Quota = step
			}
			c.Processor.Quota.Hour, c.Processor.Quota.Day = 20, 20
		})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		for _, o := range scored(t, cfg, r).Outcomes() {
			at := &people
			if o.Robot {
				at = &robots
			}
			at.Stopped, at.Asked, at.Checked, at.Checks = at.Stopped+o.Stopped, at.Asked+o.Asked, at.Checked+o.Checked, at.Checks+o.Checks
		}
		return people, robots
	}
	checked, robots := run("check", false)
	asked, _ := run("captcha", false)
	_, hidden := run("check", true)
	t.Logf("people: with a check %d stopped and %d checked, with a captcha %d stopped; robots took %d checks, hidden ones %d", checked.Stopped, checked.Checked, asked.Stopped, robots.Checks, hidden.Checks)
	if asked.Checks != 0 || checked.Checks < 5 || checked.Checked == 0 || checked.Asked >= asked.Asked {
		t.Errorf("with a check %+v, with a captcha %+v", checked, asked)
	}
	if robots.Checks != 0 || hidden.Checks == 0 {
		t.Errorf("robots took %d checks, hidden ones %d", robots.Checks, hidden.Checks)
	}
}
