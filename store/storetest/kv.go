package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"antirobot/store"
)

func testKV(t *testing.T, s store.Store, _ Options) {
	wantValue(t, s, "a", nil)
	must(t, s.Delete(bg, b("a")))
	large := make([]byte, 1<<20)
	large[len(large)-1] = 7
	binary := "\x00\xff\x00k"
	for _, p := range []struct {
		key string
		val []byte
	}{
		{"a", b("1")},
		{"a", b("22")},
		{"nil", nil},
		{"", b("of the empty key")},
		{binary, b("\x00\xffv\x00")},
		{"large", large},
	} {
		must(t, s.Put(bg, b(p.key), p.val, 0))
		wantValue(t, s, p.key, append([]byte{}, p.val...))
	}
	got, err := s.Get(bg, b("x:"), b("a"))
	if err != nil || string(got) != "x:22" {
		t.Fatalf("Get does not append: %q, %v", got, err)
	}
	got, err = s.Get(bg, b("x:"), b("none"))
	if !errors.Is(err, store.ErrNotFound) || string(got) != "x:" {
		t.Fatalf("Get of an absent key: %q, %v; want dst unchanged and ErrNotFound", got, err)
	}
	must(t, s.Delete(bg, b("a")))
	wantValue(t, s, "a", nil)
	wantValue(t, s, binary, b("\x00\xffv\x00"))
}

func testSwap(t *testing.T, s store.Store, o Options) {
	for _, step := range []struct {
		old, val []byte
		want     bool
	}{
		{b("x"), b("1"), false},
		{b(""), b("1"), false}, // empty is not absent
		{nil, b("1"), true},
		{nil, b("2"), false},
		{b("2"), b("3"), false},
		{b("1"), b(""), true},
		{nil, b("4"), false}, // absent is not empty
		{b(""), b("5"), true},
	} {
		gives(t, step.want)(s.Swap(bg, b("a"), step.old, step.val, 0))
	}
	wantValue(t, s, "a", b("5"))

	must(t, s.Put(bg, b("dying"), b("1"), o.unit()))
	o.advance(o.unit())
	gives(t, false)(s.Swap(bg, b("dying"), b("1"), b("2"), 0))
	gives(t, true)(s.Swap(bg, b("dying"), nil, b("2"), 0))
}

// testSwapParallel: a counter built on Swap loses no increment if Swap is atomic.
func testSwapParallel(t *testing.T, s store.Store, _ Options) {
	const workers, rounds = 8, 40
	must(t, s.Put(bg, b("n"), b("0"), 0))
	parallel(t, workers, func(int) (bool, error) {
		for done := 0; done < rounds; {
			old, err := s.Get(bg, nil, b("n"))
			if err != nil {
				return false, err
			}
			n, err := strconv.Atoi(string(old))
			if err != nil {
				return false, err
			}
			ok, err := s.Swap(bg, b("n"), old, fmt.Append(nil, n+1), 0)
			if err != nil {
				return false, err
			}
			if ok {
				done++
			}
		}
		return true, nil
	})
	wantValue(t, s, "n", fmt.Append(nil, workers*rounds))
	if n := parallel(t, 32, func(int) (bool, error) { return s.Swap(bg, b("new"), nil, b("v"), 0) }); n != 1 {
		t.Fatalf("%d of 32 created the key", n)
	}
}

func testCopies(t *testing.T, s store.Store, _ Options) {
	key, val, once, msg := b("key"), b("val"), b("once"), b("msg")
	must(t, s.Put(bg, key, val, 0))
	gives(t, true)(s.Spend(bg, once, 0))
	must(t, s.Append(bg, "t", msg))
	for _, mine := range [][]byte{key, val, once, msg} {
		clear(mine)
	}
	wantValue(t, s, "key", b("val"))
	got, err := s.Get(bg, nil, b("key"))
	must(t, err)
	clear(got)
	must(t, s.Scan(bg, nil, func(k, v []byte, _ time.Duration) error {
		clear(k)
		clear(v)
		return nil
	}))
	wantValue(t, s, "key", b("val"))
	gives(t, false)(s.Spend(bg, b("once"), 0))
	wantFeed(t, s, "t", "0", "msg")
}

func testSpaces(t *testing.T, s store.Store, _ Options) {
	gives(t, true)(s.Spend(bg, b("k"), 0))
	gives(t, int64(3))(s.Incr(bg, b("k"), 3, 0))
	wantValue(t, s, "k", nil)
	must(t, s.Put(bg, b("k"), b("v"), 0))
	gives(t, int64(3))(s.Incr(bg, b("k"), 0, 0))
	must(t, s.Delete(bg, b("k")))
	gives(t, false)(s.Spend(bg, b("k"), 0))
	gives(t, int64(3))(s.Incr(bg, b("k"), 0, 0))
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
	gives(t, true)(s.Spend(bg, b("short"), u))
	gives(t, int64(5))(s.Incr(bg, b("short"), 5, u))
	if o.Clock == nil {
		o.advance(u)
	} else {
		o.Clock.Advance(u - time.Millisecond)
		wantValue(t, s, "short", b("1")) // the last millisecond
		if got := scan(t, s, "short"); got["short"].ttl != time.Millisecond {
			t.Fatalf("ttl left = %v; want 1ms", got["short"].ttl)
		}
		gives(t, false)(s.Spend(bg, b("short"), u))
		o.Clock.Advance(time.Millisecond)
	}
	wantValue(t, s, "short", nil)
	if got := scan(t, s, ""); len(got) != 2 || got["ever"].ttl != 0 || got["long"].ttl <= 0 || got["long"].ttl > 19*u {
		t.Fatalf("Scan after expiry: %v", got)
	}
	gives(t, int64(0))(s.Incr(bg, b("short"), 0, u))
	gives(t, true)(s.Spend(bg, b("short"), u))
	must(t, s.Delete(bg, b("short")))
	if o.Clock == nil {
		return
	}
	must(t, s.Put(bg, b("huge"), b("1"), 1<<63-1))
	o.Clock.Advance(100 * 365 * 24 * time.Hour)
	wantValue(t, s, "huge", b("1"))
	wantValue(t, s, "ever", b("1"))
	must(t, s.Put(bg, b("sub"), b("1"), time.Nanosecond)) // rounded up, never to "no expiry"
	wantValue(t, s, "sub", b("1"))
	o.Clock.Advance(time.Millisecond)
	wantValue(t, s, "sub", nil)
}

func testTTLReplaced(t *testing.T, s store.Store, o Options) {
	u := o.unit()
	for key, ttls := range map[string][2]time.Duration{"longer": {u, 20 * u}, "ever": {u, 0}, "shorter": {20 * u, u}} {
		must(t, s.Put(bg, b(key), b("1"), ttls[0]))
		must(t, s.Put(bg, b(key), b("2"), ttls[1]))
	}
	must(t, s.Put(bg, b("swapped"), b("1"), u))
	gives(t, true)(s.Swap(bg, b("swapped"), b("1"), b("2"), 20*u))
	o.advance(u)
	for i := range 100 { // writes drive the sweep of some backends
		must(t, s.Put(bg, fmt.Appendf(nil, "other%d", i), b("1"), u))
	}
	for _, key := range []string{"longer", "ever", "swapped"} {
		wantValue(t, s, key, b("2"))
	}
	wantValue(t, s, "shorter", nil)
}

func testNegativeTTL(t *testing.T, s store.Store, _ Options) {
	_, swap := s.Swap(bg, b("k"), nil, b("v"), -1)
	_, spend := s.Spend(bg, b("k"), -1)
	_, take := s.Take(bg, b("k"), 1, 1, -1)
	_, incr := s.Incr(bg, b("k"), 1, -1)
	fails(t, store.ErrTTL, map[string]error{
		"Put": s.Put(bg, b("k"), b("v"), -1), "Swap": swap, "Spend": spend, "Take": take, "Incr": incr,
	})
	wantValue(t, s, "k", nil)
	gives(t, int64(0))(s.Incr(bg, b("k"), 0, 0))
	gives(t, true)(s.Spend(bg, b("k"), 0))
}

func testScan(t *testing.T, s store.Store, _ Options) {
	keys := []string{
		"", "a", "a\x00", "a\xff", "a\xff\xff", "ab", "b", "\xfe", "\xff", "\xff\x00", "\xff\xff",
		"\xff\xff\xff",
	}
	for _, k := range keys {
		must(t, s.Put(bg, b(k), b("v"+k), 0))
	}
	for _, prefix := range append(slices.Clone(keys), "zz", "a\xfe", "\xfd") {
		want := map[string]scanned{}
		for _, k := range keys {
			if strings.HasPrefix(k, prefix) {
				want[k] = scanned{"v" + k, 0}
			}
		}
		if got := scan(t, s, prefix); !maps.Equal(got, want) {
			t.Errorf("Scan(%q) gave %v; want %v", prefix, got, want)
		}
	}
	for i := range 3000 {
		must(t, s.Put(bg, fmt.Appendf(nil, "many/%04d", i), b("x"), 0))
	}
	if got := scan(t, s, "many/"); len(got) != 3000 {
		t.Errorf("Scan of many gave %d", len(got))
	}
}

func testScanCallback(t *testing.T, s store.Store, _ Options) {
	for i := range 10 {
		must(t, s.Put(bg, fmt.Appendf(nil, "k%d", i), b("v"), 0))
	}
	stop := errors.New("stop")
	n := 0
	got := s.Scan(bg, b("k"), func(_, _ []byte, _ time.Duration) error { n++; return stop })
	if got != stop || n != 1 { //nolint:errorlint // returned as it is
		t.Fatalf("error of the callback: %v after %d calls", got, n)
	}
	// The callback may call the store, even for its own key.
	must(t, s.Scan(bg, b("k"), func(k, _ []byte, _ time.Duration) error {
		key := slices.Clone(k)
		return errors.Join(s.Put(bg, key, b("w"), 0), s.Delete(bg, key))
	}))
	if got := scan(t, s, "k"); len(got) != 0 {
		t.Fatalf("left after deleting all in Scan: %v", got)
	}
	must(t, s.Put(bg, b("k"), b("v"), 0))
	must(t, s.Put(bg, b("k2"), b("v"), 0))
	ctx, cancel := context.WithCancel(bg)
	defer cancel()
	err := s.Scan(ctx, b("k"), func(_, _ []byte, _ time.Duration) error { cancel(); return nil })
	fails(t, context.Canceled, map[string]error{"Scan cancelled in its callback": err})
}

func calls(ctx context.Context, s store.Store) map[string]error {
	errs := map[string]error{
		"Put": s.Put(ctx, b("k"), b("v"), 0), "Delete": s.Delete(ctx, b("k")), "Append": s.Append(ctx, "t", b("m")),
		"Scan":   s.Scan(ctx, nil, func(_, _ []byte, _ time.Duration) error { return nil }),
		"Follow": s.Follow(ctx, "t", "0", func(string, []byte) error { return nil }),
	}
	_, errs["Get"] = s.Get(ctx, nil, b("k"))
	_, errs["Swap"] = s.Swap(ctx, b("k"), nil, b("v"), 0)
	_, errs["Spend"] = s.Spend(ctx, b("k"), 0)
	_, errs["Take"] = s.Take(ctx, b("k"), 1, 1, 0)
	_, errs["Incr"] = s.Incr(ctx, b("k"), 1, 0)
	_, errs["Position"] = s.Position(ctx, "t")
	return errs
}

func testCancelled(t *testing.T, s store.Store, _ Options) {
	must(t, s.Put(bg, b("k"), b("v"), 0))
	must(t, s.Append(bg, "t", b("m")))
	ctx, cancel := context.WithCancel(bg)
	cancel()
	fails(t, context.Canceled, calls(ctx, s))
	late, cancel := context.WithDeadline(bg, time.Unix(1, 0))
	defer cancel()
	fails(t, context.DeadlineExceeded, calls(late, s))
}

func testClosed(t *testing.T, s store.Store, _ Options) {
	must(t, s.Put(bg, b("k"), b("v"), 0))
	must(t, s.Healthy())
	following := make(chan error, 1)
	go func() { following <- s.Follow(bg, "t", "", func(string, []byte) error { return nil }) }()
	must(t, s.Close())
	errs := calls(bg, s)
	errs["Healthy"] = s.Healthy()
	select {
	case errs["Follow over Close"] = <-following:
	case <-time.After(10 * time.Second):
		t.Error("Follow goes on after Close")
	}
	fails(t, store.ErrClosed, errs)
	must(t, s.Close())
}
