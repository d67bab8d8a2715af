package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"antirobot/replay"
)

// small is an hour of all kinds.
func small() Config {
	c := DefaultConfig()
	c.Length, c.WarmUp, c.Scale = time.Hour, 3*time.Hour, 0.1
	return c
}

func TestConfig(t *testing.T) {
	for what, change := range map[string]func(*Config){
		"kind": func(c *Config) { c.Kinds = []Kind{"aliens"} }, "length": func(c *Config) { c.Length = 0 },
		"warm-up": func(c *Config) { c.WarmUp = -1 }, "scale": func(c *Config) { c.Scale = 0 },
	} {
		c := small()
		change(&c)
		if err := Run(context.Background(), c, nil, func(*Request, *replay.Served) error { return nil }); err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
}

// TestHabits checks what each kind does: this is what the measured figures mean.
func TestHabits(t *testing.T) {
	type habit struct {
		requests, parts, cookies, referers int
		addresses, agents                  map[string]bool
		last                               time.Time
		least                              time.Duration
	}
	of := map[Kind]*habit{}
	var clock time.Time
	err := Run(context.Background(), small(), nil, func(r *Request, _ *replay.Served) error {
		if r.View.At.Before(clock) {
			t.Fatalf("time goes back to %v", r.View.At)
		}
		clock = r.View.At
		h := of[r.Kind]
		if h == nil {
			h = &habit{addresses: map[string]bool{}, agents: map[string]bool{}, least: time.Hour}
			of[r.Kind] = h
		}
		h.requests++
		h.addresses[r.View.Peer.String()] = true
		h.agents[string(r.View.Get("User-Agent"))] = true
		if strings.HasPrefix(string(r.View.Path), "/pictures/") || strings.HasPrefix(string(r.View.Path), "/static/") {
			h.parts++
		}
		if r.View.Has("Cookie") {
			h.cookies++
		}
		if r.View.Has("Referer") {
			h.referers++
		}
		if r.Client == 0 {
			if !h.last.IsZero() {
				h.least = min(h.least, r.View.At.Sub(h.last))
			}
			h.last = r.View.At
		}
		if r.View.Fields[0].Name[0] != 'H' || string(r.View.Fields[0].Value) != "shop.example" {
			t.Errorf("%s: the first field is %s: %s", r.Kind, r.View.Fields[0].Name, r.View.Fields[0].Value)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range day() {
		if of[k] == nil {
			t.Fatalf("no traffic of %s", k)
		}
	}
	for _, k := range []Kind{People, Office, Mobile, Headless} {
		if h := of[k]; 4*h.parts < h.requests || 2*h.cookies < h.requests || h.referers == 0 {
			t.Errorf("%s: %d requests, %d parts, %d with cookies, %d with a referer", k, h.requests, h.parts, h.cookies, h.referers)
		}
	}
	for _, k := range []Kind{Fast, Slow, Spread, Liar} {
		if h := of[k]; h.parts > 0 || h.referers > 0 {
			t.Errorf("%s: %d parts, %d referers", k, h.parts, h.referers)
		}
	}
	if n := len(of[Office].addresses); n != 1 {
		t.Errorf("the office has %d addresses", n)
	}
	if n := len(of[Mobile].addresses); n < 4 || n > carrierAddrs {
		t.Errorf("telephones have %d addresses", n)
	}
	if a, r := len(of[Spread].addresses), of[Spread].requests; a < 10 || r/a > 10 {
		t.Errorf("spread: %d requests from %d addresses", r, a)
	}
	if of[Fast].least > 200*time.Millisecond || of[Slow].least < 20*time.Second {
		t.Errorf("gaps: fast %v, slow %v", of[Fast].least, of[Slow].least)
	}
	if of[Fast].requests < 6*9*3600 {
		t.Errorf("fast: %d requests", of[Fast].requests)
	}
}

// TestNavigationIsTheCapture compares what is sent with the capture from which it is made: order and values.
func TestNavigationIsTheCapture(t *testing.T) {
	fleet, err := browsers()
	if err != nil {
		t.Fatal(err)
	}
	if len(fleet) < 12 {
		t.Fatalf("only %d browsers", len(fleet))
	}
	for _, b := range fleet {
		w := &world{cfg: small(), fleet: fleet, made: map[Kind]int{}}
		c := w.robot(Headless, b, hosting(&client{}, 1))
		c.fill(&w.view, &planned{path: "/", dest: destPage}, "shop.example")
		var sent []string
		for _, f := range w.view.Fields {
			if n := string(f.Name); n != "Host" && n != "Connection" {
				sent = append(sent, n+": "+string(f.Value))
			}
		}
		var want []string
		for _, f := range b.fields {
			want = append(want, string(f.Name)+": "+string(f.Value))
		}
		if !slices.Equal(sent, want) {
			t.Errorf("%s\n sent %q\nwant %q", b.name, sent, want)
		}
	}
}

// TestLogIsReadable: every line of the log is one that replay reads, with the address, path and User-Agent.
func TestLogIsReadable(t *testing.T) {
	var out bytes.Buffer
	w := bufio.NewWriter(&out)
	var want []string
	write := logWriter(w, false)
	err := Run(context.Background(), small(), nil, func(r *Request, s *replay.Served) error {
		want = append(want, r.View.Peer.String()+" "+string(r.View.Target)+" "+string(r.View.Get("User-Agent"))+" "+r.View.At.Format(time.DateTime))
		return write(r, s)
	})
	if err := errors.Join(err, w.Flush()); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != len(want) || len(lines) < 1000 {
		t.Fatalf("%d lines of %d requests", len(lines), len(want))
	}
	var r replay.Record
	for i, line := range lines {
		if err := replay.Combined.Parse(&r, []byte(line)); err != nil {
			t.Fatalf("line %d: %v\n%s", i+1, err, line)
		}
		if got := r.Addr.String() + " " + string(r.Target) + " " + string(r.Agent()) + " " + r.At.Format(time.DateTime); got != want[i] {
			t.Fatalf("line %d\n got %s\nwant %s", i+1, got, want[i])
		}
	}
}

// TestEventsAreWhole: the events have every field in wire order, and their author.
func TestEventsAreWhole(t *testing.T) {
	var out bytes.Buffer
	c := small()
	c.Kinds, c.Length, c.WarmUp = []Kind{Headless}, time.Minute, 0
	if err := Run(context.Background(), c, nil, eventWriter(&out)); err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(out.String(), "\n")
	for _, want := range []string{
		`"kind":"headless"`, `"robot":true`, `"headers":[["Host","shop.example"],["Connection","keep-alive"],["sec-ch-ua",`, `["Sec-Fetch-Mode","navigate"]`,
	} {
		if !strings.Contains(first, want) {
			t.Errorf("nothing says %s in\n%s", want, first)
		}
	}
}

// TestWhatIsKept: who reads in private windows loads the parts of all pages again with each window; who keeps none, whenever it opens a page or
// several at once; readers hardly ever.
func TestWhatIsKept(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Kinds, cfg.WarmUp, cfg.Length = []Kind{Guests}, 24*time.Hour, time.Hour
	const style = "/static/site.css"
	pages, styles := map[string]int{}, map[string]int{}
	err := Run(context.Background(), cfg, nil, func(r *Request, _ *replay.Served) error {
		if r.Page {
			pages[r.Habit]++
		} else if string(r.View.Path) == style {
			styles[r.Habit]++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for habit, of := range map[string][2]float64{"readers": {0, 0.15}, "windows": {0.05, 0.4}, "uncached": {0.7, 1}} {
		if got := float64(styles[habit]) / float64(pages[habit]); pages[habit] < 100 || got < of[0] || got > of[1] {
			t.Errorf("%s load %d style sheets with %d pages", habit, styles[habit], pages[habit])
		}
	}
}
