package main

import (
	"context"
	"testing"
	"time"

	"antirobot/replay"
)

// TestTimed: people open their pages when the tapes say, all of them, and come back to what the tapes say they had seen.
func TestTimed(t *testing.T) {
	cfg := small()
	cfg.Kinds, cfg.WarmUp, cfg.Length, cfg.Scale = []Kind{Timed}, 9*time.Hour, 31*24*time.Hour, 1
	midnight, end := cfg.Begin.Add(-cfg.WarmUp), cfg.Begin.Add(cfg.Length)
	type page struct {
		at   time.Time
		path string
	}
	type who struct {
		habit  string
		number int
	}
	opened := map[who][]page{}
	err := Run(context.Background(), cfg, nil, func(r *Request, _ *replay.Served) error {
		if r.Page {
			c := who{r.Habit, r.Client}
			opened[c] = append(opened[c], page{r.View.At, string(r.View.Path)})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	tapes := map[string][]tape{}
	for _, source := range timedSorts() {
		tapes[source.name] = tapesOf(source.name)
	}
	seen, back := 0, 0
	for c, list := range opened {
		own := tapes[c.habit]
		tape := own[c.number%len(own)]
		due, was := midnight, map[int]string{}
		for n, m := range tape {
			if due = due.Add(m.after); due.Add(time.Minute).After(end) {
				break
			}
			if n >= len(list) {
				t.Fatalf("%v opened %d pages of %d", c, n, len(tape))
			}
			if late := list[n].at.Sub(due); late < 0 || late > 10*time.Second { // parts of the page before take a while
				t.Fatalf("page %d of %v is due at %v, opened at %v", n, c, due, list[n].at)
			}
			if path := was[m.page]; m.page > 0 && path != "" {
				back++
				if path != list[n].path {
					t.Fatalf("page %d of %v is %s, not %s again", n, c, list[n].path, path)
				}
			}
			was[m.page] = list[n].path
			seen++
		}
	}
	if len(opened) != 2260 || seen < 17000 || back < 1000 {
		t.Errorf("%d people opened %d pages, %d of them again", len(opened), seen, back)
	}
}

// TestTapes: what is no time, and what is no page's number, is refused.
func TestTapes(t *testing.T) {
	got, err := parseTape("3600.5 1.5/2 0/2\n")
	if err != nil || len(got) != 3 || got[0] != (moment{3600500 * time.Millisecond, 0}) || got[1] != (moment{1500 * time.Millisecond, 2}) {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"", "x", "-1", "1/", "1/0", "1/x"} {
		if got, err := parseTape(bad); err == nil {
			t.Errorf("%q gave %v", bad, got)
		}
	}
}
