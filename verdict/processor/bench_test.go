package processor

import (
	"runtime"
	"testing"
	"time"

	"antirobot/verdict"
)

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestMemoryOfSessions holds the bound: a million live subjects, each with a few pages, and their groups.
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
	t.Logf("%d sessions, %d groups: %.0f bytes a subject", p.sessions.live.Load(), p.groups.live.Load(), all/n)
	if all/n > 310 {
		t.Errorf("%.0f bytes a subject, budget 310", all/n)
	}
	if live := p.sessions.live.Load(); live < n*98/100 {
		t.Errorf("%d sessions", live)
	}
	runtime.KeepAlive(p)
}

// BenchmarkProcess is the background cost of an event: budget 5 µs.
func BenchmarkProcess(b *testing.B) {
	run := func(name string, cookies bool) {
		b.Run(name, func(b *testing.B) {
			p, _ := newProcessor(b, nil)
			at := time.Unix(1e9, 0)
			events := make([]*verdict.Event, 1<<17)
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
			for i := range b.N {
				e := events[i*7919&(len(events)-1)]
				e.At = at.Add(time.Duration(i) * 100 * time.Microsecond)
				p.Process(e)
			}
		})
	}
	run("address", false)
	run("cookie", true)
}

// BenchmarkOffer is what an event costs on the request's path; it is taken at once, in the same goroutine and figure.
func BenchmarkOffer(b *testing.B) {
	p, _ := newProcessor(b, func(c *Config) { c.Workers = 1 })
	e := event(time.Unix(1e9, 0), 1)
	var taken verdict.Event
	b.ReportAllocs()
	for range b.N {
		if !p.Offer(e) || !p.queues[0].take(&taken) {
			b.Fatal("shed")
		}
	}
}
