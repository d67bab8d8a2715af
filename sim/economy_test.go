package main

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"antirobot/config"
	"antirobot/replay"
)

// harvest is what a harvester got in a day, and what happened to the people beside it.
type harvested struct {
	requests int
	pages    map[int]bool

	visits     int // of people, from the time when the harvester begins
	challenged int // visits in which they met more than the silent check: a button, or digits
	checked    int // visits in which they met the silent check
	stopped    int // visits in which they were taken for robots
	why        map[string]int
}

// visit is the current visit of a person.
type visit struct {
	last                         time.Time
	challenged, stopped, checked bool
}

// visitPause is the pause after which a person's next request begins another visit.
const visitPause = 30 * time.Minute

// harvest runs a harvester through a gateway beside the people of cfg.
func harvestShop(t *testing.T, cfg Config, by harvester) *harvested {
	t.Helper()
	cfg.Kinds, cfg.harvester = []Kind{People, Office, Mobile, Odd, Crawler}, &by
	if by.early { // it is not older than the site's people
		cfg.WarmUp = max(cfg.WarmUp, earliest)
	}
	g := gatewayFor(t, &cfg, replay.Deps{}, func(c *config.Config) {
		if by.digits == 0 {
			return
		}
		c.Captcha.TestAnswer = solverAnswer
		for i := range c.Resolved {
			c.Resolved[i].Captcha.Work = true
		}
	})
	h := &harvested{pages: map[int]bool{}, why: map[string]int{}}
	visits := map[string]*visit{}
	err := Run(t.Context(), cfg, g, func(r *Request, s *replay.Served) error {
		switch {
		case r.Product > 0:
			h.requests++
			if !s.Stopped {
				h.pages[r.Product] = true
			}
		case r.Kind != Harvester && r.Kind != Crawler && !r.Led && !r.View.At.Before(cfg.Begin):
			h.see(visits, r, s)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *harvested) see(visits map[string]*visit, r *Request, s *replay.Served) {
	who := fmt.Sprint(r.Kind, " ", r.Client)
	v := visits[who]
	if v == nil {
		v = &visit{}
		visits[who] = v
	}
	if r.View.At.Sub(v.last) > visitPause {
		*v = visit{}
		h.visits++
	}
	v.last = r.View.At
	count := func(seen *bool, n *int, why string) {
		if !*seen {
			*seen = true
			*n++
			h.why[fmt.Sprintf("%s (%s): %s", r.Kind, r.Habit, why)]++
		}
	}
	switch {
	case !s.Stopped:
	case r.Check, s.Checks() && s.Decision.Step.String() == "check" && !r.More: // a page with a button, where no scripts run
		count(&v.checked, &h.checked, "silent check")
	case s.Asked():
		count(&v.challenged, &h.challenged, s.Why())
	default:
		count(&v.stopped, &h.stopped, s.Why())
	}
}

// TestEconomy plays a day of each harvester beside people: it gets no more of the shop than its bar, whether the gateway
// knows the site's people or has just been started, and people are left in peace.
func TestEconomy(t *testing.T) {
	for i, by := range harvesters() {
		if testing.Short() && i%5 != 0 {
			continue
		}
		known, all := 30*time.Hour, ", all the people"
		warmUps := map[string]time.Duration{"known": known}
		most, mostChecked, stopped := 1, 3, 0 // percent of visits that may meet more than the silent check, and that; how many are stopped
		switch by.name {
		case "browser", "image-text", "ipv6-32", "households", "check-image", "jars-office": // where it makes a difference
			warmUps["new"] = 0
		case "jars-office-quarter":
			warmUps = map[string]time.Duration{"new" + all: 0}
		case "solver-100-slow": // a wave that lasts a day, on the first day
			warmUps["new"+all], most = 0, 2
		case "solver-colleague": // one person there keeps no cookies, and looks like the robot
			warmUps["new"], warmUps["known"+all], most = 0, known, 4
		case "campus": // a person who sends no cookies and no referers is stopped, whatever the harvester
			warmUps, stopped = map[string]time.Duration{"known" + all: earliest}, 2
		}
		for name, warmUp := range warmUps {
			t.Run(by.name+" "+name, func(t *testing.T) {
				t.Parallel()
				cfg := DefaultConfig()
				cfg.WarmUp, cfg.Scale = warmUp, 0.12 // a day of a tenth of the people
				if strings.HasSuffix(name, all) {
					cfg.Scale = 1
				}
				most := most
				if name == "new" { // all are new, and a wave is on
					most = 3
				}
				h := harvestShop(t, cfg, by)
				share := float64(len(h.pages)) / float64(by.unhindered(cfg.Length))
				t.Logf("%d pages, %.2f %%; of %d visits %d challenged, %d checked, %d stopped", len(h.pages), 100*share, h.visits, h.challenged, h.checked, h.stopped)
				if h.requests < 100 || h.visits < 300 {
					t.Errorf("%d requests and %d visits show nothing", h.requests, h.visits)
				}
				if by.bar > 0 && math.Round(1000*share)/1000 > by.bar {
					t.Errorf("%d pages, %.2f %% of the shop, bar %.1f %%", len(h.pages), 100*share, 100*by.bar)
				}
				if h.stopped > stopped || 100*h.challenged > most*h.visits || 100*h.checked > mostChecked*h.visits {
					t.Errorf("of %d visits %d were challenged, %d checked, %d stopped: %v", h.visits, h.challenged, h.checked, h.stopped, h.why)
				}
			})
		}
	}
}
