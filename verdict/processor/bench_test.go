package processor

import (
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"antirobot/identity"
	"antirobot/request"
	"antirobot/verdict"
)

// cpuTime is the processor time that this process has used, in nanoseconds.
func cpuTime() int64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return u.Utime.Nano() + u.Stime.Nano()
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestMemoryOfSessions checks the bound: a million live subjects, each with a few pages, and their groups.
func TestMemoryOfSessions(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("a million sessions take a while")
	}
	const n = 1_000_000
	p, _ := newProcessor(t, nil)
	before := heap()
	e := event(time.Unix(1.8e9, 0), 0)
	for i := range n {
		e.Subjects[0].ID[15], e.Subjects[0].ID[14], e.Subjects[0].ID[13] = byte(i), byte(i>>8), byte(i>>16)
		e.Agent = uint64(1 + i%5000)
		e.At = e.At.Add(time.Millisecond)
		p.Process(e)
		p.Process(e)
	}
	all := float64(heap() - before)
	t.Logf("%d sessions: %.0f bytes a subject", p.sessions.Len(), all/n)
	if all/n > 400 { // 400 MB for a million
		t.Errorf("%.0f bytes a subject, budget 400", all/n)
	}
	if live := p.sessions.Len(); live < n*98/100 {
		t.Errorf("%d sessions", live)
	}
	runtime.KeepAlive(p)
}

// BenchmarkProcess is the background cost of an event: budget 5 µs.
func BenchmarkProcess(b *testing.B) {
	run := func(name string, visitors int, cookies bool) {
		b.Run(name, func(b *testing.B) {
			p, _ := newProcessor(b, nil)
			at := time.Unix(1e9, 0)
			events := make([]*verdict.Event, visitors) // a power of two
			for i := range events {
				if cookies {
					events[i] = event(at, i, cookie(i))
				} else {
					events[i] = event(at, i)
				}
			}
			for _, e := range events {
				p.Process(e)
			}
			b.ReportAllocs()
			b.ResetTimer()
			cpu := cpuTime()
			for i := range b.N {
				e := events[i*7919&(len(events)-1)]
				e.At = at.Add(time.Duration(i) * 100 * time.Microsecond)
				p.Process(e)
			}
			b.ReportMetric(float64(cpuTime()-cpu)/float64(b.N), "cpu-ns/event") // the figure that counts on a busy machine
		})
	}
	run("address", 1<<17, false)
	run("cookie", 1<<17, true)
	run("one visitor", 1, true)
}

// BenchmarkOffer is what an event costs on the request's path; it is taken from the queue at once, in the same
// goroutine, which the figure includes.
func BenchmarkOffer(b *testing.B) {
	p, _ := newProcessor(b, func(c *Config) { c.Workers = 1 })
	e := event(time.Unix(1e9, 0), 1)
	none := func(*verdict.Event) {}
	b.ReportAllocs()
	for range b.N {
		if !p.Offer(e) || !p.queues[0].take(none) {
			b.Fatal("shed")
		}
	}
}

// BenchmarkEvaluate is one evaluation: all factors, the score and the decision that follows.
func BenchmarkEvaluate(b *testing.B) {
	p, _ := newProcessor(b, nil)
	p.formula = live(b, card(b, "bias: -4\nfactors: [{name: session_pages, bins: [{from: 1000, weight: 3}]}, {name: parts_missing, bins: [{from: 0.9, weight: 1}]}]\n"), metrics.NewSet())
	e := event(time.Unix(1.8e9, 0), 1, cookie(1))
	for range 100 {
		e.At = e.At.Add(3 * time.Second)
		p.Process(e)
	}
	s, _, _ := p.turn(e, p.service(e.Service), verdict.CountDocument, false, false)
	r := p.service(0)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		p.evaluate(e, r, &s)
	}
}

// BenchmarkJudge is what verdict.sync costs on the request's path.
func BenchmarkJudge(b *testing.B) {
	p, _ := newProcessor(b, nil)
	p.formula = live(b, card(b, "bias: -4\nfactors: [{name: session_pages, bins: [{from: 1000, weight: 3}]}, {name: parts_missing, bins: [{from: 0.9, weight: 1}]}]\n"), metrics.NewSet())
	v, id, s := aPageLoad(p)
	var d verdict.Decision
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		p.Score(&d, v, id, s)
	}
}

// aPageLoad is a page load of a browser, for the inline judge.
func aPageLoad(p *Processor) (*request.View, *identity.Identity, *verdict.Settings) {
	f := func(name, value string) request.Field {
		return request.Field{Name: []byte(name), Value: []byte(value)}
	}
	v := &request.View{
		At: time.Unix(1.8e9, 0), Method: []byte("GET"), Host: []byte("shop.example"), Target: []byte("/x"), Path: []byte("/x"),
		Fields: []request.Field{
			f("Host", "shop.example"), f("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:144.0) Gecko/20100101 Firefox/144.0"),
			f("Accept", "text/html"), f("Accept-Language", "en"), f("Accept-Encoding", "gzip"), f("Sec-Fetch-Mode", "navigate"),
		},
	}
	e := event(v.At, 1)
	p.Process(e)
	return v, &identity.Identity{N: 1, Subjects: e.Subjects}, (*p.services.Load())[0].Settings
}

// BenchmarkFiftyThousand offers fifty thousand events a second, of a hundred thousand clients, for one second per
// iteration, and reports how many were dropped and how much of a core the slow half took.
func BenchmarkFiftyThousand(b *testing.B) {
	p, _ := newProcessor(b, nil)
	p.formula = live(b, card(b, "bias: -4\nfactors: [{name: session_pages, bins: [{from: 1000, weight: 3}]}, {name: parts_missing, bins: [{from: 0.9, weight: 1}]}]\n"), metrics.NewSet())
	events := make([]*verdict.Event, 1<<17)
	for i := range events {
		events[i] = event(time.Now(), i, cookie(i))
		events[i].Agent = uint64(1 + i%500)
		events[i].Static = i%3 == 0
	}
	if err := p.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	const each, tick = 50, time.Millisecond
	n, behind := 0, 0
	cpu := cpuTime()
	b.ResetTimer()
	for range b.N {
		next := time.Now()
		for range time.Second / tick {
			for range each {
				e := events[n*7919&(len(events)-1)]
				e.At = next
				p.Offer(e)
				n++
			}
			if next = next.Add(tick); time.Until(next) > 0 {
				time.Sleep(time.Until(next))
			} else {
				behind++
			}
		}
	}
	b.StopTimer()
	cpu = cpuTime() - cpu
	if err := p.Close(); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(p.shed.Get())/float64(n)*100, "%shed")
	b.ReportMetric(float64(cpu)/float64(n), "cpu-ns/event")
	b.ReportMetric(float64(p.evaluations.Get())/float64(n), "evaluations/event")
	b.ReportMetric(float64(behind)/float64(b.N), "late-ms/s")
}
