package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"antirobot/store"
)

var errEnough = errors.New("enough")

func wantFeed(t testing.TB, s store.Store, topic, from string, want ...string) (last string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(bg, 10*time.Second)
	defer cancel()
	var got []string
	err := s.Follow(ctx, topic, from, func(pos string, msg []byte) error {
		got = append(got, string(msg))
		last = pos
		if len(got) == len(want) {
			return errEnough
		}
		return nil
	})
	if err != errEnough || strings.Join(got, ",") != strings.Join(want, ",") { //nolint:errorlint // returned as it is
		t.Fatalf("Follow(%q, %q) gave %q, %v; want %q", topic, from, got, err, want)
	}
	return last
}

func testFeedOrder(t *testing.T, s store.Store, _ Options) {
	var want []string
	for i := range 50 {
		want = append(want, fmt.Sprint("m", i))
		must(t, s.Append(bg, "t", b(want[i])))
		must(t, s.Append(bg, "t2", b("other")))
	}
	must(t, s.Append(bg, "t\x00", b("a topic whose name goes on")))
	must(t, s.Append(bg, "", b("")))
	wantFeed(t, s, "t", "0", want...)
	wantFeed(t, s, "", "0", "")
	if pos, err := s.Position(bg, "t"); err != nil || pos == "" || pos == "0" {
		t.Fatalf("Position = %q, %v", pos, err)
	}
}

func testFeedFrom(t *testing.T, s store.Store, _ Options) {
	// The position of an empty topic can be followed.
	empty, err := s.Position(bg, "t")
	must(t, err)
	must(t, s.Append(bg, "t", b("1")))
	must(t, s.Append(bg, "t", b("2")))
	pos, err := s.Position(bg, "t")
	must(t, err)
	must(t, s.Append(bg, "t", b("3")))
	must(t, s.Append(bg, "t", b("4")))
	wantFeed(t, s, "t", empty, "1", "2", "3", "4")
	wantFeed(t, s, "t", pos, "3", "4")
	three := wantFeed(t, s, "t", pos, "3")
	wantFeed(t, s, "t", three, "4")
	four := wantFeed(t, s, "t", pos, "3", "4")
	if end, err := s.Position(bg, "t"); err != nil || end != four {
		t.Fatalf("Position = %q, %v; the last message was at %q", end, err, four)
	}
}

func testFeedGap(t *testing.T, s store.Store, o Options) {
	if o.FeedKept == 0 {
		t.Skip("the backend does not say how many messages it keeps")
	}
	start, err := s.Position(bg, "t")
	must(t, err)
	ctx, cancel := context.WithTimeout(bg, time.Minute)
	defer cancel()
	release, slow := make(chan struct{}), make(chan error, 1)
	must(t, s.Append(bg, "t", b("0")))
	entered := make(chan struct{})
	go func() { // a slow follower gets ErrGap, perhaps after messages that were read
		n := 0
		slow <- s.Follow(ctx, "t", "0", func(string, []byte) error {
			if n++; n == 1 {
				close(entered)
				<-release
			}
			return nil
		})
	}()
	<-entered
	parallel(t, 16, func(w int) (bool, error) {
		for i := w; i < o.FeedKept+1; i += 16 {
			if err := s.Append(bg, "t", b("m")); err != nil {
				return false, err
			}
		}
		return true, nil
	})
	close(release)
	none := func(string, []byte) error { t.Error("a message after a gap"); return errEnough }
	fails(t, store.ErrGap, map[string]error{
		"a follower that fell behind": <-slow, "Follow from a dropped position": s.Follow(ctx, "t", start, none),
	})
	must(t, s.Append(bg, "t", b("last")))
	n := 0
	err = s.Follow(ctx, "t", "0", func(_ string, msg []byte) error {
		if n++; string(msg) == "last" {
			return errEnough
		}
		return nil
	})
	if err != errEnough || n > o.FeedKept { //nolint:errorlint // returned as it is
		t.Errorf("the oldest kept: %d messages, %v; want at most %d", n, err, o.FeedKept)
	}
}

func testFeedFollowFirst(t *testing.T, s store.Store, _ Options) {
	must(t, s.Append(bg, "t", b("before")))
	end, err := s.Position(bg, "t")
	must(t, err)
	for _, from := range []string{end, ""} {
		ctx, cancel := context.WithTimeout(bg, 10*time.Second)
		got, done := make(chan string, 1000), make(chan error, 1)
		go func() {
			done <- s.Follow(ctx, "t", from, func(_ string, msg []byte) error { got <- string(msg); return nil })
		}()
		// Nothing shows when a call with "" began: append until a message arrives.
		arrived := ""
		for i := 0; arrived == "" && ctx.Err() == nil; i++ {
			if from == "" || i == 0 {
				must(t, s.Append(bg, "t", b("after")))
			}
			select {
			case arrived = <-got:
			case <-time.After(20 * time.Millisecond):
			}
		}
		if arrived != "after" {
			t.Errorf("Follow(%q) gave %q; want what came after", from, arrived)
		}
		cancel()
		select {
		case err := <-done:
			fails(t, context.Canceled, map[string]error{"Follow after cancel": err})
		case <-time.After(10 * time.Second):
			t.Fatal("Follow goes on after its context")
		}
	}
}

func testFeedErrors(t *testing.T, s store.Store, _ Options) {
	must(t, s.Append(bg, "t", b("m")))
	own := errors.New("own")
	got := s.Follow(bg, "t", "0", func(string, []byte) error { return own })
	if got != own { //nolint:errorlint // returned as it is
		t.Errorf("error of the callback: %v", got)
	}
	for _, from := range []string{"nonsense", "-1", "@", "00", "\xff"} {
		ctx, cancel := context.WithTimeout(bg, 10*time.Second)
		err := s.Follow(ctx, "t", from, func(string, []byte) error { return own })
		fails(t, store.ErrPosition, map[string]error{"Follow from " + from: err})
		cancel()
	}
	// The callback may append to the topic that it follows.
	n := 0
	err := s.Follow(bg, "t", "0", func(string, []byte) error {
		if n++; n == 3 {
			return errEnough
		}
		return s.Append(bg, "t", b("m"))
	})
	if err != errEnough { //nolint:errorlint // returned as it is
		t.Errorf("Append in the callback: %v", err)
	}
}

func testFeedParallel(t *testing.T, s store.Store, _ Options) {
	const writers, each, followers = 4, 25, 3
	pos, err := s.Position(bg, "t")
	must(t, err)
	ctx, cancel := context.WithTimeout(bg, 30*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	seen := make([][]string, followers)
	for f := range followers {
		wg.Go(func() {
			err := s.Follow(ctx, "t", pos, func(_ string, msg []byte) error {
				if seen[f] = append(seen[f], string(msg)); len(seen[f]) == writers*each {
					return errEnough
				}
				return nil
			})
			if err != errEnough { //nolint:errorlint // returned as it is
				t.Errorf("follower %d saw %d: %v", f, len(seen[f]), err)
			}
		})
	}
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				if err := s.Append(bg, "t", fmt.Appendf(nil, "%d-%03d", w, i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for f := range followers {
		if strings.Join(seen[f], ",") != strings.Join(seen[0], ",") {
			t.Fatalf("followers 0 and %d saw different orders", f)
		}
	}
	next := [writers]int{}
	for _, m := range seen[0] {
		var w, i int
		if _, err := fmt.Sscanf(m, "%d-%d", &w, &i); err != nil || i != next[w] {
			t.Fatalf("message %q is out of its writer's order", m)
		}
		next[w]++
	}
}
