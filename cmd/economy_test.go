//go:build !race

// Simulated days run in one goroutine, where the race detector finds nothing, and takes minutes.

package cmd

import (
	"slices"
	"strings"
	"testing"
	"time"

	"antirobot/traffic"
)

// TestEconomy is the promise of docs/harvest.md: no harvester gets more of the shop in a day than its bar allows, whether
// the gateway knows the site's people or has just been started, and people are left in peace beside it. What is held
// out is reported, and only people hold it: docs/harvest.md says which bars it does not keep. So are solvers: each right answer
// buys ten pages, so what they get follows from how many captchas they answer, and no figure of made-up traffic bounds it.
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
		m.Held = m.Held || colleague || campus || quarter // they load parts with many cookies at one address: reported, and only people hold it
		if m.Name == "farm-office" {
			continue // its cookies are people's to the budget, which asks their neighbours
		}
		// No rule proves these to be robots: they are reported until one quota bounds new visitors together.
		m.Held = m.Held || slices.Contains([]string{"households", "households-parts", "patient", "aged", "fuids"}, m.Name)
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
		most, stopped := 1, 0 // percent of the visits of people that may be asked, and how many stopped
		if m.Name == "solver-100-slow" {
			warmUps["new, all the people"] = 0 // who solves before the site knows what its pages consist of
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
				if h.Share > h.Bar && !h.Held && !m.Solves || h.Stopped > stopped || 100*h.Asked > most*h.Visits {
					t.Errorf("%d pages, %.2f %% of the shop, bar %.0f %%; of %d visits %d were asked, %d stopped: %v",
						h.Delivered, 100*h.Share, 100*h.Bar, h.Visits, h.Asked, h.Stopped, h.Why)
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
