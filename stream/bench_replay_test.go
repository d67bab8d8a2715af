package stream_test

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/store"
	"antirobot/stream"
	"antirobot/verdict"
	"antirobot/verdict/processor"
)

// BenchmarkReplay lets a processor take over everything from one that has processed b.N events and is gone: how long it reads them once
// more, with how much processor time, and the memory for what it then knows. 50 thousand events a second for ten seconds: -benchtime 500000x.
func BenchmarkReplay(b *testing.B) {
	cfg := batched()
	b.Run("memory", func(b *testing.B) {
		log, kv := newMemoryLog(cfg.Partitions), store.NewMemory(nil)
		replays(b, cfg, stream.NewGroup(cfg, stream.GroupDeps{Log: log, KV: kv, Logger: zerolog.Nop()}))
	})
	b.Run("redis", func(b *testing.B) {
		g, _ := overRedis(b, cfg)
		replays(b, cfg, g)
	})
}

func replays(b *testing.B, cfg stream.Config, g stream.Stream) {
	b.Helper()
	proc, services := judge(b, processor.Deps{})
	publish(b, cfg, g, services)
	var first, judged atomic.Int64
	consume := func(judge func(e *verdict.Event)) *stream.Consumer {
		c := stream.NewConsumer(g, stream.ConsumerDeps{Judge: judge, Metrics: metrics.NewSet()})
		c.Prepare(services)()
		c.Start()
		return c
	}
	gone := consume(func(*verdict.Event) { first.Add(1) })
	for first.Load() < int64(b.N) {
		time.Sleep(time.Millisecond)
	}
	if err := gone.Close(); err != nil { // it notes what it has processed
		b.Fatal(err)
	}
	before, cpu := heap(), cpuTime()
	b.ResetTimer()
	heir := consume(func(e *verdict.Event) { proc.Process(e); judged.Add(1) })
	for judged.Load() < int64(b.N) {
		time.Sleep(time.Millisecond)
	}
	b.StopTimer()
	report(b, "processor", cpuTime()-cpu)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64(heap()-before)/(1<<20), "MiB")
	if err := heir.Close(); err != nil {
		b.Error(err)
	}
}

// heap is how many bytes are in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // of this machine
}
