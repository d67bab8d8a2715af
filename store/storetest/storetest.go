// Package storetest holds the conformance suite of package store.
//
// A backend's test calls Run with a function that opens an empty store; persistent ones add Options.Reopen and call
// Kill.
package storetest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"antirobot/store"
)

// Options says what the backend under test can do.
type Options struct {
	// Clock is read by the opened stores; nil: they read the machine's. TTLs are then waited for, and the property test
	// is skipped.
	Clock *Clock
	// FeedKept is the number of messages after which the first one is certainly gone; 0 skips that test.
	FeedKept int
	// Reopen closes s and opens its data; nil for a backend that forgets.
	Reopen func(t *testing.T, s store.Store) store.Store
}

// Clock stands still until it is moved. Safe for concurrent use.
type Clock struct {
	mu sync.Mutex
	at time.Time
}

// NewClock returns a clock at a fixed, deliberately not round moment.
func NewClock() *Clock { return &Clock{at: time.UnixMilli(1_700_000_123_457)} }

// Now returns the current time of c.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

// Advance moves c forward.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// unit is a TTL that is long for the clock, yet short enough to wait for.
func (o Options) unit() time.Duration {
	if o.Clock == nil {
		return time.Second // two of them outlast three calls on a busy machine
	}
	return time.Hour
}

func (o Options) advance(d time.Duration) {
	if o.Clock == nil {
		time.Sleep(d)
		return
	}
	o.Clock.Advance(d)
}

// Run checks the contracts. open registers its own clean-up; the suite may close a store before that.
func Run(t *testing.T, open func(t *testing.T) store.Store, opts Options) {
	tests := map[string]func(t *testing.T, s store.Store, o Options){
		"KV": testKV, "Swap": testSwap, "SwapParallel": testSwapParallel, "Copies": testCopies, "Spaces": testSpaces,
		"TTL": testTTL, "TTLReplaced": testTTLReplaced, "NegativeTTL": testNegativeTTL, "Scan": testScan,
		"ScanCallback": testScanCallback, "Cancelled": testCancelled, "Closed": testClosed,
		"Spend": testSpend, "SpendParallel": testSpendParallel, "Take": testTake, "TakeParallel": testTakeParallel,
		"Incr": testIncr, "QuotaTTL": testQuotaTTL,
		"FeedOrder": testFeedOrder, "FeedFrom": testFeedFrom, "FeedGap": testFeedGap,
		"FeedFollowFirst": testFeedFollowFirst, "FeedErrors": testFeedErrors, "FeedParallel": testFeedParallel,
		"Reopen": testReopen,
	}
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		t.Run(name, func(t *testing.T) { tests[name](t, open(t), opts) })
	}
	t.Run("Model", func(t *testing.T) { testModel(t, open, opts) })
}

var bg = context.Background()

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// gives returns a check of a call's results.
func gives[T comparable](t testing.TB, want T) func(got T, err error) {
	t.Helper()
	return func(got T, err error) {
		t.Helper()
		if err != nil || got != want {
			t.Fatalf("got %v, %v; want %v", got, err, want)
		}
	}
}

// fails checks the errors of calls by name.
func fails(t testing.TB, want error, calls map[string]error) {
	t.Helper()
	for name, err := range calls {
		if !errors.Is(err, want) {
			t.Errorf("%s: %v; want %v", name, err, want)
		}
	}
}

// parallel runs f in a number of goroutines, and returns how often it returned true.
func parallel(t testing.TB, n int, f func(i int) (bool, error)) (yes int) {
	t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			ok, err := f(i)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if ok {
				yes++
			}
		})
	}
	close(start)
	wg.Wait()
	return yes
}

func b(s string) []byte { return []byte(s) }

// wantValue checks the value of key; a nil want means absent.
func wantValue(t testing.TB, s store.Store, key string, want []byte) {
	t.Helper()
	got, err := s.Get(bg, nil, b(key))
	switch {
	case want == nil && err != store.ErrNotFound: //nolint:errorlint // the contract names the bare error
		t.Fatalf("Get(%q) = %q, %v; want ErrNotFound", key, got, err)
	case want != nil && (err != nil || string(got) != string(want)):
		t.Fatalf("Get(%q) = %q, %v; want %q", key, got, err, want)
	}
}

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
