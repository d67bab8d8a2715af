//go:build !race

// Simulated days run in one goroutine, where the race detector finds nothing, and takes minutes.

package main

import (
	"context"
	"testing"
	"time"

	"antirobot/config"
	"antirobot/replay"
	"antirobot/traffic"
)

// TestCallersAreLeftInPeace: forty people behind one address whose page polls every three seconds, half of them without
// cookies, and the users of a site's own app are neither stopped nor asked, on a gateway that knows nobody and on the day
// after.
func TestCallersAreLeftInPeace(t *testing.T) {
	t.Parallel()
	cfg := traffic.DefaultConfig()
	cfg.Kinds = []traffic.Kind{traffic.Callers, traffic.People}
	cfg.WarmUp, cfg.Length, cfg.Scale = 9*time.Hour, 26*time.Hour, 1
	least := 1000
	if testing.Short() {
		cfg.Length, least = 3*time.Hour, 500
	}
	r, err := newTrafficRehearsal("", &cfg, replay.Deps{}, func(*config.Config) {})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	requests, hurt := map[string]int{}, map[string]map[int]string{"call centre": {}, "app": {}}
	err = traffic.Run(context.Background(), cfg, r, nil, func(q *traffic.Request, s *replay.Served) error {
		if q.Kind == traffic.Callers {
			requests[q.Habit]++
			if s != nil && s.Stopped && hurt[q.Habit][q.Client] == "" {
				hurt[q.Habit][q.Client] = s.Why() + " at " + q.View.At.String()
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for habit, who := range hurt {
		t.Logf("%s: %d requests, %d people hurt", habit, requests[habit], len(who))
		if requests[habit] < least {
			t.Errorf("%s: %d requests show nothing", habit, requests[habit])
		}
		for n, why := range who {
			t.Errorf("%s %d: %s", habit, n, why)
		}
	}
}
