package counter_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"antirobot/store"
	"antirobot/store/pebblestore"
	"antirobot/verdict/counter"
)

const keys = 10_000_000

// smoke returns n, or under -short, where no figure is quoted, a part of it.
func smoke[N int | uint64](n, part N) N {
	if testing.Short() {
		return n / part
	}
	return n
}

// load draws the counters of a workload: by Zipf's law with exponent 1, uniformly, or half of them the same one.
type load struct {
	name string
	draw func(r *rand.Rand) uint64
}

var loads = []load{
	// The k-th counter has a share of 1/k: the inverse of that law's distribution, taken as continuous.
	{"zipf", func(r *rand.Rand) uint64 { return uint64(math.Exp(r.Float64() * math.Log(keys+1))) }},
	{"uniform", func(r *rand.Rand) uint64 { return r.Uint64N(keys) }},
	{"hot", func(r *rand.Rand) uint64 {
		if r.Uint64()&1 == 0 {
			return 0
		}
		return r.Uint64N(keys)
	}},
}

func (l load) counter(r *rand.Rand) store.Counter {
	return store.Counter{Prefix: "bench", Shingle: l.draw(r) * 0x9e3779b97f4a7c15, Type: counter.TypeAddress}
}

// cpu returns the processor time that this process has used. Where others use the machine too, a rate by it says what
// the wall clock cannot.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkAdd measures updates in memory on one core, with a store that accepts them at no cost.
func BenchmarkAdd(b *testing.B) {
	for _, l := range loads {
		b.Run(l.name, func(b *testing.B) {
			s, err := counter.New(counter.DefaultConfig(), counter.Deps{Store: nowhere{}, Log: zerolog.Nop()})
			if err != nil {
				b.Fatal(err)
			}
			if err := s.Start(b.Context()); err != nil {
				b.Fatal(err)
			}
			r := rand.New(rand.NewPCG(1, 2))
			updates := make([]store.Delta, smoke(1<<20, 1<<8))
			for i := range updates {
				updates[i] = store.Delta{Counter: l.counter(r), Slot: 2831519, N: 1}
			}
			for range 2 { // both tables of each shard reach their size
				for i := range updates {
					s.Add(updates[i])
				}
				if err := s.Flush(context.Background()); err != nil {
					b.Fatal(err)
				}
			}
			lost, i, before := s.Metrics().LostFull, 0, cpu(b)
			b.ReportAllocs()
			for b.Loop() {
				s.Add(updates[i&(len(updates)-1)])
				i++
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "updates/s")
			b.ReportMetric(float64(b.N)/(cpu(b)-before).Seconds(), "updates/cpu-s")
			b.ReportMetric(float64(s.Metrics().LostFull-lost), "lost")
			_ = s.Close() // nowhere accepts everything
		})
	}
}

// nowhere is a store that forgets at once.
type nowhere struct{}

func (nowhere) Add(context.Context, []store.Delta) error            { return nil }
func (nowhere) AddUnique(context.Context, []store.Unique) error     { return nil }
func (nowhere) Read(context.Context, []uint64, []store.Query) error { return nil }
func (nowhere) Drop(context.Context, store.Period) error            { return nil }
func (nowhere) Sync(context.Context) error                          { return nil }
func (nowhere) ReadRecords(_ context.Context, r []store.Record, f func(int, []store.Count)) error {
	for i := range r {
		f(i, nil)
	}
	return nil
}

func openPebble(b *testing.B) (*counter.Shingler, func()) {
	b.Helper()
	st, err := pebblestore.New(pebblestore.Deps{Dir: b.TempDir(), Log: zerolog.Nop()})
	if err != nil {
		b.Fatal(err)
	}
	c, err := st.OpenCounters()
	if err != nil {
		b.Fatal(err)
	}
	s, err := counter.New(counter.DefaultConfig(), counter.Deps{Store: c, Log: zerolog.Nop()})
	if err != nil {
		b.Fatal(err)
	}
	if err := s.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	return s, func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
		if err := st.Close(); err != nil {
			b.Error(err)
		}
	}
}

// BenchmarkSustained measures updates into Pebble with as many reads, on all cores, in batches of eight and eight as an
// event makes them. Run it with -benchtime 60s: the first seconds fill an empty cache.
func BenchmarkSustained(b *testing.B) {
	for _, l := range loads {
		b.Run(l.name, func(b *testing.B) {
			s, end := openPebble(b)
			defer end()
			var seed atomic.Uint64
			before := cpu(b)
			b.RunParallel(func(pb *testing.PB) {
				r := rand.New(rand.NewPCG(1, seed.Add(1)))
				batch := &counter.Batch{}
				for pb.Next() {
					slot := store.TenMinutes.Number(time.Now())
					batch.Reset()
					for range 8 {
						batch.Adds = append(batch.Adds, store.Delta{Counter: l.counter(r), Slot: slot, N: 1})
						batch.Queries = append(batch.Queries, store.Query{Counter: l.counter(r), Unit: store.TenMinutes, From: slot - 5, To: slot})
					}
					if err := s.Do(context.Background(), batch); err != nil {
						b.Error(err)
					}
				}
			})
			m := s.Metrics()
			b.ReportMetric(float64(m.Updates)/b.Elapsed().Seconds(), "updates/s")
			b.ReportMetric(float64(m.Updates)/(cpu(b)-before).Seconds(), "updates/cpu-s")
			b.ReportMetric(100*float64(m.CacheHits)/float64(m.CacheHits+m.CacheMiss), "%hits")
			b.ReportMetric(float64(m.Updates)/float64(m.Flushed+1), "updates/write")
			b.ReportMetric(float64(m.LostFull+m.LostFlush), "lost")
		})
	}
}

// BenchmarkRead measures one query to a directory of a million counters: cold ones that the cache does not hold, and
// warm ones.
func BenchmarkRead(b *testing.B) {
	n := smoke(uint64(1_000_000), 100)
	s, end := openPebble(b)
	defer end()
	slot := store.TenMinutes.Number(time.Now())
	name := func(i uint64) store.Counter {
		return store.Counter{Prefix: "bench", Shingle: i * 0x9e3779b97f4a7c15, Type: counter.TypeAddress}
	}
	for i := range n {
		s.Add(store.Delta{Counter: name(i), Slot: slot, N: 1})
	}
	if err := s.Flush(context.Background()); err != nil {
		b.Fatal(err)
	}
	next := uint64(0)
	var mu sync.Mutex
	for _, warm := range []bool{false, true} {
		b.Run(fmt.Sprintf("warm=%v", warm), func(b *testing.B) {
			dst := make([]uint64, 1)
			took := make([]time.Duration, 0, 1<<20)
			b.ReportAllocs()
			for b.Loop() {
				mu.Lock()
				i := next % 1000
				if !warm {
					i = next * 7919 % n
				}
				next++
				mu.Unlock()
				start := time.Now()
				err := s.Read(context.Background(), dst, []store.Query{{Counter: name(i), Unit: store.TenMinutes, From: slot, To: slot}})
				if err != nil || dst[0] != 1 {
					b.Fatal(dst[0], err)
				}
				if len(took) < cap(took) {
					took = append(took, time.Since(start))
				}
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
			b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-ns")
		})
	}
}
