package counter_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"antirobot/store"
	"antirobot/store/pebblestore"
	"antirobot/store/redisstore"
	"antirobot/store/redisstore/redistest"
	"antirobot/verdict/counter"
)

func openRedis(b *testing.B, r *redistest.Server) *redisstore.Store {
	b.Helper()
	return openURL(b, "redis://"+r.Addr)
}

// openServers opens the servers of ANTIROBOT_STORE_URL, such as Kvrocks, or else a Redis of its own.
func openServers(b *testing.B) *redisstore.Store {
	b.Helper()
	if url := os.Getenv("ANTIROBOT_STORE_URL"); url != "" {
		return openURL(b, url)
	}
	return openRedis(b, redistest.Start(b))
}

func openURL(b *testing.B, url string) *redisstore.Store {
	b.Helper()
	s, err := redisstore.New(redisstore.DefaultConfig(), redisstore.Deps{URL: url, Log: zerolog.Nop()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() }) // the figures have been taken
	return s
}

// usedMemory asks a server how much memory it uses.
func usedMemory(b *testing.B, r *redistest.Server) int64 {
	b.Helper()
	_, rest, _ := strings.Cut(r.CLI(b, "info", "memory"), "used_memory:")
	line, _, _ := strings.Cut(rest, "\r\n")
	n, err := strconv.ParseInt(line, 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// BenchmarkRedis measures updates into a Redis on the same machine, or the servers of ANTIROBOT_STORE_URL, beside redis-benchmark's rate of the bare command.
func BenchmarkRedis(b *testing.B) {
	b.Run("reference=redis-benchmark", func(b *testing.B) {
		r := redistest.Start(b)
		_, port, err := net.SplitHostPort(r.Addr)
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			out, err := exec.Command("redis-benchmark", "-p", port, "-n", strconv.Itoa(smoke(500_000, 100)), "-P", "64", "-r", "1000000", "-q", "hincrby", "c:__rand_int__", "7", "1").Output()
			if err != nil {
				b.Skip(err)
			}
			text := strings.ReplaceAll(string(out), "\r", "\n")
			i := strings.LastIndex(text, "requests per second")
			fields := strings.Fields(text[:max(i, 0)])
			if len(fields) == 0 {
				b.Skip("redis-benchmark prints no rate")
			}
			rate, err := strconv.ParseFloat(fields[len(fields)-1], 64)
			if err != nil {
				b.Skip(err)
			}
			b.ReportMetric(rate, "commands/s")
		}
	})
	// One sum is two records: HINCRBY and EXPIRE for the ten minutes, and for the day.
	b.Run("sums", func(b *testing.B) {
		c := openServers(b).Counters()
		rnd := rand.New(rand.NewPCG(1, 2))
		slot := store.TenMinutes.Number(time.Now())
		batch := make([]store.Delta, 1024)
		n := 0
		for b.Loop() {
			for i := range batch {
				batch[i] = store.Delta{Counter: store.Counter{Prefix: "bench", Shingle: rnd.Uint64N(1_000_000), Type: 15}, Slot: slot, N: 1}
			}
			if err := c.Add(context.Background(), batch); err != nil {
				b.Fatal(err)
			}
			n += len(batch)
		}
		b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "sums/s")
		b.ReportMetric(4*float64(n)/b.Elapsed().Seconds(), "commands/s")
	})
	// The same by scripts that count each batch once, as the gateway's queue sends them.
	next := uint64(0)
	fresh := load{"new", func(*rand.Rand) uint64 { next++; return next }}
	for _, l := range append([]load{fresh}, loads[:2]...) {
		b.Run("batches/"+l.name, func(b *testing.B) { benchBatches(b, l) })
	}
	for _, l := range loads {
		b.Run("shingler/"+l.name, func(b *testing.B) {
			if os.Getenv("ANTIROBOT_STORE_URL") != "" {
				b.Skip("what is offered without a bound, and not queued, ends as timeouts of slow servers: batches, and BenchmarkDrain of store/backlog, go as gateways do")
			}
			s, err := counter.New(counter.DefaultConfig(), counter.Deps{Store: openServers(b).Counters(), Log: zerolog.Nop()})
			if err != nil {
				b.Fatal(err)
			}
			if err := s.Start(b.Context()); err != nil {
				b.Fatal(err)
			}
			rnd := rand.New(rand.NewPCG(1, 2))
			slot, began := store.TenMinutes.Number(time.Now()), time.Now()
			for b.Loop() {
				s.Add(store.Delta{Counter: l.counter(rnd), Slot: slot, N: 1})
			}
			if err := s.Close(); err != nil { // includes what is buffered
				b.Error(err)
			}
			m := s.Metrics()
			took := time.Since(began).Seconds()
			b.ReportMetric((float64(m.Updates)-float64(m.LostFull))/took, "kept-updates/s")
			b.ReportMetric(float64(m.Flushed)/took, "sums/s")
			b.ReportMetric(100*float64(m.LostFull+m.LostFlush)/float64(m.Updates), "%lost") // offered faster than Redis accepts
		})
	}
}

// benchBatches draws 65,536 updates at a time, and sends their sums.
func benchBatches(b *testing.B, l load) {
	drawn := smoke(1<<16, 1<<6)
	c := openServers(b).Counters()
	rnd := rand.New(rand.NewPCG(1, 2))
	slot := store.TenMinutes.Number(time.Now())
	batch := store.Batch{Writer: rand.Uint64()}
	total := 0
	for b.Loop() {
		sums := map[store.Counter]uint64{}
		for range drawn {
			sums[l.counter(rnd)]++
		}
		total += len(sums)
		list := make([]store.Delta, 0, len(sums))
		for name, n := range sums {
			list = append(list, store.Delta{Counter: name, Slot: slot, N: n})
		}
		for chunk := range slices.Chunk(list, 4096) {
			batch.Number, batch.Adds = batch.Number+1, chunk
			if err := c.Count(context.Background(), &batch); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(drawn*b.N)/b.Elapsed().Seconds(), "updates/s")
	b.ReportMetric(float64(total)/b.Elapsed().Seconds(), "sums/s")
}

// BenchmarkRedisMemory measures the memory of a counter that was updated once, in its two records, and of a pair.
func BenchmarkRedisMemory(b *testing.B) {
	n := smoke(200_000, 100)
	for b.Loop() {
		r := redistest.Start(b)
		c := openRedis(b, r).Counters()
		slot := store.TenMinutes.Number(time.Now())
		empty := usedMemory(b, r)
		deltas := make([]store.Delta, n)
		uniques := make([]store.Unique, n)
		for i := range uint64(n) { //nolint:gosec // not negative
			name := store.Counter{Prefix: "mass_in", Shingle: i * 0x9e3779b97f4a7c15, Type: 15}
			deltas[i] = store.Delta{Counter: name, Slot: slot, N: 1}
			name.Shingle, name.Type = i%100, 31
			uniques[i] = store.Unique{Counter: name, PairType: 30, Pair: i, Slot: slot}
		}
		if err := c.Add(context.Background(), deltas); err != nil {
			b.Fatal(err)
		}
		counters := usedMemory(b, r)
		b.ReportMetric(float64(counters-empty)/float64(n), "B/counter")
		if err := c.AddUnique(context.Background(), uniques); err != nil {
			b.Fatal(err)
		}
		pairs := usedMemory(b, r)
		b.ReportMetric(float64(pairs-counters)/float64(n), "B/pair")
		st := openRedis(b, r)
		for i := range n / 10 { // a ban: its key and value have about this length
			if err := st.Put(context.Background(), fmt.Appendf(nil, "ban/%040d", i), make([]byte, 120), time.Hour); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(usedMemory(b, r)-pairs)/float64(n/10), "B/ban")
	}
}

// BenchmarkRedisRead measures one query to a local Redis with an empty cache.
func BenchmarkRedisRead(b *testing.B) {
	r := redistest.Start(b)
	c := openRedis(b, r).Counters()
	slot := store.TenMinutes.Number(time.Now())
	name := func(i uint64) store.Counter { return store.Counter{Prefix: "bench", Shingle: i, Type: 15} }
	deltas := make([]store.Delta, smoke(100_000, 100))
	for i := range deltas {
		deltas[i] = store.Delta{Counter: name(uint64(i)), Slot: slot, N: 1}
	}
	if err := c.Add(context.Background(), deltas); err != nil {
		b.Fatal(err)
	}
	for _, size := range []int{1, 30} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			q, dst := make([]store.Query, size), make([]uint64, size)
			var took []time.Duration
			rnd := rand.New(rand.NewPCG(1, 2))
			for b.Loop() {
				for i := range q {
					q[i] = store.Query{Counter: name(rnd.Uint64N(uint64(len(deltas)))), Unit: store.TenMinutes, From: slot, To: slot}
				}
				began := time.Now()
				if err := c.Read(context.Background(), dst, q); err != nil || dst[0] != 1 {
					b.Fatal(dst[0], err)
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
		})
	}
}

const (
	longEnv    = "ANTIROBOT_BENCH_LONG"    // set: the benchmarks that take minutes
	recoverEnv = "ANTIROBOT_BENCH_RECOVER" // the directory that the child fills
)

// BenchmarkRecovery measures how long a data directory with ten million counters takes from opening after kill -9 to
// the first answered query; and for comparison the same directory after a clean shutdown.
func BenchmarkRecovery(b *testing.B) {
	if dir := os.Getenv(recoverEnv); dir != "" {
		fillUntilKilled(b, dir)
		return
	}
	n := smoke(200_000, 20)
	if os.Getenv(longEnv) != "" {
		n = keys
	}
	for b.Loop() {
		dir := b.TempDir()
		cmd := exec.Command(os.Args[0], "-test.run=^$", "-test.bench=^BenchmarkRecovery$", "-test.benchtime=1x")
		cmd.Env = append(os.Environ(), recoverEnv+"="+dir, "ANTIROBOT_BENCH_KEYS="+strconv.Itoa(n))
		out, err := cmd.StdoutPipe()
		if err != nil {
			b.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		var buf [4096]byte
		seen := ""
		for !strings.Contains(seen, "filled") {
			k, err := out.Read(buf[:])
			seen += string(buf[:k])
			if err != nil {
				b.Fatalf("the child ended: %v\n%s", err, seen)
			}
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed: the error is expected
		b.ReportMetric(float64(openAndRead(b, dir).Milliseconds()), "ms-after-kill")
		b.ReportMetric(float64(openAndRead(b, dir).Milliseconds()), "ms-after-close")
		b.ReportMetric(float64(n), "counters")
	}
}

func recoveryCounter(i int) store.Counter {
	return store.Counter{Prefix: "bench", Shingle: uint64(i) * 0x9e3779b97f4a7c15, Type: 15} //nolint:gosec // not negative
}

func openAndRead(b *testing.B, dir string) time.Duration {
	b.Helper()
	began := time.Now()
	st, err := pebblestore.New(pebblestore.DefaultConfig(), pebblestore.Deps{Dir: dir, Log: zerolog.Nop()})
	if err != nil {
		b.Fatal(err)
	}
	c, err := st.OpenCounters()
	if err != nil {
		b.Fatal(err)
	}
	dst := make([]uint64, 1)
	day := store.Day.Number(time.Now())
	if err := c.Read(context.Background(), dst, []store.Query{{Counter: recoveryCounter(7), Unit: store.Day, From: day - 1, To: day}}); err != nil || dst[0] != 1 {
		b.Fatalf("a counter is %d, %v", dst[0], err)
	}
	took := time.Since(began)
	if err := st.Close(); err != nil {
		b.Fatal(err)
	}
	return took
}

func fillUntilKilled(b *testing.B, dir string) {
	n, err := strconv.Atoi(os.Getenv("ANTIROBOT_BENCH_KEYS"))
	if err != nil {
		b.Fatal(err)
	}
	st, err := pebblestore.New(pebblestore.DefaultConfig(), pebblestore.Deps{Dir: dir, Log: zerolog.Nop()})
	if err != nil {
		b.Fatal(err)
	}
	c, err := st.OpenCounters()
	if err != nil {
		b.Fatal(err)
	}
	slot := store.TenMinutes.Number(time.Now())
	batch := make([]store.Delta, 0, 1024)
	for i := range n {
		batch = append(batch, store.Delta{Counter: recoveryCounter(i), Slot: slot, N: 1})
		if len(batch) == cap(batch) || i == n-1 {
			if err := c.Add(context.Background(), batch); err != nil {
				b.Fatal(err)
			}
			batch = batch[:0]
		}
	}
	time.Sleep(2 * time.Second) // the log is synced every second
	fmt.Println("filled")
	select {}
}
