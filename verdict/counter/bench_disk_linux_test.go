package counter_test

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"antirobot/store"
	"antirobot/store/pebblestore"
	"antirobot/store/storetest"
	"antirobot/verdict/counter"
)

// written returns how many bytes this process has caused to be written to disks.
func written(b *testing.B) float64 {
	b.Helper()
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\nwrite_bytes: ")
	line, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.ParseFloat(line, 64)
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// diskBench is an embedded store for one benchmark, and what it cost.
type diskBench struct {
	*testing.B
	dir      string
	store    *pebblestore.Store
	counters *pebblestore.Counters
	busy     time.Duration
	bytes    float64
}

func newDiskBench(b *testing.B, cache int64) *diskBench {
	b.Helper()
	d := &diskBench{B: b, dir: b.TempDir()}
	var err error
	if d.store, err = pebblestore.New(pebblestore.Deps{Dir: d.dir, Log: zerolog.Nop(), CountersCache: cache}); err != nil {
		b.Fatal(err)
	}
	if d.counters, err = d.store.OpenCounters(); err != nil {
		b.Fatal(err)
	}
	d.busy, d.bytes = cpu(b), written(b)
	return d
}

// report closes the store, so that everything is on disk, and reports the cost per item.
func (d *diskBench) report(n int, what string) {
	d.Helper()
	took := d.Elapsed().Seconds()
	if err := d.store.Close(); err != nil {
		d.Error(err)
	}
	d.ReportMetric(float64(n)/took, what+"/s")
	d.ReportMetric(float64(n)/(cpu(d.B)-d.busy).Seconds(), what+"/cpu-s")
	d.ReportMetric((written(d.B)-d.bytes)/float64(n), "disk-B/"+what[:len(what)-1])
}

// BenchmarkDisk measures what updates cost the embedded store, distributed by Zipf's law and uniformly, summed before
// they are written and not: what summing saves depends on the distribution. It also measures uniques and their
// pairs, all of them new, and reads of what neither the engine's cache nor the machine's holds. Bytes are
// everything written to disk: log, tables, compactions. The rates are those of this run beside whatever else runs;
// those by processor time are the store's.
func BenchmarkDisk(b *testing.B) {
	for _, l := range loads[:2] {
		b.Run(l.name+"/unsummed", func(b *testing.B) {
			d := newDiskBench(b, 0)
			r, batch, n := rand.New(rand.NewPCG(1, 2)), make([]store.Delta, 1024), 0
			for b.Loop() {
				slot := store.TenMinutes.Number(time.Now())
				for i := range batch {
					batch[i] = store.Delta{Counter: l.counter(r), Slot: slot, N: 1}
				}
				if err := d.counters.Add(context.Background(), batch); err != nil {
					b.Fatal(err)
				}
				n += len(batch)
			}
			d.report(n, "updates")
		})
		b.Run(l.name+"/summed", func(b *testing.B) {
			d := newDiskBench(b, 0)
			s, err := counter.New(counter.DefaultConfig(), counter.Deps{Store: d.counters, Log: zerolog.Nop()})
			if err != nil {
				b.Fatal(err)
			}
			if err := s.Start(b.Context()); err != nil {
				b.Fatal(err)
			}
			r, n := rand.New(rand.NewPCG(1, 2)), 0
			for b.Loop() {
				slot := store.TenMinutes.Number(time.Now())
				for range 1024 {
					s.Add(store.Delta{Counter: l.counter(r), Slot: slot, N: 1})
				}
				n += 1024
			}
			if s.Close() != nil { // the disk did not accept the rest in time
				b.Log("some sums are lost: they are counted")
			}
			m := s.Metrics()
			b.ReportMetric(100*float64(m.LostFull+m.LostFlush)/float64(m.Updates), "%lost")
			b.ReportMetric(float64(m.Updates)/float64(m.Flushed+1), "updates/sum")
			d.report(n-int(m.LostFull+m.LostFlush), "updates") //nolint:gosec // a count
		})
	}
	b.Run("pairs", func(b *testing.B) {
		d := newDiskBench(b, 0)
		r, batch, n := rand.New(rand.NewPCG(1, 2)), make([]store.Unique, 1024), 0
		for b.Loop() {
			slot := store.TenMinutes.Number(time.Now())
			for i := range batch {
				batch[i] = store.Unique{Counter: loads[1].counter(r), PairType: 30, Pair: r.Uint64(), Slot: slot}
			}
			if err := d.counters.AddUnique(context.Background(), batch); err != nil {
				b.Fatal(err)
			}
			n += len(batch)
		}
		d.report(n, "pairs")
	})
	b.Run("cold", benchmarkCold)
}

// benchmarkCold reads counters at random, one by one, from tables of which the machine has nothing in memory.
func benchmarkCold(b *testing.B) {
	n := smoke(uint64(2_000_000), 100)
	d := newDiskBench(b, 1<<20)
	name := func(i uint64) store.Counter {
		return store.Counter{Prefix: "bench", Shingle: i * 0x9e3779b97f4a7c15, Type: counter.TypeAddress}
	}
	slot := store.TenMinutes.Number(time.Now())
	batch := make([]store.Delta, 0, 1024)
	for i := range n {
		batch = append(batch, store.Delta{Counter: name(i), Slot: slot, N: 1})
		if len(batch) == cap(batch) || i == n-1 {
			if err := d.counters.Add(context.Background(), batch); err != nil {
				b.Fatal(err)
			}
			batch = batch[:0]
		}
	}
	if err := d.store.Close(); err != nil { // everything is on disk
		b.Fatal(err)
	}
	again := &diskBench{B: b, dir: d.dir}
	var err error
	if again.store, err = pebblestore.New(pebblestore.Deps{Dir: d.dir, Log: zerolog.Nop(), CountersCache: 1 << 20}); err != nil {
		b.Fatal(err)
	}
	if again.counters, err = again.store.OpenCounters(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = again.store.Close() })
	r, dst, reads := rand.New(rand.NewPCG(1, 2)), make([]uint64, 1), 0
	forget(b, d.dir)
	b.ResetTimer()
	for b.Loop() {
		i := r.Uint64N(n)
		if err := storetest.Read(context.Background(), again.counters, dst, []store.Query{{Counter: name(i), Unit: store.TenMinutes, From: slot, To: slot}}); err != nil || dst[0] != 1 {
			b.Fatal(dst[0], err)
		}
		if reads++; reads%512 == 0 {
			b.StopTimer()
			forget(b, d.dir)
			b.StartTimer()
		}
	}
	b.ReportMetric(float64(reads)/b.Elapsed().Seconds(), "reads/s")
}

// forget makes the machine drop the files of a directory from its cache.
func forget(b *testing.B, dir string) {
	b.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil // a table that a compaction has just removed
		}
		f, err := os.Open(path)
		if err != nil {
			return nil // the same
		}
		defer f.Close()
		if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
}
