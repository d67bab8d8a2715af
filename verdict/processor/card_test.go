//go:build !race

// One goroutine works here, in which the race detector finds nothing, and takes long.

package processor

import (
	"maps"
	"math"
	"slices"
	"testing"
)

// TestOneSignCountsOnce: what a visitor's way of reading makes far from the site's people, and what a proxy takes out, does not count
// beside the way and the proxy themselves.
func TestOneSignCountsOnce(t *testing.T) {
	doors := known{
		"agent_browser": 1, "clients": 1, "parts_missing": 0.2, "entry_odd": 0.5, "entry_odds": 4, "entry_share": 0.95, "entry_within": 0.3, "visit_pages": 2,
		"session_pages": 30,
	}
	far := known{"people_far": 0.999, "people_distance": 4}
	if with, without := doors.and(far).raw(t), doors.raw(t); with != without || without < -2 {
		t.Errorf("comes from elsewhere: %.1f, and is far from the site's people: %.1f", without, with)
	}
	common := doors.and(known{"entry_odd": -2, "entry_odds": -3, "entry_share": 0.1, "entry_within": 0})
	if with, without := common.and(far).raw(t), common.raw(t); with < without+1.5 {
		t.Errorf("comes in where others do: %.1f, and is far all the same: %.1f", without, with)
	}
	stripped := known{"agent_browser": 1, "clients": 1, "parts_missing": 0, "fetch_missing": 1, "hints_missing": 1, "misfits": 2}
	if with, without := stripped.and(known{"proxy_fields": 1}).raw(t), stripped.raw(t); with != without {
		t.Errorf("without fields: %.1f, by a proxy that says so: %.1f", without, with)
	}
}

// TestWhoComesWhenPeopleComeIsNoCampaign: that many addresses open from outside what hardly anybody opens speaks against one that has
// been seen once or comes at any hour, not against somebody who comes again and again when the site's people do.
func TestWhoComesWhenPeopleComeIsNoCampaign(t *testing.T) {
	one := known{
		"agent_browser": 1, "clients": 1, "parts_missing": 0, "load_share": 0.6, "cookie_dropped_share": 1, "herald": -0.1, "visit_pages": 1.5, "targets": 8,
		"campaign_addresses": 200, "campaign_rare": 1.3, "campaign_own_rare": 1.9, "entry_odd": -1,
	}
	none := known{"campaign_addresses": nan, "campaign_rare": nan, "campaign_own_rare": nan}
	alone := one.and(none).raw(t)
	for name, c := range map[string]struct {
		visits, hours float32
		by            float32 // what the campaign adds
	}{
		"seen once": {1, -0.6, 3.7}, "twice": {2, -1, 3.7}, "at any hour": {6, 0.3, 3.7}, "when people come": {5, -0.9, 0},
	} {
		visits := known{"visits": c.visits, "hour_odds": c.hours}
		if by := one.and(visits).raw(t) - alone; math.Abs(float64(by-c.by)) > 0.01 {
			t.Errorf("%s: the campaign adds %.2f, not %.1f", name, by, c.by)
		}
	}
	for _, other := range []known{{"load_share": 0.2}, {"herald": 3}, {"visit_pages": 40}} { // what is no evidence takes nothing off
		who := one.and(known{"visits": 5, "hour_odds": -0.9}).and(other)
		if with, without := who.raw(t), who.and(none).raw(t); math.Abs(float64(with-without)) > 0.01 {
			t.Errorf("%v: %.2f in a campaign, %.2f without one", other, with, without)
		}
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

// TestBeginsAnew: a browser that keeps neither cookies nor parts of pages is told from one that takes no cookies, and from people whose
// browsers keep no parts. Closing a private window now and then is neither.
func TestBeginsAnew(t *testing.T) {
	outside := known{
		"agent_browser": 1, "clients": 1, "parts_missing": 0, "parts_per_page": 4, "session_pages": 4, "referer_foreign_share": 1, "cookie_share": 0, "herald": 0,
		"target_share": 1, "entry_odd": -1, "cookie_dropped_share": 1, "parts_again": 0,
	}
	blocks := outside.raw(t)
	none := outside.and(known{"cookie_dropped_share": 0, "cookie_share": 1})
	for name, c := range map[string]struct {
		who  known
		by   float32 // what is added
		than float32
	}{
		"begins anew":                    {outside.and(known{"parts_again": 1.8}), 3, blocks},
		"by odd pages":                   {outside.and(known{"parts_again": 1.8, "entry_odd": 0.5}), 4.5, outside.and(known{"entry_odd": 0.5}).raw(t)},
		"nobody knows whether":           {outside.and(known{"parts_again": nan}), 2, blocks},
		"loads no parts":                 {outside.and(known{"parts_per_page": 0}), 5, blocks},
		"keeps cookies, and no parts":    {none.and(known{"parts_again": 2.3}), 0, none.raw(t)},
		"closes its windows":             {outside.and(known{"parts_again": 0.25, "cookie_dropped_share": 0.7}), 0, outside.and(known{"cookie_dropped_share": 0.7}).raw(t)},
		"and begins anew in an own name": {outside.and(known{"parts_again": 1.8, "agent_browser": 0}), 0, outside.and(known{"agent_browser": 0}).raw(t)},
	} {
		if by := c.who.raw(t) - c.than; math.Abs(float64(by-c.by)) > 0.01 {
			t.Errorf("%s: %.2f more, want %.1f", name, by, c.by)
		}
	}
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

// TestAtHoursOfPeople: that others come as rarely for as rare pages speaks against somebody who comes when people hardly do. By day
// people follow links to such pages, too.
func TestAtHoursOfPeople(t *testing.T) {
	who := known{
		"agent_browser": 1, "clients": 1, "parts_missing": 0, "load_share": 1, "herald": 0, "visits": 2, "visit_pages": 1, "targets": 3, "entry_odd": 0.5,
		"campaign_addresses": 20, "campaign_rare": 0.9, "campaign_own_rare": 2,
	}
	by := func(hours float32) float32 {
		return who.and(known{"hour_odds": hours}).raw(t) - who.and(known{"hour_odds": nan}).raw(t)
	}
	if day, night := by(-0.2), by(0.2); day != 0 || math.Abs(float64(night-2.2)) > 0.01 {
		t.Errorf("by day %.2f, at other hours %.2f", day, night)
	}
}

// TestFormsAreAsked: who sends one form after the other, each as a newcomer, is asked after a few of them, and not stopped before a class
// that fills in a survey would have ended.
func TestFormsAreAsked(t *testing.T) {
	forms := known{
		"agent_browser": 1, "post_share": 0.5, "load_share": 1, "revisit_share": 0.9, "targets": 2, "client_pages_1h": 2, "clients": 4, "session_pages": 10,
		"parts_missing": 0, "referer_known_share": 0.5, "cookie_share": 0.5, "jump_share": 0.1, "entry_odds": -20, "cookie_dropped_share": 0.2,
	}
	for pages := float32(10); pages < 60; pages += 10 {
		if raw := forms.and(known{"session_pages": pages}).raw(t); raw <= unsure || raw > 0 {
			t.Errorf("after %v pages: %.2f", pages, raw)
		}
	}
	for _, other := range []known{{"post_share": 0.1}, {"clients": 1}, {"targets": 12}, {"session_pages": 6}, {"revisit_share": 0.3}} {
		if raw := forms.and(other).raw(t); raw > -4 {
			t.Errorf("%v: %.2f", other, raw)
		}
	}
}

// unsure is the log-odds above which the default settings are unsure.
var unsure = float32(math.Log(0.3 / 0.7))

// TestMannerAsks: who follows links for shorter, more even times than others is asked, and only asked: the same signs stop nobody.
func TestMannerAsks(t *testing.T) {
	reader := known{
		"agent_browser": 1, "clients": 1, "parts_missing": 0, "targets": 14, "session_pages": 20, "referer_known_share": 0.9, "cookie_share": 1, "cookie_dropped_share": 0,
		"entry_share": 0.1, "others_side": 0.35, "people_even": 0.97, "stay_longest": 30, "branch_share": 0.06, "stay_spread_most": 0.8, "stay_typical": 9, "stay_long_share": 0,
	}
	alike := known{"others_side": 0.05, "people_even": 0.7, "stay_longest": 200, "stay_spread_most": 1.3, "stay_long_share": 0.2}
	if raw := reader.raw(t); raw <= unsure || raw > 0 {
		t.Errorf("on that side and even: %.2f", raw)
	}
	if raw := reader.and(alike).raw(t); raw > -3 {
		t.Errorf("as others: %.2f", raw)
	}
	tabs := reader.and(known{"branch_share": 0.35}) // below what it is lifted to at most
	if with, without := tabs.and(known{"entry_share": 0.9}).raw(t), tabs.raw(t); with >= without {
		t.Errorf("comes from elsewhere: %.2f, follows links: %.2f", with, without)
	}
}

// TestNoTimeToLook: who clicks from page to page in less time than it takes to see one is asked, and only asked. Who opens tabs at once, flips through a few pages, or
// is led on by way of others and looks at what it came for, is not.
func TestNoTimeToLook(t *testing.T) {
	clicks := known{
		"agent_browser": 1, "clients": 1, "parts_missing": 0, "targets": 12, "session_pages": 12, "referer_known_share": 0.9, "cookie_share": 1, "cookie_dropped_share": 0,
		"stay_typical": 0.8, "stay_longest": 3, "stay_short_share": 1, "chain_share": 0.95,
	}
	if raw := clicks.raw(t); raw <= unsure || raw > 0 {
		t.Errorf("clicks at once: %.2f", raw)
	}
	for name, other := range map[string]known{
		"tabs": {"chain_share": 0.1}, "a few pages": {"session_pages": 9}, "led on by way of others": {"stay_longest": 20}, "two pages in turn": {"targets": 2},
		"a second each": {"stay_typical": 1}, "several people": {"clients": 4}, "nobody knows": {"stay_typical": nan, "stay_longest": nan},
	} {
		if raw := clicks.and(other).raw(t); raw > -3 {
			t.Errorf("%s: %.2f", name, raw)
		}
	}
}

// TestSteadierThanPeople: who stays for about one time on pages, and loads them at about one pace, is less like people than who doesn't, and is not in doubt for that
// and all else of the manner; who has pages read aloud, who has opened a few pages, and several people are not less like people.
func TestSteadierThanPeople(t *testing.T) {
	reads := known{
		"agent_browser": 1, "clients": 1, "parts_missing": 0.2, "targets": 12, "session_pages": 12, "stay_typical": 10, "stay_longest": 200,
		"stay_spread_most": 1.5, "stay_middle_share": 0.5, "gap_spread": 1.5,
	}
	steady := known{"stay_spread_most": 1, "stay_middle_share": 0.8, "gap_spread": 1.1}
	if with, without := reads.and(steady).raw(t), reads.raw(t); with < without+0.8 {
		t.Errorf("steady: %.2f, not steady: %.2f", with, without)
	}
	all := reads.and(steady).and(known{"others_side": 0.4, "stay_longest": 15, "fan": 1, "chain_share": 1, "branch_share": 0, "visit_pages": 12})
	if raw := all.raw(t); raw > unsure || raw < reads.raw(t)+1.7 {
		t.Errorf("with all of the manner: %.2f, without: %.2f", raw, reads.raw(t))
	}
	for name, other := range map[string]known{"read aloud": {"stay_typical": 70}, "a few pages": {"targets": 5}, "several people": {"clients": 4}} {
		if with, without := reads.and(steady).and(other).raw(t), reads.and(other).raw(t); with != without {
			t.Errorf("%s: steady %.2f, not steady %.2f", name, with, without)
		}
	}
}

// TestKindsOfPages: who stays longer where others do is more like people, and to whom all pages are alike is less, but not in doubt for that and all else of the manner;
// who has pages read aloud, who has opened a few pages, who drops cookies or loads no parts, and several people are not less like people.
func TestKindsOfPages(t *testing.T) {
	reads := known{
		"agent_browser": 1, "clients": 1, "parts_missing": 0, "targets": 12, "session_pages": 12, "stay_typical": 10, "stay_longest": 200,
		"stay_spread_most": 1.5, "stay_middle_share": 0.5, "gap_spread": 1.5,
	}
	as, alike := known{"stay_by_kind": 2}, known{"stay_by_kind": -2}
	if nobody, like, unlike := reads.raw(t), reads.and(as).raw(t), reads.and(alike).raw(t); like > nobody-0.8 || unlike < nobody+0.8 {
		t.Errorf("as others do: %.2f, all alike: %.2f, unknown: %.2f", like, unlike, nobody)
	}
	steady := known{"stay_spread_most": 1, "stay_middle_share": 0.8, "gap_spread": 1.1, "others_side": 0.4, "stay_longest": 15, "fan": 1, "chain_share": 1, "branch_share": 0, "visit_pages": 12}
	if raw := reads.and(steady).and(alike).raw(t); raw > unsure {
		t.Errorf("with all of the manner: %.2f", raw)
	}
	for name, other := range map[string]known{
		"read aloud": {"stay_typical": 70}, "a few pages": {"targets": 5}, "several people": {"clients": 4}, "drops cookies": {"cookie_dropped_share": 1}, "loads no parts": {"parts_missing": 1},
	} {
		if with, without := reads.and(alike).and(other).raw(t), reads.and(other).raw(t); with != without {
			t.Errorf("%s: all alike %.2f, unknown %.2f", name, with, without)
		}
	}
}

// TestLinksOfOthers: who follows links that others seldom follow is less like people, by more with another sign, but not in doubt for that alone, nor for that and all of
// the manner; who follows those that others do is no more like people for it.
func TestLinksOfOthers(t *testing.T) {
	reads := known{
		"agent_browser": 1, "clients": 1, "parts_missing": 0, "targets": 12, "session_pages": 12, "stay_typical": 10, "stay_longest": 200,
		"stay_spread_most": 1.5, "stay_middle_share": 0.5, "gap_spread": 1.5,
	}
	nobody := reads.raw(t)
	if as := reads.and(known{"links_unusual": -2}).raw(t); as != nobody {
		t.Errorf("as others do: %.2f, unknown: %.2f", as, nobody)
	}
	few, none := known{"links_unusual": 1.5}, known{"links_unusual": 2}
	if seldom, hardly := reads.and(few).raw(t), reads.and(none).raw(t); seldom < nobody+0.5 || hardly < seldom+0.9 || hardly > unsure {
		t.Errorf("unknown: %.2f, links that few follow: %.2f, that hardly anybody follows: %.2f", nobody, seldom, hardly)
	}
	for name, other := range map[string]known{
		"a few pages": {"targets": 5}, "several people": {"clients": 4}, "drops cookies": {"cookie_dropped_share": 1}, "loads no parts": {"parts_missing": 1},
	} {
		if with, without := reads.and(none).and(other).raw(t), reads.and(other).raw(t); with != without {
			t.Errorf("%s: %.2f, unknown %.2f", name, with, without)
		}
	}
}

// TestToTheMinute: who comes back for several pages at the same interval, to the minute, or every day at the same minute, is in doubt, and no robot by that alone. Who is as regular as
// people are, or comes back for one page that may reload itself, is not, nor are several people.
func TestToTheMinute(t *testing.T) {
	comes := known{"agent_browser": 1, "clients": 1, "parts_missing": 0, "cookie_dropped_share": 0, "targets": 3, "session_pages": 12, "visits": 4, "visit_pages": 3, "entry_share": 0.3}
	hours, daily := known{"return_typical": 6, "return_spread_most": 0.015}, known{"return_typical": 23.9, "return_spread_most": 0.002}
	for name, clock := range map[string]known{"every few hours": hours, "every day": daily} {
		if raw := comes.and(clock).raw(t); raw < unsure || raw >= 0 {
			t.Errorf("%s: %.2f", name, raw)
		}
		for but, other := range map[string]known{
			"as people are": {"return_spread_most": 0.05}, "for one page": {"targets": 1}, "three times": {"visits": 3}, "several people": {"clients": 4}, "an app": {"agent_browser": 0},
		} {
			if with, without := comes.and(clock).and(other).raw(t), comes.and(other).raw(t); with != without {
				t.Errorf("%s, %s: %.2f, without a clock %.2f", name, but, with, without)
			}
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

// TestWeakSignsAskTogether: what a person may do as well in one respect or two leads to a question when it comes together, and never to a ban.
func TestWeakSignsAskTogether(t *testing.T) {
	reader := known{
		"agent_browser": 1, "clients": 1, "parts_missing": 0, "targets": 14, "session_pages": 20, "cookie_dropped_share": 0, "entry_share": 0.1, "others_side": 0.1,
		"branch_share": 0.02, "stay_longest": 100, "stay_typical": 9, "stay_long_share": 0.1,
	}
	signs := known{"people_even": 0.93, "people_far": 0.93, "people_fast": 0.96, "people_straight": 0.9, "gap_spread": 0.7}
	all := reader.and(signs)
	if raw := all.raw(t); raw <= unsure || raw > 0 {
		t.Errorf("all together: %.2f", raw)
	}
	for name, x := range signs {
		if raw := reader.and(known{name: x}).raw(t); raw > unsure {
			t.Errorf("%s alone: %.2f", name, raw)
		}
	}
	for _, other := range []known{{"session_pages": 8}, {"clients": 4}, {"cookie_dropped_share": 1}, {"parts_missing": 1}, {"targets": 3}} {
		if raw := all.and(other).raw(t); raw > -2 {
			t.Errorf("%v: %.2f", other, raw)
		}
	}
	list := reader.and(known{"entry_share": 0.6, "entry_within": 0.6, "gap_spread": 0.7, "entry_odd": 0})
	if odd, shared := list.raw(t), list.and(known{"entry_odd": -2}).raw(t); odd <= shared+1 {
		t.Errorf("as from a list, %.2f; by pages that others come in by, too, %.2f", odd, shared)
	}
}
