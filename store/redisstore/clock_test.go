package redisstore

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"antirobot/store"
	"antirobot/store/redisstore/redistest"
	"antirobot/store/storetest"
)

func openAt(t *testing.T, addr string, off time.Duration) *Store {
	t.Helper()
	s, err := New(DefaultConfig(), Deps{
		URL: "redis://" + addr, Log: zerolog.Nop(), ProbeEvery: 100 * time.Millisecond,
		Now: func() time.Time { return time.Now().Add(off) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// TestWrongClock: a node whose clock is a month ahead says so, knows by how much, still counts, and drops nothing that the
// other nodes may still ask for.
func TestWrongClock(t *testing.T) {
	r := redistest.Start(t)
	right, ahead := openAt(t, r.Addr, 0), openAt(t, r.Addr, 30*24*time.Hour)
	if err := right.Healthy(); err != nil || right.Skew() != 0 {
		t.Errorf("the right clock: %v, skew %v", err, right.Skew())
	}
	if err := ahead.Healthy(); err == nil || !strings.Contains(err.Error(), "ahead of the store's") {
		t.Errorf("a clock that is a month ahead: %v", err)
	}
	if got := ahead.Skew().Round(time.Minute); got != -30*24*time.Hour {
		t.Errorf("skew %v; want -720h", got)
	}
	if err := ahead.Counters().Healthy(); err != nil {
		t.Errorf("its updates are refused: %v", err)
	}
	ctx := context.Background()
	key := store.Counter{Prefix: "p", Shingle: 1, Type: 1}
	now := time.Now()
	slot, day := store.TenMinutes.Number(now), store.Day.Number(now)
	c := right.Counters()
	if err := c.Count(ctx, &store.Batch{Number: 1, Adds: []store.Delta{{Counter: key, Slot: slot, N: 5}}}); err != nil {
		t.Fatal(err)
	}
	wrong := now.Add(30 * 24 * time.Hour)
	err := errors.Join(
		ahead.Counters().Drop(ctx, store.Period{Unit: store.TenMinutes, Number: store.TenMinutes.Number(wrong) - store.SlotsPerDay}),
		ahead.Counters().Drop(ctx, store.Period{Unit: store.Day, Number: store.Day.Number(wrong) - store.DaysPerFortnight}),
	)
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*Store{"right": right, "ahead": ahead} {
		if _, err := s.hello(ctx); err != nil {
			t.Fatal(err)
		}
		var got [2]uint64
		if err := storetest.Read(ctx, s.Counters(), got[:], []store.Query{
			{Counter: key, From: slot, To: slot}, {Counter: key, Unit: store.Day, From: day, To: day},
		}); err != nil || got != [2]uint64{5, 5} {
			t.Errorf("%s reads %v, %v; want 5 and 5", name, got, err)
		}
	}
}

// TestNewerSchema: a store that newer gateways use is refused at start, and gateways that are already running report it.
func TestNewerSchema(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	s := openAt(t, r.Addr, 0)
	r.CLI(t, "set", s.own("schema"), "99")
	says := func(err error) bool { return err != nil && strings.Contains(err.Error(), "version 99") }
	for end := time.Now().Add(time.Minute); !says(s.Healthy()); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("a running gateway does not notice: %v", s.Healthy())
		}
	}
	if _, err := New(DefaultConfig(), Deps{URL: "redis://" + r.Addr, Log: zerolog.Nop()}); !says(err) {
		t.Errorf("a start: %v", err)
	}
	r.CLI(t, "set", s.own("schema"), "0")
	if _, err := s.hello(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := r.CLI(t, "get", s.own("schema")); got != "1" {
		t.Errorf("an older store has version %s after a newer gateway came", got)
	}
}

// TestNewMaster: an unknown master is a gap for every feed, even if the feed is complete.
func TestNewMaster(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t, "--enable-debug-command", "yes")
	s := openAt(t, r.Addr, 0)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := s.Append(ctx, "t", []byte("m")); err != nil {
		t.Fatal(err)
	}
	pos, err := s.Position(ctx, "t")
	if err != nil {
		t.Fatal(err)
	}
	end := make(chan error, 1)
	go func() { end <- s.Follow(ctx, "t", pos, func(string, []byte) error { return nil }) }()
	r.CLI(t, "debug", "change-repl-id")
	select {
	case err := <-end:
		if !errors.Is(err, store.ErrGap) {
			t.Errorf("Follow: %v; want ErrGap", err)
		}
	case <-ctx.Done():
		t.Fatal("Follow does not notice")
	}
}
