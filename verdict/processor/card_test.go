//go:build !race

// One goroutine works here, in which the race detector finds nothing, and takes long.

package processor

import (
	"maps"
	"math"
	"slices"
	"testing"
)

// TestOneSignCountsOnce: what a proxy takes out does not count beside the proxy itself.
func TestOneSignCountsOnce(t *testing.T) {
	stripped := known{"agent_browser": 1, "clients": 1, "parts_missing": 0, "fetch_missing": 1, "hints_missing": 1, "misfits": 2}
	if with, without := stripped.and(known{"proxy_fields": 1}).raw(t), stripped.raw(t); with != without {
		t.Errorf("without fields: %.1f, by a proxy that says so: %.1f", without, with)
	}
}

// known is what is known of a visitor; all other factors are not.
type known map[string]float32

// and is both, where they differ the second.
func (k known) and(more known) known {
	both := maps.Clone(k)
	maps.Copy(both, more)
	return both
}

// raw is the log-odds of the default card.
func (k known) raw(t *testing.T) float32 {
	t.Helper()
	x := make([]float32, len(FactorNames()))
	for i := range x {
		x[i] = nan
	}
	for name, v := range k {
		i := slices.Index(FactorNames(), name)
		if i < 0 {
			t.Fatalf("there is no factor %s", name)
		}
		x[i] = v
	}
	return defaultFormula(t).Raw(x)
}

// TestNoExcuseBeyondPeople: going on from pages that were opened long ago speaks for people as far as they do so.
func TestNoExcuseBeyondPeople(t *testing.T) {
	who := known{"agent_browser": 1, "clients": 1, "agents": 3}
	plain := who.raw(t)
	for share, want := range map[float32]float32{0: 0, 0.05: -0.3, 0.2: -0.6, 0.5: 0} {
		if by := who.and(known{"jump_share": share}).raw(t) - plain; math.Abs(float64(by-want)) > 0.01 {
			t.Errorf("%.2f of the pages: %.2f, want %.1f", share, by, want)
		}
	}
}

// TestSameAllDay: who does the same few pages all day, or in short visits, is quick and even for that, and no robot. Who opens others each time, or
// stays as long as people do, is judged as before.
func TestSameAllDay(t *testing.T) {
	even := known{
		"agent_browser": 1, "clients": 1, "parts_missing": 0.2, "targets": 12, "session_pages": 40, "load_share": 0.9, "cookie_dropped_share": 0,
		"stay_spread_most": 0.4, "stay_typical": 3, "stay_longest": 5, "stay_longest_ratio": 2, "stay_long_share": 0, "target_share": 0.3,
	}
	for name, works := range map[string]known{
		"all day": {"revisit_share": 0.9, "visit_longest": 60}, "in short visits": {"revisit_share": 0.5, "visit_longest": 4},
	} {
		at := even.and(works)
		without := even.and(known{"revisit_share": 0.41, "visit_longest": 60}).raw(t)
		if with := at.raw(t); with > without-1.4 || with >= 0 {
			t.Errorf("%s: %.2f, and %.2f for who does not", name, with, without)
		}
		for but, other := range map[string]known{
			"for longer": {"stay_longest": 50}, "not evenly": {"stay_spread_most": 0.9}, "of a few pages": {"targets": 5}, "new ones": {"revisit_share": 0.2, "target_share": 0.9},
		} {
			with, without := at.and(other), even.and(known{"revisit_share": 0.41, "visit_longest": 60}).and(other)
			if by := with.raw(t) - without.raw(t); by < -0.01 {
				t.Errorf("%s, %s: %.2f", name, but, by)
			}
		}
	}
}

// TestQuizAllDay: who repeats a quiz is longer on some of its pages, and less even for it.
func TestQuizAllDay(t *testing.T) {
	at := known{
		"agent_browser": 1, "clients": 1, "parts_missing": 0.8, "targets": 150, "session_pages": 390, "client_loads_10m": 71, "stay_spread_most": 0.82, "stay_typical": 7,
		"stay_longest": 38, "target_share": 0.4, "revisit_share": 0.89,
	}
	if with, without := at.raw(t), at.and(known{"revisit_share": 0.69}).raw(t); with > without-1.4 {
		t.Errorf("%.2f, and %.2f for who does not come back to pages", with, without)
	}
}

// TestFollowsLinks: that somebody has followed links speaks for it in its first pages, but not for who loads no parts or drops its cookie.
func TestFollowsLinks(t *testing.T) {
	first := known{"agent_browser": 1, "clients": 1, "parts_missing": 0.1, "cookie_dropped_share": 0, "session_pages": 5}
	for name, c := range map[string]struct {
		who known
		by  float32
	}{
		"so far": {first, -1}, "later": {first.and(known{"session_pages": 9}), 0}, "without parts": {first.and(known{"parts_missing": 1}), 0},
		"without cookie": {first.and(known{"cookie_dropped_share": 1}), 0}, "nobody knows": {first.and(known{"parts_missing": nan, "cookie_dropped_share": nan}), -1},
	} {
		led := c.who.and(known{"referer_known_share": 0.35}).raw(t)
		if by := led - c.who.and(known{"referer_known_share": 0}).raw(t); math.Abs(float64(by-c.by)) > 0.01 {
			t.Errorf("%s: %.2f, want %.0f", name, by, c.by)
		}
	}
}

// TestEvennessCountsOnce: a clock shows in the times on pages and in the gaps between them. Pages of a gallery or a survey are left evenly,
// too, and what redirects is left in less than a second.
func TestEvennessCountsOnce(t *testing.T) {
	even := known{
		"agent_browser": 1, "clients": 1, "parts_missing": 0, "targets": 14, "session_pages": 20, "load_share": 1, "cookie_dropped_share": 0, "client_loads_1h": 20,
		"stay_spread_most": 0.35, "stay_typical": 6, "stay_longest": 12, "stay_longest_ratio": 2, "stay_long_share": 0,
	}
	if clock, other := even.and(known{"gap_spread": 0.2}).raw(t), even.and(known{"gap_spread": 0.8}).raw(t); clock != other {
		t.Errorf("even times: %.2f, and even gaps: %.2f", other, clock)
	}
	none := known{"stay_spread_most": nan, "stay_longest_ratio": nan}
	redirected := even.and(known{"stay_typical": 0.2})
	if with, without := redirected.raw(t), redirected.and(none).raw(t); with != without {
		t.Errorf("is led on in 0.2 s: %.2f for the evenness of that, %.2f without", with, without)
	}
}
