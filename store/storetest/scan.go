package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"antirobot/store"
)

type scanned struct {
	val string
	ttl time.Duration
}

func scan(t testing.TB, s store.Store, prefix string) map[string]scanned {
	t.Helper()
	got := map[string]scanned{}
	must(t, s.Scan(bg, b(prefix), func(k, v []byte, ttl time.Duration) error {
		if _, twice := got[string(k)]; twice {
			t.Fatalf("Scan shows %q twice", k)
		}
		got[string(k)] = scanned{string(v), ttl}
		return nil
	}))
	return got
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
		var want []string
		for _, k := range keys {
			if len(k) >= len(prefix) && k[:len(prefix)] == prefix {
				want = append(want, k)
			}
		}
		got := scan(t, s, prefix)
		if len(got) != len(want) {
			t.Errorf("Scan(%q) gave %d keys; want %q", prefix, len(got), want)
		}
		for _, k := range want {
			if got[k].val != "v"+k {
				t.Errorf("Scan(%q): value of %q = %q", prefix, k, got[k].val)
			}
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
		if err := s.Put(bg, key, b("w"), 0); err != nil {
			return err
		}
		return s.Delete(bg, key)
	}))
	if got := scan(t, s, "k"); len(got) != 0 {
		t.Fatalf("left after deleting all in Scan: %v", got)
	}
	must(t, s.Put(bg, b("k"), b("v"), 0))
	must(t, s.Put(bg, b("k2"), b("v"), 0))
	ctx, cancel := context.WithCancel(bg)
	defer cancel()
	err := s.Scan(ctx, b("k"), func(_, _ []byte, _ time.Duration) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("Scan cancelled in its callback: %v", err)
	}
}
