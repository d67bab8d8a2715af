package counter

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"antirobot/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var bg = context.Background()

// faulty is a backend that fails when the test says so.
type faulty struct {
	store.Counters
	failAdd, failRead, ill atomic.Bool
	failAfter              atomic.Bool // Add fails after counting
	adds                   atomic.Int64
	onRead                 func()
}

var errFaulty = errors.New("the store is away")

func (f *faulty) Add(ctx context.Context, d []store.Delta) error {
	f.adds.Add(int64(len(d)))
	if f.failAdd.Load() {
		return errFaulty
	}
	err := f.Counters.Add(ctx, d)
	if f.failAfter.Load() {
		return errFaulty
	}
	return err
}

func (f *faulty) AddUnique(ctx context.Context, u []store.Unique) error {
	if f.failAdd.Load() {
		return errFaulty
	}
	return f.Counters.AddUnique(ctx, u)
}

func (f *faulty) ReadRecords(ctx context.Context, r []store.Record, g func(int, []store.Count)) error {
	if f.failRead.Load() {
		return errFaulty
	}
	if f.onRead != nil {
		f.onRead()
	}
	return f.Counters.ReadRecords(ctx, r, g)
}

func (f *faulty) Healthy() error {
	if f.ill.Load() {
		return errFaulty
	}
	return nil
}

func small() Config {
	c := DefaultConfig()
	c.CacheBytes, c.MaxBuffered = 4<<20, 64*100
	return c
}

// idle returns a Shingler whose goroutine does not run: the test flushes.
func idle(t testing.TB, b store.Counters, now func() time.Time) *Shingler {
	t.Helper()
	s, err := New(small(), Deps{Store: b, Log: zerolog.Nop(), Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const slot0 = 2831519

func name1(shingle uint64) store.Counter {
	return store.Counter{Prefix: "p", Shingle: shingle, Type: TypeAddress}
}

func delta(shingle, n uint64) store.Delta {
	return store.Delta{Counter: name1(shingle), Slot: slot0, N: n}
}

func query(shingle uint64) store.Query {
	return store.Query{Counter: name1(shingle), Unit: store.TenMinutes, From: slot0 - 20, To: slot0 + 20}
}

func count(t testing.TB, s *Shingler, shingle uint64) uint64 {
	t.Helper()
	dst := []uint64{99}
	must(t, s.Read(bg, dst, []store.Query{query(shingle)}))
	return dst[0]
}
