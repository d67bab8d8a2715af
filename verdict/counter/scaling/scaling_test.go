//go:build !race

// One goroutine works here, in which the race detector finds nothing, and takes long.

package scaling

import (
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
)

// near fails unless got is want, give or take a share of it.
func near(t *testing.T, what string, got, want, share float64) {
	t.Helper()
	if math.Abs(got-want) > share*math.Abs(want) || math.IsNaN(got) {
		t.Errorf("%s: %v, want %v ± %v %%", what, got, want, 100*share)
	}
}

// small is a configuration that is quick to simulate.
func small(change func(*Config)) Config {
	c := DefaultConfig()
	c.Rate, c.Shards, c.Sample = 40_000, 100, 4
	change(&c)
	return c
}

func run(t *testing.T, c Config) *Report {
	t.Helper()
	r, err := Run(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestSummingAsMeasured draws what BenchmarkDisk drew, and finds how many updates made a sum (docs/scaling.md). The sums are
// also those that theory expects: of n draws from K uniform keys, K(1-exp(-n/K)) differ.
func TestSummingAsMeasured(t *testing.T) {
	f := func(law string, rate float64, pool uint64, measured, share float64) {
		t.Helper()
		r := run(t, small(func(c *Config) {
			c.Rate, c.Keys, c.Pool, c.Gateways, c.Reads, c.Sample = rate, law, pool, 1, 0, 1
			c.LostFor, c.Length = 0, time.Second
		}))
		near(t, law+", measured", r.Gateway.PerSum, measured, share)
		n := 5 * rate
		expected := (&keys{law: law, pool: pool}).distinct(n)
		near(t, law+", expected", 5*r.Gateway.Sums, expected, 0.005)
		if law == uniform {
			near(t, "closed form", expected, float64(pool)*(1-math.Exp(-n/float64(pool))), 1e-9)
		}
	}
	f(uniform, 19_100, 1_000_000, 1.04, 0.01) // a tenth of both is the same
	f(zipf, 219_000, 10_000_000, 3.2, 0.1)    // flushes of the busy machine probably came later than after five seconds
}

// TestDistinct compares with counting, where most counters are met again and again.
func TestDistinct(t *testing.T) {
	for _, law := range []string{uniform, zipf, fresh} {
		k := &keys{law, 50_000, rand.New(rand.NewPCG(1, 2))}
		seen := map[uint64]bool{}
		const n = 200_000
		for range n {
			seen[k.draw()] = true
		}
		near(t, law, k.distinct(n), float64(len(seen)), 0.005)
	}
}

// TestCache: by the closed forms for uniform keys, of a cache with a time (after each miss, all reads of that time hit), and of
// one that is full (as many hits as it has of all counters; BenchmarkSustained/uniform measured 31 % where that is 33 %).
func TestCache(t *testing.T) {
	r := run(t, small(func(c *Config) { c.Keys, c.Pool, c.Sample, c.LostFor = uniform, 10_000, 40, 0 }))
	each := 4000. / 10_000 * 10 // reads of a counter by a gateway in ten seconds
	near(t, "for ten seconds", r.Gateway.Hits, each/(1+each), 0.01)
	r = run(t, small(func(c *Config) { c.Keys, c.Pool, c.CacheTTL, c.CacheBytes = uniform, 10_000, 0, 3355*80 }))
	near(t, "full", r.Gateway.Hits, 0.3355, 0.03)
	near(t, "reads of nodes", r.Load.Reads, 40_000*(1-r.Gateway.Hits), 1e-9)
}

// TestShards: counters fall into shards like balls into bins, so the squares of the deviations are as expected of chance.
func TestShards(t *testing.T) {
	const shards, n = 500, 200_000
	r := rand.New(rand.NewPCG(1, 2))
	for law, draw := range map[string]func(i uint64) uint64{fresh: func(uint64) uint64 { return r.Uint64() }, uniform: func(i uint64) uint64 { return i }} {
		bins := make([]float64, shards)
		for i := range uint64(n) {
			bins[shard(draw(i), shards)]++
		}
		chi := 0.0
		for _, b := range bins {
			chi += (b - n/shards) * (b - n/shards) / (n / shards)
		}
		if sd := math.Sqrt(2 * shards); math.Abs(chi-shards) > 5*sd {
			t.Errorf("%s: chi squared %.0f of %d bins", law, chi, shards)
		}
	}
}

// TestHolders: the copies of a shard are on different nodes, each node leads as many shards, and a lost node's shards go to
// all others equally.
func TestHolders(t *testing.T) {
	c := Config{Nodes: 10, Shards: 900, Copies: 3}
	leads, follow := map[int]int{}, map[int]int{}
	for s := range c.Shards {
		a, b, d := c.holder(s, 0), c.holder(s, 1), c.holder(s, 2)
		if a == b || b == d || a == d {
			t.Fatalf("shard %d is on %d, %d and %d", s, a, b, d)
		}
		leads[a]++
		if a == 0 {
			follow[b]++
		}
	}
	for n := range c.Nodes {
		if leads[n] != 90 || n > 0 && follow[n] != 10 {
			t.Errorf("node %d leads %d shards, and follows node 0 with %d", n, leads[n], follow[n])
		}
	}
}

// TestLostNode: what waits is what comes until the loss is noticed; what is missed is a node's part of what comes while it is
// away, and it is written at the speed that new sums leave.
func TestLostNode(t *testing.T) {
	r := run(t, small(func(c *Config) { c.Node.SumsMost, c.Shards, c.Length = 48_000, 900, 8*time.Minute }))
	each := 40_000. * 3 / 10
	near(t, "waiting", r.Lost.Waiting, 40_000*3.3, 0.01)
	near(t, "queue", r.Lost.Queue, 4000*3.3*20, 0.01)
	near(t, "kept", r.Lost.Kept, each*300, 0.02)
	near(t, "catching up", *r.Lost.CatchUp, each*300/(48_000-each), 0.03)
	near(t, "until nothing waits", *r.Lost.Empty, 3.3+4000*3.3*3/(48_000-each), 0.2)
	near(t, "unanswered", r.Lost.Unanswered, 40_000./10*3.3, 0.05)
	reads, sums := 4000*25600e-9, each*8850e-9
	near(t, "before", r.Load.Busiest, reads+sums, 0.02)
	near(t, "survivor", r.Lost.Survivor, reads*10/9+sums, 0.03)
	if !r.Load.KeepsUp || r.Lost.Overloaded || r.Lost.Refused != 0 {
		t.Errorf("%+v", r.Lost)
	}
}

// TestSingleCopy: nobody takes over, so everything waits until the node is back, or is refused when the queues are full.
func TestSingleCopy(t *testing.T) {
	r := run(t, small(func(c *Config) { c.Copies = 1 }))
	near(t, "waiting", r.Lost.Waiting, 40_000*300, 0.01)
	if r.Lost.Kept != 0 || r.Lost.Refused != 0 || *r.Lost.CatchUp != 0 || *r.Lost.Empty < 300 {
		t.Errorf("%+v", r.Lost)
	}
	r = run(t, small(func(c *Config) { c.Copies, c.Node.QueuedBytes = 1, 2000 }))
	near(t, "waiting in full queues", r.Lost.Waiting, 10*maxQueue()/2000, 0.01)
	near(t, "refused", r.Lost.Refused, 40_000*300-10*maxQueue()/2000, 0.01)
}

// TestTooMuch: nodes that can't keep up say so, a buffer that is too small loses, and survivors may be the ones with too much.
func TestTooMuch(t *testing.T) {
	r := run(t, small(func(c *Config) { c.Node.Cores = 0.15 }))
	if r.Load.KeepsUp || r.Load.Behind == 0 || r.Lost.CatchUp != nil || r.Lost.Empty != nil {
		t.Errorf("%+v %+v", r.Load, r.Lost)
	}
	r = run(t, small(func(c *Config) { c.Nodes, c.Copies, c.Shards, c.Node.Cores = 2, 2, 2, 1 }))
	if !r.Load.KeepsUp || !r.Lost.Overloaded {
		t.Errorf("%+v %+v", r.Load, r.Lost)
	}
	r = run(t, small(func(c *Config) { c.MaxBuffered, c.LostFor = 15_000, 0 }))
	near(t, "lost for want of room", r.Gateway.Unbuffered, 0.25, 1e-9)
	if r.Lost != nil || !r.Load.KeepsUp {
		t.Errorf("%+v %+v", r.Load, r.Lost)
	}
}

// TestSpace: figures of docs/scaling.md, which it computes by hand.
func TestSpace(t *testing.T) {
	c := DefaultConfig()
	s := space(&c)
	near(t, "ten-minute counts", s.Fine, 360e9, 0.01)
	near(t, "daily counts", s.Daily, 4.6e12, 0.02)
	c.Node = RedisNode()
	near(t, "Redis, a day", space(&c).Grows, 4.3e12, 0.01)
}

// TestSeed: a seed gives the same report again, and another one does not.
func TestSeed(t *testing.T) {
	a, b := run(t, small(func(*Config) {})), run(t, small(func(*Config) {}))
	if !reflect.DeepEqual(a, b) {
		t.Error("two runs differ")
	}
	if c := run(t, small(func(c *Config) { c.Seed++ })); reflect.DeepEqual(a.Load, c.Load) {
		t.Error("the seed changes nothing")
	}
}

// TestValidate: what is wrong is named by its flag.
func TestValidate(t *testing.T) {
	f := func(flag string, change func(*Config)) {
		t.Helper()
		c := DefaultConfig()
		change(&c)
		if _, err := Run(c); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%s: %v", flag, err)
		}
	}
	f("--rate", func(c *Config) { c.Rate = math.NaN() })
	f("--keys", func(c *Config) { c.Keys = "pareto" })
	f("--copies", func(c *Config) { c.Copies = 11 - 4; c.Nodes = 5 })
	f("--shards", func(c *Config) { c.Shards = 9 })
	f("--length", func(c *Config) { c.Length = time.Minute })
	f("--lost-for", func(c *Config) { c.LostFor = time.Second })
	f("--engine", func(c *Config) { c.Node.Engine = "tape" })
	f("--cores", func(c *Config) { c.Node.Cores = 0 })
	f("more --gateways", func(c *Config) { c.Gateways, c.Rate = 1, 1e7 })
	f("fewer --shards", func(c *Config) { c.Shards, c.Length = 100_000, time.Hour })
}
