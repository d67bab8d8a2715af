package stream

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/verdict"
)

// Consumer is a processor's end of a stream.
type Consumer struct {
	stream Stream
	d      ConsumerDeps

	services atomic.Pointer[Services]
	seen     []seen // by partition
	age      atomic.Uint64
	at       atomic.Int64
	delay    *metrics.Histogram

	events, again, doubled, unknown, malformed, later *metrics.Counter

	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// ConsumerDeps is what a Consumer works with. Judge and Metrics are required.
type ConsumerDeps struct {
	Judge   func(e *verdict.Event) // may be called by several goroutines at once
	Now     func() time.Time
	Log     zerolog.Logger
	Metrics *metrics.Set
}

type seen struct {
	mu   sync.Mutex
	last map[uint64]uint64
}

// maxPublishers bounds the remembered publishers of a partition: each start of a gateway is one.
const maxPublishers = 4096

// NewConsumer makes a Consumer that knows no services yet: Prepare adds them.
func NewConsumer(s Stream, d ConsumerDeps) *Consumer {
	if d.Now == nil {
		d.Now = time.Now
	}
	set := d.Metrics
	c := &Consumer{
		stream: s, d: d, seen: make([]seen, s.Partitions()),
		delay:     set.NewHistogram("antirobot_stream_age_seconds"),
		events:    set.NewCounter("antirobot_stream_events_total"),
		again:     set.NewCounter("antirobot_stream_replayed_total"),
		doubled:   set.NewCounter("antirobot_stream_doubled_batches_total"),
		unknown:   set.NewCounter("antirobot_stream_unknown_service_total"),
		malformed: set.NewCounter("antirobot_stream_malformed_total"),
		later:     set.NewCounter("antirobot_stream_later_version_total"),
	}
	for i := range c.seen {
		c.seen[i].last = map[uint64]uint64{}
	}
	set.NewGauge("antirobot_stream_partitions", func() float64 { return float64(s.Status().Held) })
	set.NewGauge("antirobot_stream_lag_seconds", func() float64 { return s.Status().Lag.Seconds() })
	return c
}

// Prepare puts the services of a configuration into use.
func (c *Consumer) Prepare(s *Services) (commit func()) { return func() { c.services.Store(s) } }

// Start starts to judge, until Close.
func (c *Consumer) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	c.wg.Go(func() {
		if err := c.stream.Consume(ctx, c.take); err != nil && ctx.Err() == nil {
			c.d.Log.Error().Err(err).Msg("events are no longer read")
		}
	})
}

// Close gives the partitions back, and stops.
func (c *Consumer) Close() error {
	if c.cancel != nil {
		c.cancel()
		c.wg.Wait()
	}
	return nil
}

// Age returns the age of the events that are judged now: 0 if none wait.
func (c *Consumer) Age() time.Duration {
	if c.d.Now().UnixNano()-c.at.Load() > int64(time.Second) {
		return c.stream.Status().Lag
	}
	return time.Duration(math.Float64frombits(c.age.Load()) * float64(time.Second))
}

func (c *Consumer) take(d Delivery) {
	h, events, err := readHead(d.Data)
	switch {
	case errors.Is(err, errVersion):
		c.later.Inc()
		return
	case err != nil:
		c.malformed.Inc()
		return
	case !c.seen[d.Partition].fresh(h):
		c.doubled.Inc()
		return
	}
	services := c.services.Load()
	var e verdict.Event
	for len(events) > 0 {
		var name uint32
		if name, events, err = readEvent(&e, events, h.base); err != nil {
			c.malformed.Inc()
			continue
		}
		index, known := services.of(name)
		if !known {
			c.unknown.Inc()
			continue
		}
		e.Service, e.Again = index, d.Again
		c.d.Judge(&e)
		if d.Again {
			c.again.Inc()
		} else {
			c.events.Inc()
		}
	}
	if !d.Again {
		now := c.d.Now()
		age := since(h.base, now).Seconds()
		c.delay.Update(age)
		c.age.Store(math.Float64bits(age))
		c.at.Store(now.UnixNano())
	}
}

// fresh reports whether a batch is new, and remembers it.
func (s *seen) fresh(h head) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, known := s.last[h.publisher]
	if known && h.number <= last {
		return false
	}
	if !known && len(s.last) >= maxPublishers {
		for k := range s.last {
			delete(s.last, k)
			break
		}
	}
	s.last[h.publisher] = h.number
	return true
}
