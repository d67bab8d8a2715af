// Package storetest holds the conformance suite of package store.
//
// A backend's test calls Run with a function that opens an empty store; persistent ones add Options.Reopen and call
// Kill.
package storetest

import (
	"context"
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
	tests := []struct {
		name string
		run  func(t *testing.T, s store.Store, o Options)
	}{
		{"KV", testKV},
		{"Swap", testSwap},
		{"Copies", testCopies},
		{"Spaces", testSpaces},
		{"TTL", testTTL},
		{"TTLReplaced", testTTLReplaced},
		{"NegativeTTL", testNegativeTTL},
		{"Scan", testScan},
		{"ScanCallback", testScanCallback},
		{"Spend", testSpend},
		{"SpendParallel", testSpendParallel},
		{"Take", testTake},
		{"TakeParallel", testTakeParallel},
		{"Incr", testIncr},
		{"QuotaTTL", testQuotaTTL},
		{"SwapParallel", testSwapParallel},
		{"Cancelled", testCancelled},
		{"FeedOrder", testFeedOrder},
		{"FeedFrom", testFeedFrom},
		{"FeedGap", testFeedGap},
		{"FeedFollowFirst", testFeedFollowFirst},
		{"FeedErrors", testFeedErrors},
		{"FeedParallel", testFeedParallel},
		{"Closed", testClosed},
		{"Reopen", testReopen},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { tt.run(t, open(t), opts) })
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
