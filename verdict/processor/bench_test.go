package processor

import (
	"runtime"
	"testing"
	"time"

	"antirobot/identity"
	"antirobot/verdict"
)

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestMemoryOfSessions holds the bound: a million subjects in 200 MB.
func TestMemoryOfSessions(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("a million sessions take a while")
	}
	const n = 1_000_000
	before := heap()
	table := newSessions(n)
	var seen [verdict.MaxLimits]float32
	e := &verdict.Event{At: time.Unix(1e9, 0)}
	for i := range n {
		k := sessionKey{kind: identity.KindIP}
		k.id[15], k.id[14], k.id[13] = byte(i), byte(i>>8), byte(i>>16)
		table.add(k, e, nil, &seen)
	}
	each := float64(heap()-before) / float64(table.live.Load())
	t.Logf("%.0f bytes a session", each)
	if each > 200 {
		t.Errorf("%.0f bytes a session, budget 200", each)
	}
	runtime.KeepAlive(table)
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
