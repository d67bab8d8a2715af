// Package scaling simulates counters that are shared by many gateways and spread over many nodes: what a rate of updates costs
// in load, memory and disk, and what happens while a node is lost.
//
// Three things are simulated, in this order:
//  1. One gateway, which draws counters, sums their updates until the next flush, and keeps what it read for a while. The
//     others are taken to be like it, so a run draws 1/Gateways of the updates, of Sample flush intervals.
//  2. The nodes, in steps of a tenth of a second. A counter belongs to a shard by its hash, and a shard to as many nodes as
//     there are copies. All copies are written; the first that is up and complete is read. The intervals drawn are repeated.
//  3. A node that is lost for a time. Until it is noticed, the sums of all gateways wait, because their queues are sent in
//     order (store/backlog); then the next copies lead, and keep what the lost node misses until it has caught up.
//
// Space is computed, not drawn: the expected number of different counters in a day and in a fortnight.
package scaling

import (
	"errors"
	"fmt"
	"math"
	"time"

	"antirobot/store/backlog"
	"antirobot/verdict/counter"
)

// Config is what is simulated. DefaultConfig is the place to start from; the zero value is not valid.
type Config struct {
	Rate   float64 `json:"rate"`   // updates a second, of all gateways
	PerDay float64 `json:"perDay"` // updates a day, of all gateways
	Reads  float64 `json:"reads"`  // reads for each update

	// Keys is how counters are drawn: fresh, uniform or zipf (below).
	Keys string `json:"keys"`
	Pool uint64 `json:"pool"` // different counters there are; of fresh ones there is no end

	Gateways    int           `json:"gateways"`
	FlushEvery  time.Duration `json:"flushEveryNs"`
	MaxBuffered int           `json:"maxBuffered"` // sums in a gateway's memory
	CacheBytes  int64         `json:"cacheBytes"`  // of a gateway, for records that were read
	CacheTTL    time.Duration `json:"cacheTTLNs"`  // 0: for ever

	Nodes  int  `json:"nodes"`
	Shards int  `json:"shards"`
	Copies int  `json:"copies"`
	Node   Node `json:"node"`

	Length  time.Duration `json:"lengthNs"`
	LostAt  time.Duration `json:"lostAtNs"`
	LostFor time.Duration `json:"lostForNs"` // 0: no node is lost
	Notice  time.Duration `json:"noticeNs"`  // until another copy leads

	Sample int    `json:"sample"` // flush intervals drawn
	Seed   uint64 `json:"seed"`
}

// Node is what was measured of a node, and of what a gateway keeps for it. The benchmarks are those of verdict/counter and
// store/pebblestore; docs/scaling.md has the runs.
type Node struct {
	Engine string  `json:"engine"` // Embedded or Redis
	Cores  float64 `json:"cores"`  // that it can use

	UpdateCPU time.Duration `json:"updateCPUNs"` // of a gateway
	SumCPU    time.Duration `json:"sumCPUNs"`    // of each copy
	ReadCPU   time.Duration `json:"readCPUNs"`   // of a read that no gateway's cache answers
	SumsMost  float64       `json:"sumsMost"`    // a second, whatever the cores
	ReadsMost float64       `json:"readsMost"`   // a second, of what is not in memory; 0: everything is
	SumBytes  float64       `json:"sumBytes"`    // written to disk; 0: not measured

	FineBytes     float64 `json:"fineBytes"`     // kept for a counter's ten-minute counts of a day
	DailyBytes    float64 `json:"dailyBytes"`    // kept for a counter's daily counts of a fortnight
	BufferedBytes float64 `json:"bufferedBytes"` // of a gateway's memory, for a sum
	CachedBytes   float64 `json:"cachedBytes"`   // of a gateway's memory, for a record
	QueuedBytes   float64 `json:"queuedBytes"`   // of a gateway's disk, for a sum that waits
}

// How counters are drawn.
const (
	fresh   = "new"     // never seen before
	uniform = "uniform" // each as likely as another
	zipf    = "zipf"    // the k-th has a share of 1/k
)

// The engines that were measured.
const (
	Embedded = "embedded"
	Redis    = "redis"
)

// embeddedNode returns what was measured of the embedded store.
func embeddedNode() Node {
	return Node{
		Engine: Embedded, Cores: 4,
		UpdateCPU: 320 * time.Nanosecond, SumCPU: 8850 * time.Nanosecond, ReadCPU: 25600 * time.Nanosecond,
		SumsMost: 191_000, ReadsMost: 7500, SumBytes: 590, FineBytes: 13.8, DailyBytes: 12.5,
		BufferedBytes: 80, CachedBytes: 80, QueuedBytes: 20,
	}
}

// RedisNode returns what was measured of a Redis: it has one core, and keeps everything in memory.
func RedisNode() Node {
	n := embeddedNode()
	n.Engine, n.Cores = Redis, 1
	n.SumCPU, n.ReadCPU = 14300*time.Nanosecond, 3600*time.Nanosecond
	n.SumsMost, n.ReadsMost, n.SumBytes = 70_000, 0, 0
	n.FineBytes, n.DailyBytes = 165, 165
	return n
}

// DefaultConfig returns the counters of a large mail system on ten machines.
func DefaultConfig() Config {
	c := counter.DefaultConfig()
	return Config{
		Rate: 200_000, PerDay: 13e9, Reads: 1, Keys: fresh, Pool: 13_000_000_000,
		Gateways: 10, FlushEvery: c.FlushEvery, MaxBuffered: c.MaxBuffered, CacheBytes: c.CacheBytes, CacheTTL: c.CacheTTL,
		Nodes: 10, Shards: 1000, Copies: 3, Node: embeddedNode(),
		Length: 15 * time.Minute, LostAt: time.Minute, LostFor: 5 * time.Minute, Notice: 3300 * time.Millisecond,
		Sample: 8, Seed: 1,
	}
}

// maxQueue is what a gateway's queue may take of its disk.
func maxQueue() float64 { return float64(backlog.DefaultConfig().MaxBytes) }

// What a run may cost: draws of a flush interval and of all, half a minute and some hundred megabytes.
const (
	maxInterval = 5_000_000
	maxDraws    = 200_000_000
	maxWork     = 300_000_000 // steps times copies of shards
)

// Validate returns everything that is wrong with c, by the names of the flags.
func (c *Config) Validate() error {
	var errs []error
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	between := func(name string, v, least, most float64) {
		bad(v >= least && v <= most, "--%s: %v is not between %v and %v", name, v, least, most)
	}
	within := func(name string, v, least, most time.Duration) {
		bad(v >= least && v <= most, "--%s: %v is not between %v and %v", name, v, least, most)
	}
	between("rate", c.Rate, 1, 1e9)
	between("per-day", c.PerDay, 1, 1e14)
	between("reads", c.Reads, 0, 100)
	bad(c.Keys == fresh || c.Keys == uniform || c.Keys == zipf, "--keys: %q is none of %s, %s and %s", c.Keys, fresh, uniform, zipf)
	between("pool", float64(c.Pool), 1, 1e15)
	between("gateways", float64(c.Gateways), 1, 1e5)
	within("flush-every", c.FlushEvery, 100*time.Millisecond, 10*time.Minute)
	between("max-buffered", float64(c.MaxBuffered), 1, 1<<30)
	between("cache-bytes", float64(c.CacheBytes), 0, 1<<40)
	within("cache-ttl", c.CacheTTL, 0, 24*time.Hour)
	between("nodes", float64(c.Nodes), 1, 1e4)
	between("shards", float64(c.Shards), 1, 1e5)
	between("copies", float64(c.Copies), 1, 10)
	bad(c.Copies <= c.Nodes, "--copies: %d copies need as many nodes, and there are %d", c.Copies, c.Nodes)
	bad(c.Shards >= c.Nodes, "--shards: %d are fewer than the %d nodes: some would have nothing to do", c.Shards, c.Nodes)
	within("length", c.Length, time.Second, 24*time.Hour)
	within("lost-at", c.LostAt, time.Second, 24*time.Hour)
	within("lost-for", c.LostFor, 0, 24*time.Hour)
	within("notice", c.Notice, 0, time.Hour)
	bad(c.LostFor == 0 || c.LostAt+c.LostFor < c.Length, "--length: %v ends before the lost node is back", c.Length)
	bad(c.LostFor == 0 || c.Notice+time.Second <= c.LostFor, "--lost-for: %v is less than a second more than the %v until it is noticed", c.LostFor, c.Notice)
	between("sample", float64(c.Sample), 1, 1000)
	errs = append(errs, c.Node.validate(between)...)
	if len(errs) == 0 {
		errs = append(errs, c.affordable())
	}
	return errors.Join(errs...)
}

func (n *Node) validate(between func(string, float64, float64, float64)) (errs []error) {
	if n.Engine != Embedded && n.Engine != Redis {
		errs = append(errs, fmt.Errorf("--engine: %q is neither %s nor %s", n.Engine, Embedded, Redis))
	}
	between("cores", n.Cores, 0.01, 1000)
	between("update-cpu in ns", float64(n.UpdateCPU), 1, 1e9)
	between("sum-cpu in ns", float64(n.SumCPU), 1, 1e9)
	between("read-cpu in ns", float64(n.ReadCPU), 1, 1e9)
	between("sums-most", n.SumsMost, 1, 1e9)
	between("reads-most", n.ReadsMost, 0, 1e9)
	between("sum-bytes", n.SumBytes, 0, 1e6)
	between("fine-bytes", n.FineBytes, 0, 1e6)
	between("daily-bytes", n.DailyBytes, 0, 1e6)
	between("buffered-bytes", n.BufferedBytes, 1, 1e6)
	between("cached-bytes", n.CachedBytes, 1, 1e6)
	between("queued-bytes", n.QueuedBytes, 1, 1e6)
	return errs
}

// affordable says what to change about a run that would take minutes, or all memory.
func (c *Config) affordable() error {
	draws := c.updates() * (1 + c.Reads)
	if draws > maxInterval || draws*float64(c.Sample+c.warmUp()) > maxDraws {
		return fmt.Errorf("one gateway would draw %.0f counters in each of %d flush intervals, at most %d and %d in all: more --gateways, or a shorter --flush-every, --cache-ttl or --sample",
			draws, c.Sample+c.warmUp(), int(maxInterval), int(maxDraws))
	}
	if c.Length.Seconds()/step*float64(c.Shards*c.Copies) > maxWork {
		return fmt.Errorf("%v with %d shards of %d copies take too long to simulate: a shorter --length, or fewer --shards", c.Length, c.Shards, c.Copies)
	}
	return nil
}

// updates of one gateway in a flush interval.
func (c *Config) updates() float64 {
	return math.Max(1, math.Round(c.Rate/float64(c.Gateways)*c.FlushEvery.Seconds()))
}

// warmUp is how many flush intervals fill a gateway's cache as far as it will be filled.
func (c *Config) warmUp() int {
	reads := c.updates() * c.Reads
	if reads == 0 {
		return 0
	}
	full := 2 * float64(c.CacheBytes) / c.Node.CachedBytes / reads
	if c.CacheTTL > 0 {
		full = math.Min(full, c.CacheTTL.Seconds()/c.FlushEvery.Seconds())
	}
	return int(math.Ceil(full))
}
