package journal

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	"antirobot/request"
	"antirobot/store/pebblestore"
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
	page := w.show("203.0.113.7", `curl "8"`, verdict.Observe) // where one of them led
	w.show("203.0.113.7", `curl "8"`, verdict.Enforce)         // a form, answered in its place
	entries += 2
	w.written(entries)
	w.pass(time.Minute)
	w.upkeep(w.now())
	decide("203.0.113.8", `curl "8"`, verdict.Blocked, 1)
	w.written(entries)
	w.pass(time.Minute)
	w.upkeep(w.now())
	for _, by := range []string{"minute", "hour", "day"} {
		got, err := w.Stopped(by, w.now().Add(-steps[by].long-10*time.Minute), w.now(), 5)
		want := Stopped{"network": {{"203.0.113.0/24", 6, 13}}, "reason": {{"pace: more than 5 pages in 10s", 6, 13}}, "agent": {{"Mozilla", 1, 8}, {`curl "8"`, 5, 5}}}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("by %s: %+v, %v", by, got, err)
		}
	}
	for query, want := range map[string]int{"": 5, "-kind:shown": 4, "kind:shown": 2} {
		q, err := ParseQuery(query+" agent:curl", w.now())
		got, err2 := w.Top(context.Background(), &q, []string{"network"}, 5)
		if err != nil || err2 != nil || got[0][0].Entries != want {
			t.Errorf("%q: %+v, %v, %v", query, got, err, err2)
		}
	}
	if _, ok, err := w.Get(page); !ok || err != nil {
		t.Error("the captcha's page is not remembered", err)
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

// show lets a captcha be shown: on the gateway's own page, which is judged in mode observe, or in the place of an answer.
func (w *world) show(from, agent string, mode verdict.Mode) request.ID {
	return w.decide(from, "/showcaptcha", agent, func(d *verdict.Decision, n *verdict.Note) { d.Mode, n.Kind = mode, verdict.EventShown })
}

// TestLastingReason: an entry of a list that is an address is not kept with figures.
func TestLastingReason(t *testing.T) {
	for reason, want := range map[string]string{
		"block: 203.0.113.7": "block", "tor: 203.0.113.0/24": "tor", "api: 203.0.113.7-203.0.113.9": "api", "api: i:0a-0b": "api: i:0a-0b",
		"formula: agent_library, hosting": "formula: agent_library, hosting", "rule 7": "rule 7", "": "",
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

// TestReasonsForgetAddresses: what a list's entry says of addresses is shortened and hashed with them, in the reason of a journal entry and
// in its story; what names no address stays.
func TestReasonsForgetAddresses(t *testing.T) {
	short := map[string]string{
		"203.0.113.7": "203.0.113.0/24", "203.0.113.64/26": "203.0.113.0/24", "203.0.112.0/20": "203.0.112.0/20", "2001:db8:1:2::/64": "2001:db8:1::/48",
		"203.0.113.7-203.0.113.9": "203.0.113.0/24", "203.0.113.7-203.0.114.9": "203.0.113.0/24-203.0.114.0/24", "i:0a-0b": "i:0a-0b",
	}
	for _, way := range []string{shortenAddresses, hashAddresses} {
		cfg := small()
		cfg.Addresses, cfg.MaxAge, cfg.AddressesAfter = way, 10*day, day
		w := newWorld(t, cfg, nil)
		ids := map[string]request.ID{}
		w.write(len(short), func(lb *pebblestore.LogBatch) {
			for entry := range short {
				r := row{id: request.NewID(w.now()), share: 1}
				r.texts[colReason], r.texts[colPath] = []byte("api: "+entry), []byte(entry)
				ids[entry] = r.id
				w.put(lb, &r, verdict.Story{RequestID: r.id.String(), Entry: &verdict.StoryEntry{List: "api", Text: entry}}, nil)
			}
		})
		w.veil(w.now().Add(2 * day))
		for entry, want := range short {
			told, ok, err := w.Get(ids[entry])
			if err != nil || !ok || told.Story == nil || len(told.Entries) != 1 {
				t.Fatalf("%s, %s: %+v, %v", way, entry, told, err)
			}
			got := told.Story.Entry.Text
			if way == shortenAddresses && got != want || way == hashAddresses && strings.HasPrefix(got, "#") == strings.HasPrefix(entry, "i:") {
				t.Errorf("%s: the story has %q for %q", way, got, entry)
			}
			if reason := told.Entries[0].Reason; reason != "api: "+got {
				t.Errorf("%s: the reason is %q, the story has %q", way, reason, got)
			}
		}
	}
}
