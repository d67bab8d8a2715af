package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"antirobot/store"
)

func testKV(t *testing.T, s store.Store, _ Options) {
	wantValue(t, s, "a", nil)
	must(t, s.Delete(bg, b("a")))
	must(t, s.Put(bg, b("a"), b("1"), 0))
	wantValue(t, s, "a", b("1"))
	must(t, s.Put(bg, b("a"), b("22"), 0))
	wantValue(t, s, "a", b("22"))
	got, err := s.Get(bg, b("x:"), b("a"))
	if err != nil || string(got) != "x:22" {
		t.Fatalf("Get does not append: %q, %v", got, err)
	}
	got, err = s.Get(bg, b("x:"), b("none"))
	if !errors.Is(err, store.ErrNotFound) || string(got) != "x:" {
		t.Fatalf("Get of an absent key: %q, %v; want dst unchanged and ErrNotFound", got, err)
	}
	must(t, s.Put(bg, b("nil"), nil, 0))
	wantValue(t, s, "nil", b(""))
	must(t, s.Put(bg, nil, b("of the empty key"), 0))
	wantValue(t, s, "", b("of the empty key"))
	binary := "\x00\xff\x00k"
	must(t, s.Put(bg, b(binary), b("\x00\xffv\x00"), 0))
	wantValue(t, s, binary, b("\x00\xffv\x00"))
	large := make([]byte, 1<<20)
	large[len(large)-1] = 7
	must(t, s.Put(bg, b("large"), large, 0))
	wantValue(t, s, "large", large)
	must(t, s.Delete(bg, b("a")))
	wantValue(t, s, "a", nil)
	wantValue(t, s, binary, b("\x00\xffv\x00"))
}

func testSwap(t *testing.T, s store.Store, o Options) {
	try := func(key string, old, val []byte, want bool) {
		t.Helper()
		got, err := s.Swap(bg, b(key), old, val, 0)
		if err != nil || got != want {
			t.Fatalf("Swap(%q, %q → %q) = %v, %v; want %v", key, old, val, got, err, want)
		}
	}
	try("a", b("x"), b("1"), false)
	try("a", b(""), b("1"), false) // empty is not absent
	wantValue(t, s, "a", nil)
	try("a", nil, b("1"), true)
	try("a", nil, b("2"), false)
	try("a", b("2"), b("3"), false)
	wantValue(t, s, "a", b("1"))
	try("a", b("1"), b(""), true)
	try("a", nil, b("4"), false) // absent is not empty
	try("a", b(""), b("5"), true)
	wantValue(t, s, "a", b("5"))

	must(t, s.Put(bg, b("dying"), b("1"), o.unit()))
	o.advance(o.unit())
	try("dying", b("1"), b("2"), false)
	try("dying", nil, b("2"), true)
}

func testCopies(t *testing.T, s store.Store, _ Options) {
	key, val := b("key"), b("val")
	must(t, s.Put(bg, key, val, 0))
	copy(key, "xxx")
	copy(val, "yyy")
	wantValue(t, s, "key", b("val"))
	got, err := s.Get(bg, nil, b("key"))
	must(t, err)
	copy(got, "zzz")
	wantValue(t, s, "key", b("val"))
	must(t, s.Scan(bg, nil, func(k, v []byte, _ time.Duration) error {
		clear(k)
		clear(v)
		return nil
	}))
	wantValue(t, s, "key", b("val"))

	once := b("once")
	_, err = s.Spend(bg, once, 0)
	must(t, err)
	copy(once, "ecno")
	if first, err := s.Spend(bg, b("once"), 0); err != nil || first {
		t.Fatalf("Spend kept the caller's key: %v, %v", first, err)
	}
	msg := b("msg")
	must(t, s.Append(bg, "t", msg))
	copy(msg, "xxx")
	wantFeed(t, s, "t", "0", "msg")
}

func testSpaces(t *testing.T, s store.Store, _ Options) {
	if first, err := s.Spend(bg, b("k"), 0); err != nil || !first {
		t.Fatalf("Spend = %v, %v", first, err)
	}
	wantValue(t, s, "k", nil)
	if n, err := s.Incr(bg, b("k"), 3, 0); err != nil || n != 3 {
		t.Fatalf("Incr = %d, %v", n, err)
	}
	wantValue(t, s, "k", nil)
	must(t, s.Put(bg, b("k"), b("v"), 0))
	if n, err := s.Incr(bg, b("k"), 0, 0); err != nil || n != 3 {
		t.Fatalf("Incr after Put = %d, %v", n, err)
	}
	must(t, s.Delete(bg, b("k")))
	if first, err := s.Spend(bg, b("k"), 0); err != nil || first {
		t.Fatalf("Delete made a spent key new: %v, %v", first, err)
	}
	if n, err := s.Incr(bg, b("k"), 0, 0); err != nil || n != 3 {
		t.Fatalf("Incr after Delete = %d, %v", n, err)
	}
	must(t, s.Append(bg, "k", b("m")))
	if n := len(scan(t, s, "")); n != 0 {
		t.Fatalf("Scan shows %d keys of others", n)
	}
}

func testTTL(t *testing.T, s store.Store, o Options) {
	u := o.unit()
	must(t, s.Put(bg, b("short"), b("1"), u))
	must(t, s.Put(bg, b("long"), b("1"), 20*u))
	must(t, s.Put(bg, b("ever"), b("1"), 0))
	if _, err := s.Spend(bg, b("short"), u); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Incr(bg, b("short"), 5, u); err != nil {
		t.Fatal(err)
	}
	if o.Clock != nil {
		o.Clock.Advance(u - time.Millisecond)
		wantValue(t, s, "short", b("1")) // the last millisecond
		if got := scan(t, s, "short"); got["short"].ttl != time.Millisecond {
			t.Fatalf("ttl left = %v; want 1ms", got["short"].ttl)
		}
		if first, err := s.Spend(bg, b("short"), u); err != nil || first {
			t.Fatalf("Spend before expiry = %v, %v", first, err)
		}
		o.Clock.Advance(time.Millisecond)
	} else {
		o.advance(u)
	}
	wantValue(t, s, "short", nil)
	if got := scan(t, s, ""); len(got) != 2 || got["ever"].ttl != 0 || got["long"].ttl <= 0 || got["long"].ttl > 19*u {
		t.Fatalf("Scan after expiry: %v", got)
	}
	if n, err := s.Incr(bg, b("short"), 0, u); err != nil || n != 0 {
		t.Fatalf("expired counter = %d, %v", n, err)
	}
	if first, err := s.Spend(bg, b("short"), u); err != nil || !first {
		t.Fatalf("Spend after expiry = %v, %v; want true", first, err)
	}
	must(t, s.Delete(bg, b("short")))
	if o.Clock != nil {
		must(t, s.Put(bg, b("huge"), b("1"), 1<<63-1))
		o.Clock.Advance(100 * 365 * 24 * time.Hour)
		wantValue(t, s, "huge", b("1"))
		wantValue(t, s, "ever", b("1"))
		must(t, s.Put(bg, b("sub"), b("1"), time.Nanosecond)) // rounded up, never to "no expiry"
		wantValue(t, s, "sub", b("1"))
		o.Clock.Advance(time.Millisecond)
		wantValue(t, s, "sub", nil)
	}
}

func testTTLReplaced(t *testing.T, s store.Store, o Options) {
	u := o.unit()
	must(t, s.Put(bg, b("longer"), b("1"), u))
	must(t, s.Put(bg, b("longer"), b("2"), 20*u))
	must(t, s.Put(bg, b("ever"), b("1"), u))
	must(t, s.Put(bg, b("ever"), b("2"), 0))
	must(t, s.Put(bg, b("shorter"), b("1"), 20*u))
	must(t, s.Put(bg, b("shorter"), b("2"), u))
	must(t, s.Put(bg, b("swapped"), b("1"), u))
	if ok, err := s.Swap(bg, b("swapped"), b("1"), b("2"), 20*u); err != nil || !ok {
		t.Fatalf("Swap = %v, %v", ok, err)
	}
	o.advance(u)
	for i := range 100 { // writes drive the sweep of some backends
		must(t, s.Put(bg, fmt.Appendf(nil, "other%d", i), b("1"), u))
	}
	wantValue(t, s, "longer", b("2"))
	wantValue(t, s, "ever", b("2"))
	wantValue(t, s, "swapped", b("2"))
	wantValue(t, s, "shorter", nil)
}

func testNegativeTTL(t *testing.T, s store.Store, _ Options) {
	if err := s.Put(bg, b("k"), b("v"), -1); !errors.Is(err, store.ErrTTL) {
		t.Errorf("Put: %v", err)
	}
	if _, err := s.Swap(bg, b("k"), nil, b("v"), -1); !errors.Is(err, store.ErrTTL) {
		t.Errorf("Swap: %v", err)
	}
	if first, err := s.Spend(bg, b("k"), -1); !errors.Is(err, store.ErrTTL) || first {
		t.Errorf("Spend: %v, %v", first, err)
	}
	if n, err := s.Take(bg, b("k"), 1, 1, -1); !errors.Is(err, store.ErrTTL) || n != 0 {
		t.Errorf("Take: %d, %v", n, err)
	}
	if _, err := s.Incr(bg, b("k"), 1, -1); !errors.Is(err, store.ErrTTL) {
		t.Errorf("Incr: %v", err)
	}
	wantValue(t, s, "k", nil)
}

func testSwapParallel(t *testing.T, s store.Store, _ Options) {
	// A counter built on Swap loses no increment if Swap is atomic.
	const workers, rounds = 8, 40
	must(t, s.Put(bg, b("n"), b("0"), 0))
	var wg sync.WaitGroup
	var retries atomic.Int64
	for range workers {
		wg.Go(func() {
			for done := 0; done < rounds; {
				old, err := s.Get(bg, nil, b("n"))
				if err != nil {
					t.Error(err)
					return
				}
				var n int
				if _, err := fmt.Sscan(string(old), &n); err != nil {
					t.Error(err)
					return
				}
				ok, err := s.Swap(bg, b("n"), old, fmt.Appendf(nil, "%d", n+1), 0)
				if err != nil {
					t.Error(err)
					return
				}
				if ok {
					done++
				} else {
					retries.Add(1)
				}
			}
		})
	}
	wg.Wait()
	wantValue(t, s, "n", fmt.Appendf(nil, "%d", workers*rounds))
	var winners atomic.Int64
	for range 32 {
		wg.Go(func() {
			ok, err := s.Swap(bg, b("new"), nil, b("v"), 0)
			if err != nil {
				t.Error(err)
			}
			if ok {
				winners.Add(1)
			}
		})
	}
	wg.Wait()
	if winners.Load() != 1 {
		t.Fatalf("%d of 32 created the key", winners.Load())
	}
}

func testCancelled(t *testing.T, s store.Store, _ Options) {
	must(t, s.Put(bg, b("k"), b("v"), 0))
	must(t, s.Append(bg, "t", b("m")))
	ctx, cancel := context.WithCancel(bg)
	cancel()
	for name, err := range calls(ctx, s) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s with a cancelled context: %v", name, err)
		}
	}
	late, cancel := context.WithDeadline(bg, time.Unix(1, 0))
	defer cancel()
	for name, err := range calls(late, s) {
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s after its deadline: %v", name, err)
		}
	}
}

func calls(ctx context.Context, s store.Store) map[string]error {
	errs := map[string]error{}
	_, errs["Get"] = s.Get(ctx, nil, b("k"))
	errs["Put"] = s.Put(ctx, b("k"), b("v"), 0)
	_, errs["Swap"] = s.Swap(ctx, b("k"), nil, b("v"), 0)
	errs["Delete"] = s.Delete(ctx, b("k"))
	errs["Scan"] = s.Scan(ctx, nil, func(_, _ []byte, _ time.Duration) error { return nil })
	_, errs["Spend"] = s.Spend(ctx, b("k"), 0)
	_, errs["Take"] = s.Take(ctx, b("k"), 1, 1, 0)
	_, errs["Incr"] = s.Incr(ctx, b("k"), 1, 0)
	errs["Append"] = s.Append(ctx, "t", b("m"))
	errs["Follow"] = s.Follow(ctx, "t", "0", func(string, []byte) error { return nil })
	_, errs["Position"] = s.Position(ctx, "t")
	return errs
}

func testClosed(t *testing.T, s store.Store, _ Options) {
	must(t, s.Put(bg, b("k"), b("v"), 0))
	if err := s.Healthy(); err != nil {
		t.Fatalf("Healthy before Close: %v", err)
	}
	following := make(chan error, 1)
	go func() { following <- s.Follow(bg, "t", "", func(string, []byte) error { return nil }) }()
	must(t, s.Close())
	select {
	case err := <-following:
		if !errors.Is(err, store.ErrClosed) {
			t.Errorf("Follow over Close: %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("Follow goes on after Close")
	}
	for name, err := range calls(bg, s) {
		if !errors.Is(err, store.ErrClosed) {
			t.Errorf("%s after Close: %v", name, err)
		}
	}
	if err := s.Healthy(); !errors.Is(err, store.ErrClosed) {
		t.Errorf("Healthy after Close: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}
