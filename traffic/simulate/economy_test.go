//go:build !race

// Simulated days run in one goroutine, where the race detector finds nothing, and takes minutes.

package main

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"antirobot/traffic"
)

// barred are the makes whose share of the shop is bounded by the quota's constants: one address without solving, IPv6
// networks, a hundred households, checks beside a balancer, bursts. The others are reported, and only people hold them.
var barred = []string{
	"browser", "patient", "cors", "cfnetwork", "image-text", "css", "ipv6-64", "ipv6-48", "ipv6-32", "burst", "jars", "agents", "jars-office",
	"households", "check-image", "check-cors", "held-app", "held-curl", "held-style",
}

// TestEconomy plays a day of each make beside people: a make whose share is barred gets no more of the shop than that, whether the
// gateway knows the site's people or has just been started, and people are left in peace.
func TestEconomy(t *testing.T) {
	for i, m := range slices.Concat(traffic.Makes(), traffic.HeldMakes(), traffic.Solvers()) {
		if m.Solves && !slices.Contains([]string{"solver-browser", "solver-parts", "solver-ipv6-32", "solver-100-slow", "solver-100-parts", "solver-colleague"}, m.Name) {
			continue // the others differ in what they cost, not in how
		}
		colleague := m.Name == "solver-colleague"
		campus := m.Name == "campus"
		quarter := m.Name == "jars-office-quarter"
		if m.Long && !colleague && !campus && !quarter || testing.Short() && i%5 != 0 || slices.Contains([]string{"ipv6-56", "check-css"}, m.Name) {
			continue
		}
		m.Held = !slices.Contains(barred, m.Name)
		if strings.HasPrefix(m.Name, "image-") && m.Name != "image-text" {
			continue // the other types are told apart as this one is
		}
		warmUps := map[string]time.Duration{"known": 30 * time.Hour}
		if slices.Contains([]string{"browser", "image-text", "ipv6-32", "households", "check-image", "jars-office"}, m.Name) {
			warmUps["new"] = 0 // where it makes a difference
		}
		if quarter {
			warmUps, m.Bar = map[string]time.Duration{"new, all the people": 0}, 0.02 // who stops whom when nobody is known
		}
		most, mostChecked, stopped := 1, 3, 0 // percent of the visits of people that may meet more than the silent check, and that; how many are stopped
		if m.Name == "solver-100-slow" {
			warmUps["new, all the people"], most = 0, 2 // a wave that lasts a day, on the first day
		}
		if colleague {
			warmUps["new"], warmUps["known, all the people"], most = 0, 30*time.Hour, 4 // one person there keeps no cookies, and looks like the robot
		}
		if campus {
			warmUps = map[string]time.Duration{"known, all the people": 54 * time.Hour}
			stopped = 2 // a person who sends no cookies and no referers is, whatever the harvester
		}
		for name, warmUp := range warmUps {
			t.Run(m.Name+" "+name, func(t *testing.T) {
				t.Parallel()
				cfg := traffic.DefaultConfig()
				cfg.WarmUp, cfg.Scale = warmUp, 0.12 // a day of a tenth of the people
				if strings.HasSuffix(name, "all the people") {
					cfg.Scale = 1
				}
				h, err := harvest(t.Context(), "", cfg, m)
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("%d pages, %.2f %%; of %d visits %d asked, %d checked, %d stopped", h.Delivered, 100*h.Share, h.Visits, h.Asked, h.Checked, h.Stopped)
				if h.Requests < 100 || h.Visits < 300 {
					t.Errorf("%d requests and %d visits show nothing", h.Requests, h.Visits)
				}
				if name == "new" {
					most = 3 // nobody is known yet, and a wave is on
				}
				if math.Round(1000*h.Share)/1000 > h.Bar && !h.Held || h.Stopped > stopped || 100*h.Asked > most*h.Visits || 100*h.Checked > mostChecked*h.Visits {
					t.Errorf("%d pages, %.2f %% of the shop, bar %.0f %%; of %d visits %d were asked, %d checked, %d stopped: %v",
						h.Delivered, 100*h.Share, 100*h.Bar, h.Visits, h.Asked, h.Checked, h.Stopped, h.Why)
				}
			})
		}
	}
}

// TestHeldMakesAreNeverTunedOn: the harvesters of the set for tuning have none that is held out, nor their people.
func TestHeldMakesAreNeverTunedOn(t *testing.T) {
	for set, want := range map[traffic.Set][2]bool{traffic.Tuning: {true, false}, traffic.HeldOut: {false, true}, "": {true, true}} {
		makes, err := chosenMakes(nil, set)
		if err != nil {
			t.Fatal(err)
		}
		var got [2]bool
		for _, m := range makes {
			if m.Held {
				got[1] = true
			} else {
				got[0] = true
			}
		}
		if got != want {
			t.Errorf("set %q: tuned on %v, held out %v", set, got[0], got[1])
		}
	}
	if _, err := chosenMakes([]string{traffic.HeldMakes()[0].Name}, traffic.Tuning); err == nil {
		t.Error("the set for tuning gives a harvester that is held out, by its name")
	}
}
