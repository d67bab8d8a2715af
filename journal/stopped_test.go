package journal

import (
	"context"
	"reflect"
	"testing"
	"time"

	"antirobot/verdict"
)

// TestStopped: who was stopped most in a minute, an hour and a day is known without looking at entries; people are not among them, those
// of a sample count for what they stand for, and no address is kept.
func TestStopped(t *testing.T) {
	w := newWorld(t, small(), nil)
	of := func(v verdict.Verdict, share float32) func(*verdict.Decision, *verdict.Note) {
		return func(d *verdict.Decision, n *verdict.Note) { d.Verdict, n.Share = v, share }
	}
	entries := uint64(0)
	decide := func(from, agent string, v verdict.Verdict, share float32) {
		w.decide(from, "/", agent, of(v, share))
		entries++
	}
	for range 3 {
		decide("203.0.113.7", `curl "8"`, verdict.Robot, 1)
	}
	decide("203.0.113.9", "Mozilla", verdict.Unsure, 0.125)
	decide("198.51.100.4", "Firefox", verdict.Human, 0.01)
	w.written(entries)
	w.pass(time.Minute)
	w.upkeep(w.now())
	decide("203.0.113.8", `curl "8"`, verdict.Blocked, 1)
	w.written(entries)
	w.pass(time.Minute)
	w.upkeep(w.now())
	for _, by := range []string{"minute", "hour", "day"} {
		got, err := w.Stopped(by, w.now().Add(-steps[by].long-10*time.Minute), w.now(), 5)
		want := Stopped{"network": {{"203.0.113.0/24", 5, 12}}, "reason": {{"pace: more than 5 pages in 10s", 5, 12}}, "agent": {{"Mozilla", 1, 8}, {`curl "8"`, 4, 4}}}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("by %s: %+v, %v", by, got, err)
		}
	}
	if got, err := w.Stopped("minute", w.now().Add(-10*time.Minute), w.now(), 1); err != nil || len(got["agent"]) != 1 {
		t.Errorf("more than one: %+v, %v", got, err)
	}
	if _, err := w.Stopped("week", w.now(), w.now(), 1); err == nil {
		t.Error("figures of weeks")
	}
	w.pass(keptMinutes + time.Minute)
	w.upkeep(w.now())
	if got, err := w.Stopped("minute", w.now().Add(-4*time.Hour), w.now(), 5); err != nil || len(got) != 0 {
		t.Errorf("minutes are kept for too long: %+v, %v", got, err)
	}
}

// TestLastingReason: an entry of a list that is an address is not kept with figures.
func TestLastingReason(t *testing.T) {
	for reason, want := range map[string]string{
		"block: 203.0.113.7": "block", "tor: 203.0.113.0/24": "tor", "formula: agent_library, hosting": "formula: agent_library, hosting", "rule 7": "rule 7", "": "",
	} {
		r := row{}
		r.texts[colReason] = []byte(reason)
		if got := string(lastingReason(&r)); got != want {
			t.Errorf("%q lasts as %q, want %q", reason, got, want)
		}
	}
}

// TestStoppedWithoutNetworks: where addresses are to be hashed, no network is kept for longer than they are.
func TestStoppedWithoutNetworks(t *testing.T) {
	cfg := small()
	cfg.Addresses, cfg.MaxAge, cfg.AddressesAfter = hashAddresses, 10*day, day
	w := newWorld(t, cfg, nil)
	w.decide("203.0.113.7", "/", "curl", nil)
	w.written(1)
	w.upkeep(w.now())
	for by, want := range map[string]int{"minute": 1, "hour": 1, "day": 0} {
		if got, err := w.Stopped(by, w.now().Add(-day), w.now(), 5); err != nil || len(got["network"]) != want || len(got["agent"]) != 1 {
			t.Errorf("by %s: %+v, %v", by, got, err)
		}
	}
	w.pass(day + 2*time.Hour)
	w.upkeep(w.now())
	if got, err := w.Stopped("hour", w.now().Add(-3*day), w.now(), 5); err != nil || len(got) != 0 {
		t.Errorf("after a day: %+v, %v", got, err)
	}
	if f, err := w.Find(context.Background(), &Query{}, 5, "", ""); err != nil || len(f.Entries) != 1 {
		t.Errorf("entries: %+v, %v", f, err)
	}
}
