//go:build !race

package main

import (
	"testing"
	"time"

	"antirobot/replay"
	"antirobot/traffic"
)

// mostMembersPercent is how many of a hundred members of a panel may be stopped: those who answer surveys or look through
// galleries are as even as robots. docs/measurements.md has the figures; a lower bound is welcome.
const mostMembersPercent = 2

// TestRealTimes: of people who open pages when real ones did, with the half for tuning, hardly any is stopped, and nobody
// who reads.
func TestRealTimes(t *testing.T) {
	t.Parallel()
	cfg := traffic.DefaultConfig()
	cfg.Kinds, cfg.Set, cfg.WarmUp, cfg.Length = []traffic.Kind{traffic.Timed}, traffic.Tuning, 9*time.Hour, 16*24*time.Hour
	score := rehearsed(t, cfg, replay.Deps{})
	sorts := 0
	for _, o := range score.Outcomes() {
		sorts++
		most := 0
		if o.Habit == "encyclopedia" { // who reads more than the quota meets the silent check, and these run no scripts
			most = o.Clients / 200
		}
		if o.Habit == "members" {
			most = mostMembersPercent * o.Clients / 100
		}
		if o.Clients < 10 || o.Stopped > most {
			t.Errorf("of %d %s %d were stopped, at most %d may be", o.Clients, o.Habit, o.Stopped, most)
		}
	}
	if sorts != 3 {
		t.Errorf("%d sorts took part: %+v", sorts, score.Outcomes())
	}
}
