package cmd

import (
	"encoding/json"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"antirobot/verdict/counter/scaling"
)

func scalingCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "scaling",
		Short: "Compute what many gateways with shared counters need",
		Long:  "Compute what many gateways with shared counters need, before there are any. docs/scaling.md explains the figures.",
	}
	cmd.AddCommand(scalingSimulateCommand())
	return cmd
}

func scalingSimulateCommand() *cobra.Command {
	cfg := scaling.DefaultConfig()
	var engine string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Simulate counters spread over many nodes: load, memory, disk, and a node that is lost",
		Long: `Simulate counters that many gateways share and that are spread over many nodes by hash: load, memory, disk, and what
happens while the busiest node is lost. It needs no server and no data, and the same seed gives the same figures.

One gateway is drawn, counter by counter, for some flush intervals, and the others are taken to be like it; the report says
how many updates each drawn one stands for. Space is computed from how many different counters a day is expected to have.
What a node can do was measured by benchmarks, which the flags name; measure your own machines by make bench, and say so
by flags. Times are like 300ms, 5s or 15m, bytes are plain numbers, and cores are cores of the machine that measured.`,
		Example: `  antirobot scaling simulate
  antirobot scaling simulate --rate 2e6 --per-day 130e9 --gateways 100 --nodes 100 --shards 10000
  antirobot scaling simulate --engine redis --nodes 9 --keys zipf --pool 10000000 --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if engine == scaling.Redis {
				measured := scaling.RedisNode()
				if err := keepChanged(cmd.Flags(), &measured); err != nil {
					return err
				}
				cfg.Node = measured
			}
			cfg.Node.Engine = engine
			report, err := scaling.Run(cfg)
			if err != nil {
				return &usageError{err}
			}
			if !asJSON {
				return report.Text(cmd.OutOrStdout())
			}
			e := json.NewEncoder(cmd.OutOrStdout())
			e.SetIndent("", "  ")
			return e.Encode(report)
		},
	}
	p := cmd.Flags()
	p.BoolVar(&asJSON, "json", false, "print the report as JSON; times are nanoseconds where the name ends in Ns")
	p.StringVar(&engine, "engine", scaling.Embedded, "`ENGINE` of the nodes: embedded or redis, each with the figures measured of it")
	scalingFlags(p, &cfg)
	nodeFlags(p, &cfg.Node)
	return cmd
}

// keepChanged sets in n what the command line says about nodes.
func keepChanged(given *pflag.FlagSet, n *scaling.Node) (err error) {
	own := pflag.NewFlagSet("node", pflag.ContinueOnError)
	nodeFlags(own, n)
	own.VisitAll(func(f *pflag.Flag) {
		if said := given.Lookup(f.Name); said.Changed && err == nil {
			err = f.Value.Set(said.Value.String())
		}
	})
	return err
}

func scalingFlags(p *pflag.FlagSet, c *scaling.Config) {
	p.Float64Var(&c.Rate, "rate", c.Rate, "`UPDATES` a second at the peak, of all gateways")
	p.Float64Var(&c.PerDay, "per-day", c.PerDay, "`UPDATES` a day, of all gateways, for the space")
	p.Float64Var(&c.Reads, "reads", c.Reads, "`READS` for each update")
	p.StringVar(&c.Keys, "keys", c.Keys, "how counters are drawn: `LAW` is new (none was seen before), uniform, or zipf (the k-th has a share of 1/k)")
	p.Uint64Var(&c.Pool, "pool", c.Pool, "different `COUNTERS` that uniform and zipf draw from")
	p.IntVar(&c.Gateways, "gateways", c.Gateways, "`N` gateways, which share the updates equally")
	timeVar(p, &c.FlushEvery, "flush-every", c.FlushEvery, "`TIME` for which a gateway sums updates (counters.flush_every)")
	p.IntVar(&c.MaxBuffered, "max-buffered", c.MaxBuffered, "`SUMS` that fit into a gateway's memory (counters.max_buffered)")
	p.Int64Var(&c.CacheBytes, "cache-bytes", c.CacheBytes, "`BYTES` of a gateway's cache of records (counters.cache_bytes)")
	timeVar(p, &c.CacheTTL, "cache-ttl", c.CacheTTL, "`TIME` for which a record is cached, 0 for ever (counters.cache_ttl)")
	p.IntVar(&c.Nodes, "nodes", c.Nodes, "`N` nodes that keep counters")
	p.IntVar(&c.Shards, "shards", c.Shards, "`N` shards that counters belong to by their hash")
	p.IntVar(&c.Copies, "copies", c.Copies, "`N` nodes that have each shard; all are written, one is read")
	timeVar(p, &c.Length, "length", c.Length, "`TIME` to simulate")
	timeVar(p, &c.LostAt, "lost-at", c.LostAt, "`TIME` after which the busiest node is lost")
	timeVar(p, &c.LostFor, "lost-for", c.LostFor, "`TIME` for which it is lost; 0 loses none")
	timeVar(p, &c.Notice, "notice", c.Notice, "`TIME` until another copy leads (3.3s: a Redis Cluster with a node timeout of 1s)")
	p.IntVar(&c.Sample, "sample", c.Sample, "`N` flush intervals of the gateway to draw")
	p.Uint64Var(&c.Seed, "seed", c.Seed, "`SEED` of the draws")
}

// nodeFlags are what was measured, with the benchmark that measured it: first of the embedded store, then of Redis.
func nodeFlags(p *pflag.FlagSet, n *scaling.Node) {
	p.Float64Var(&n.Cores, "cores", n.Cores, "`CORES` that a node can use; redis 1")
	timeVar(p, &n.UpdateCPU, "update-cpu", n.UpdateCPU, "`TIME` of a gateway's core an update takes (BenchmarkAdd/uniform)")
	timeVar(p, &n.SumCPU, "sum-cpu", n.SumCPU, "`TIME` of a node's core a sum takes (BenchmarkDisk/uniform/unsummed); redis 14.3µs (BenchmarkRedis/sums)")
	timeVar(p, &n.ReadCPU, "read-cpu", n.ReadCPU, "`TIME` of a node's core a read takes (BenchmarkSustained/uniform without its updates, over the reads that were not cached); redis 3.6µs (a command of BenchmarkRedis/sums)")
	p.Float64Var(&n.SumsMost, "sums-most", n.SumsMost, "`SUMS` a second that a node can write, whatever its cores (BenchmarkDisk/uniform/summed); redis 70000 (BenchmarkRedis/sums)")
	p.Float64Var(&n.ReadsMost, "reads-most", n.ReadsMost, "`READS` a second of what is not in memory, to compare with (BenchmarkDisk/cold); redis 0: everything is")
	p.Float64Var(&n.SumBytes, "sum-bytes", n.SumBytes, "`BYTES` written to disk for a sum (BenchmarkDisk with more data: docs/scaling.md); redis 0: not measured")
	p.Float64Var(&n.FineBytes, "fine-bytes", n.FineBytes, "`BYTES` kept for a counter's ten-minute counts of a day (BenchmarkCounterDisk); redis 165 (half of BenchmarkRedisMemory)")
	p.Float64Var(&n.DailyBytes, "daily-bytes", n.DailyBytes, "`BYTES` kept for a counter's daily counts of a fortnight (BenchmarkCounterDisk); redis 165 (half of BenchmarkRedisMemory)")
	p.Float64Var(&n.BufferedBytes, "buffered-bytes", n.BufferedBytes, "`BYTES` of a gateway's memory for a sum (counters.max_buffered)")
	p.Float64Var(&n.CachedBytes, "cached-bytes", n.CachedBytes, "`BYTES` of a gateway's memory for a record (counters.cache_bytes)")
	p.Float64Var(&n.QueuedBytes, "queued-bytes", n.QueuedBytes, "`BYTES` of a gateway's disk for a sum that waits (store.counter_queue)")
}
