package stream_test

import (
	"context"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"antirobot/cbb"
	"antirobot/identity"
	"antirobot/request"
	"antirobot/store"
	"antirobot/store/redisstore"
	"antirobot/store/redisstore/redistest"
	"antirobot/stream"
	"antirobot/verdict"
	"antirobot/verdict/client"
	"antirobot/verdict/processor"
)

// cpuTime is the processor time that this process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// cpuOf is the processor time that another process has used, in ticks of a hundredth of a second.
func cpuOf(pid int) time.Duration {
	b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(f) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

type noLists struct{}

func (noLists) Lookup(*cbb.Match, *request.View, *identity.Identity, string) {}

func (noLists) Listed(string, netip.Addr, identity.Subject, string, time.Time) bool { return false }

// judge makes a processor as it stands behind a stream.
func judge(t testing.TB, d processor.Deps) (*processor.Processor, *stream.Services) {
	t.Helper()
	kv := store.NewMemory(nil)
	t.Cleanup(func() { _ = kv.Close() })
	c, err := verdict.New(verdict.DefaultConfig(), verdict.Deps{Store: kv, Lists: noLists{}, Metrics: metrics.NewSet()})
	if err != nil {
		t.Fatal(err)
	}
	d.Keeper, d.Metrics = c, metrics.NewSet()
	one := processor.DefaultConfig()
	one.Workers = 1 // all events in their order
	p, err := processor.New(one, d)
	if err != nil {
		t.Fatal(err)
	}
	cfg := verdict.DefaultServiceConfig()
	s, err := cfg.Settings("default", 0)
	if err != nil {
		t.Fatal(err)
	}
	use, err := p.Prepare([]*verdict.Settings{s})
	if err != nil {
		t.Fatal(err)
	}
	use()
	services, err := stream.NewServices([]stream.Service{{Key: "default ", Settings: s}})
	if err != nil {
		t.Fatal(err)
	}
	return p, services
}

// visits are events of many visitors, each with a browser's cookie.
func visits(n int) []verdict.Event {
	list := make([]verdict.Event, n)
	for i := range list {
		h := func(salt byte) uint64 { return request.Hash([]byte{byte(i), byte(i >> 8), byte(i >> 16), salt}) }
		e := &list[i]
		*e = verdict.Event{
			N: 2, Status: 200, Type: verdict.TypeHTML, Document: true, BytesOut: 43_210, Took: 83 * time.Millisecond, Method: 'G', Path: h(1), PathShape: h(2),
			Agent: h(3) % 500, Client: uint32(h(4)), Facts: client.Facts{
				Secure: true, Direct: true, HTTP2: true, Page: true, WantsHTML: true, Claim: client.Claim{Family: client.FamilyChrome, System: client.SystemWindows, Major: 126},
				Headers: 0x3ffff, Shape: h(5) % 100, Language: uint32(h(6)) % 50, JA4: h(7) % 100, Frames: h(8) % 50, Cookies: client.CookieAny | client.CookieOurs,
				IAge: 86400, Browser: uint32(h(10)), Depth: 3, Target: h(11),
			},
		}
		e.Subjects[0] = identity.Subject{Kind: identity.KindI, ID: [16]byte{byte(i), byte(i >> 8), byte(i >> 16), 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}}
		e.Subjects[1] = identity.Subject{Kind: identity.KindIP, ID: [16]byte{10: 0xff, 11: 0xff, 12: 100, 13: byte(i >> 12), 14: byte(i >> 4), 15: byte(i)}}
	}
	return list
}

// report says what an event costs, by processor time, which other work on the machine does not change.
func report(b *testing.B, of string, cpu time.Duration) {
	b.ReportMetric(float64(cpu.Nanoseconds())/float64(b.N), "ns-"+of+"/event")
}

// nowhere takes everything and keeps nothing.
type nowhere struct{ stream.Stream }

func (nowhere) Partitions() int                               { return 16 }
func (nowhere) Publish(context.Context, []stream.Batch) error { return nil }

type blind struct{}

func (blind) Offer(*verdict.Event) bool { return false }

func publisher(cfg stream.Config, s stream.Stream, services *stream.Services) *stream.Publisher {
	p := stream.NewPublisher(cfg, s, stream.PublisherDeps{
		Eyes: blind{}, Learn: func(*verdict.Event, uint32) {}, Metrics: metrics.NewSet(), Heard: func() (time.Time, time.Duration) { return time.Now(), 0 },
	})
	p.Prepare(services)()
	p.Start()
	return p
}

// BenchmarkOffer is what an event costs a gateway, without the engine's client: budget 2 µs.
func BenchmarkOffer(b *testing.B) {
	_, services := judge(b, processor.Deps{})
	p := publisher(stream.DefaultConfig(), nowhere{}, services)
	defer p.Close()
	list := visits(1 << 14)
	b.ReportAllocs()
	before := cpuTime()
	b.ResetTimer()
	for i := range b.N {
		e := &list[i&(len(list)-1)]
		e.At = time.Now()
		p.Offer(e)
	}
	report(b, "gateway", cpuTime()-before)
}

// BenchmarkReference judges the same events in the process that saw them, without a stream.
func BenchmarkReference(b *testing.B) {
	p, _ := judge(b, processor.Deps{})
	list := visits(1 << 16)
	before := cpuTime()
	b.ResetTimer()
	for i := range b.N {
		e := &list[i&(len(list)-1)]
		e.At = time.Now()
		p.Process(e)
	}
	report(b, "process", cpuTime()-before)
}

// BenchmarkThroughRedis publishes events to a real server and then lets a processor judge them, in batches of the size that
// 200 thousand events a second make: by processor time of the gateway, of the server and of the processor.
func BenchmarkThroughRedis(b *testing.B) {
	g, pid := overRedis(b, batched())
	through(b, batched(), g, pid)
}

// overRedis is a stream over a server of its own, and the server's process.
func overRedis(b *testing.B, cfg stream.Config) (stream.Stream, int) {
	b.Helper()
	r := redistest.Start(b)
	s, err := redisstore.New(redisstore.DefaultConfig(), redisstore.Deps{URL: "redis://" + r.Addr})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return stream.NewGroup(cfg, stream.GroupDeps{Log: s.Events(cfg.Partitions, cfg.Keep), KV: s}), r.PID()
}

// batched has buffers that make batches of the size that 200 thousand events a second make.
func batched() stream.Config {
	cfg := stream.DefaultConfig()
	cfg.BufferBytes = int64(2 * 8192 * cfg.Partitions)
	return cfg
}

// publish offers b.N events of many visitors to a gateway's publisher, until the engine has them.
func publish(b *testing.B, cfg stream.Config, g stream.Stream, services *stream.Services) {
	b.Helper()
	p := publisher(cfg, g, services)
	list := visits(1 << 16)
	for i := range b.N {
		e := &list[i&(len(list)-1)]
		e.At = time.Now()
		for !p.Offer(e) {
			time.Sleep(100 * time.Microsecond)
		}
	}
	must(b, p.Close())
}

// through publishes events to an engine, whose server is the process pid, and then lets a processor judge them.
func through(b *testing.B, cfg stream.Config, g stream.Stream, pid int) {
	b.Helper()
	proc, services := judge(b, processor.Deps{})
	ours, theirs := cpuTime(), cpuOf(pid)
	b.ResetTimer()
	publish(b, cfg, g, services)
	report(b, "gateway", cpuTime()-ours)
	ours = cpuTime()
	var judged atomic.Int64
	c := stream.NewConsumer(g, stream.ConsumerDeps{Judge: func(e *verdict.Event) { proc.Process(e); judged.Add(1) }, Metrics: metrics.NewSet()})
	c.Prepare(services)()
	c.Start()
	defer c.Close()
	for judged.Load() < int64(b.N) {
		time.Sleep(5 * time.Millisecond)
	}
	report(b, "processor", cpuTime()-ours)
	report(b, "server", cpuOf(pid)-theirs)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
