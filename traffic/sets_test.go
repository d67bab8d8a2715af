//go:build !race

// Traffic is made in one goroutine, where the race detector finds nothing, and takes a minute.

package traffic

import (
	"context"
	"strings"
	"testing"
	"time"

	"antirobot/replay"
)

// TestSets: about half of the sorts are held out, on both sides; the tuning set has none of them, and the held-out set
// has no other guests and agents.
func TestSets(t *testing.T) {
	for k, list := range map[Kind][]sort{Guests: guestSorts(), Agents: agentSorts(), Walkers: walkerSorts(), Drivers: driverSorts(), Timed: timedSorts()} {
		held := 0
		for _, s := range list {
			if s.held {
				held++
			}
			if IsHeldOut(k, s.name) != s.held {
				t.Errorf("%s: held out: %v, said to be %v", s.name, s.held, IsHeldOut(k, s.name))
			}
		}
		if 5*held < 2*len(list) || 5*held > 3*len(list) {
			t.Errorf("of %d sorts of %s %d are held out", len(list), k, held)
		}
	}
	seen := func(set Set, site Site) map[string]int {
		cfg := small()
		cfg.Kinds, cfg.Set, cfg.Site, cfg.WarmUp, cfg.Length = []Kind{Guests, Agents}, set, site, 25*time.Hour, 3*time.Hour
		of := map[string]int{}
		err := Run(context.Background(), cfg, nil, nil, func(r *Request, _ *replay.Served) error {
			of[r.Habit]++
			if set == Tuning && r.Held || set == HeldOut && !r.Held {
				t.Fatalf("%s takes part in %s", r.Habit, set)
			}
			if site == Course && strings.HasPrefix(string(r.View.Path), "/shop/") && r.Habit != "checker" {
				t.Fatalf("%s asks the course for %s", r.Habit, r.View.Path)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return of
	}
	all, tuning, held := seen(Everybody, Shop), seen(Tuning, Course), seen(HeldOut, Course)
	if len(all) != len(guestSorts())+len(agentSorts()) {
		t.Errorf("%d sorts of %d made traffic: %v", len(all), len(guestSorts())+len(agentSorts()), all)
	}
	if len(tuning)+len(held) != len(all) {
		t.Errorf("%d sorts are for tuning, %d held out, of %d", len(tuning), len(held), len(all))
	}
}
