package stream

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"antirobot/verdict"
)

// broken is a Stream of one partition that keeps what is published, and fails while it is told to.
type broken struct {
	Stream
	mu   sync.Mutex
	fail bool
	all  [][]byte
}

var errBroken = errors.New("broken")

func (b *broken) Partitions() int { return 1 }

func (b *broken) Publish(_ context.Context, batches []Batch) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, x := range batches { // as an engine whose answer is lost
		b.all = append(b.all, append([]byte{}, x.Data...))
	}
	if b.fail {
		return errBroken
	}
	return nil
}

func (b *broken) Status() Status { return Status{} }

func (b *broken) set(fail bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fail = fail
}

// eyes count what a gateway judges by itself.
type eyes struct{ n int }

func (s *eyes) Offer(*verdict.Event) bool { s.n++; return true }

// testServices has one service, with the index 0.
func testServices(t testing.TB) *Services {
	t.Helper()
	c := verdict.DefaultServiceConfig()
	s, err := c.Settings("default", 0)
	if err != nil {
		t.Fatal(err)
	}
	list, err := NewServices([]Service{{"default ", s}})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestGatewayIsAloneWhenNobodyJudges: a gateway judges by itself as long as the stream is away or no processor is heard of,
// and what was published twice for want of an answer is judged once.
func TestGatewayIsAloneWhenNobodyJudges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, own, learnt := &broken{}, &eyes{}, 0
		var silent atomic.Int64 // since when no processor is heard of, unix nanoseconds; 0: one is
		set := metrics.NewSet()
		cfg := DefaultConfig()
		cfg.Partitions = 1
		p := NewPublisher(cfg, b, PublisherDeps{
			Eyes: own, Learn: func(*verdict.Event, uint32) { learnt++ }, Metrics: set,
			Heard: func() (time.Time, time.Duration) {
				if at := silent.Load(); at != 0 {
					return time.Unix(0, at), 0
				}
				return time.Now(), 0
			},
		})
		p.Prepare(testServices(t))()
		p.Start()
		offer := func(n int) {
			for i := range n {
				e := typical(i)
				if !p.Offer(&e) {
					t.Fatal("it is dropped")
				}
			}
			time.Sleep(time.Second)
			synctest.Wait()
		}
		offer(10)
		if own.n != 0 || learnt != 10 {
			t.Errorf("with processors: %d judged here, %d learnt", own.n, learnt)
		}
		b.set(true)
		offer(1)
		offer(10)
		if own.n != 10 {
			t.Errorf("while the stream is away: %d judged here, want 10", own.n)
		}
		b.set(false)
		time.Sleep(time.Second)
		synctest.Wait()
		if n := len(p.parts[0].open); n > 0 {
			t.Errorf("when it is back, %d bytes are left waiting", n)
		}
		offer(10)
		if own.n != 10 {
			t.Errorf("when it is back: %d judged here, want 10", own.n)
		}
		silent.Store(time.Now().UnixNano())
		time.Sleep(cfg.AloneAfter + time.Second)
		offer(10)
		if own.n != 20 {
			t.Errorf("while no processor is heard of: %d judged here, want 20", own.n)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		judged := 0
		c := NewConsumer(b, ConsumerDeps{Judge: func(*verdict.Event) { judged++ }, Metrics: metrics.NewSet()})
		c.Prepare(testServices(t))()
		for _, data := range b.all {
			c.take(Delivery{Data: data})
		}
		if judged != 41 {
			t.Errorf("%d events are judged elsewhere, want each of 41 once", judged)
		}
	})
}

// TestFullBufferShedsToOwnEyes: what there is no room for is judged here.
func TestFullBufferShedsToOwnEyes(t *testing.T) {
	b, own := &broken{}, &eyes{}
	cfg := DefaultConfig()
	cfg.Partitions, cfg.BufferBytes = 1, 16<<10
	p := NewPublisher(cfg, b, PublisherDeps{
		Eyes: own, Learn: func(*verdict.Event, uint32) {}, Heard: func() (time.Time, time.Duration) { return time.Now(), 0 }, Metrics: metrics.NewSet(),
	})
	p.Prepare(testServices(t))()
	for i := range 1000 {
		e := typical(i)
		p.Offer(&e)
	}
	if int(p.shed.Get()) != own.n || own.n < 900 || own.n == 1000 {
		t.Errorf("%d of 1000 were shed, %d judged here", p.shed.Get(), own.n)
	}
}

// TestConsumerPassesOverWhatItCantRead counts what it can't use and goes on.
func TestConsumerPassesOverWhatItCantRead(t *testing.T) {
	var judged []verdict.Event
	c := NewConsumer(&broken{}, ConsumerDeps{Judge: func(e *verdict.Event) { judged = append(judged, *e) }, Metrics: metrics.NewSet()})
	services := testServices(t)
	c.Prepare(services)()
	name, _, _ := services.name(0)
	e := typical(1)
	batch := func(number uint64) []byte { return appendHead(nil, head{publisher: 7, number: number, base: 1}) }
	c.take(Delivery{Data: []byte{1, 2}})
	c.take(Delivery{Data: append([]byte{batchVersion + 1}, make([]byte, 40)...)})
	c.take(Delivery{Data: append(batch(1), 9)})
	c.take(Delivery{Data: appendEvent(appendEvent(batch(2), &e, name+1, 1), &e, name, 1)})
	c.take(Delivery{Data: appendEvent(batch(2), &e, name, 1)})
	c.take(Delivery{Data: appendEvent(batch(3), &e, name, 1), Again: true})
	if len(judged) != 2 || judged[0].Again || !judged[1].Again || judged[0].Path != e.Path {
		t.Errorf("judged %+v", judged)
	}
	for what, n := range map[string]uint64{
		"malformed": c.malformed.Get(), "later": c.later.Get() + 1, "unknown": c.unknown.Get() + 1, "doubled": c.doubled.Get() + 1, "events": c.events.Get() + 1, "again": c.again.Get() + 1,
	} {
		if n != 2 {
			t.Errorf("%s: %d", what, n)
		}
	}
}

func FuzzBatch(f *testing.F) {
	e := typical(1)
	f.Add(appendEvent(appendHead(nil, head{1, 2, 3}), &e, 1, 3))
	f.Add([]byte{batchVersion})
	f.Fuzz(func(t *testing.T, data []byte) {
		c := NewConsumer(&broken{}, ConsumerDeps{Judge: func(e *verdict.Event) {
			if e.N == 0 {
				t.Error("an event without subjects")
			}
		}, Metrics: metrics.NewSet()})
		c.Prepare(testServices(t))()
		c.take(Delivery{Data: data})
	})
}
