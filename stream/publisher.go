package stream

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/store"
	"antirobot/verdict"
)

// Publisher is the gateway's end of a stream: a verdict.Sink. Safe for concurrent use.
//
// The gateway's own processor also gets the events of services that are judged inline, and all events while the stream
// or the processors are away: the gateway then judges by itself.
type Publisher struct {
	cfg    Config
	stream Stream
	d      PublisherDeps
	id     uint64

	services atomic.Pointer[Services]
	parts    []outlet
	wake     chan struct{}
	away     atomic.Pointer[error] // of the last attempt to publish; nil: it was well
	alone    atomic.Bool
	closed   atomic.Bool

	offered, shed, bytes, batches, errors, watched *metrics.Counter

	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// PublisherDeps are the dependencies of a Publisher. Eyes, Learn, Heard and Metrics are required.
type PublisherDeps struct {
	Eyes    verdict.Sink                             // this gateway's own processor
	Learn   func(e *verdict.Event, group uint32)     // takes what the gateway itself must know of an event
	Heard   func() (at time.Time, age time.Duration) // of the last processor's report, and its events
	Now     func() time.Time
	Log     zerolog.Logger
	Metrics *metrics.Set
}

type outlet struct {
	mu    sync.Mutex
	base  int64
	open  []byte // an unfinished batch without its head; empty: none
	_     [16]byte
	going []byte // being published; used by run, as are those below
	spare []byte
	sent  uint64
	since time.Time
}

// NewPublisher makes a Publisher that knows no services yet: Prepare adds them.
func NewPublisher(cfg Config, s Stream, d PublisherDeps) *Publisher {
	if d.Now == nil {
		d.Now = time.Now
	}
	p := &Publisher{
		cfg: cfg, stream: s, d: d, id: rand.Uint64(), parts: make([]outlet, s.Partitions()), wake: make(chan struct{},
			1),
		offered: d.Metrics.NewCounter("antirobot_stream_offered_total"),
		shed:    d.Metrics.NewCounter("antirobot_stream_shed_total"),
		bytes:   d.Metrics.NewCounter("antirobot_stream_bytes_total"),
		batches: d.Metrics.NewCounter("antirobot_stream_batches_total"),
		errors:  d.Metrics.NewCounter("antirobot_stream_errors_total"),
		watched: d.Metrics.NewCounter("antirobot_stream_judged_alone_total"),
	}
	d.Metrics.NewGauge("antirobot_stream_alone", func() float64 {
		if p.alone.Load() {
			return 1
		}
		return 0
	})
	return p
}

// Prepare puts the services of a configuration into use.
func (p *Publisher) Prepare(s *Services) (commit func()) { return func() { p.services.Store(s) } }

// Start starts to publish, until Close.
func (p *Publisher) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	p.wg.Go(func() { p.run(ctx) })
}

const closePatience = 3 * time.Second

// Close publishes what waits, and stops.
func (p *Publisher) Close() error {
	if p.closed.Swap(true) || p.cancel == nil {
		return nil
	}
	p.cancel()
	p.wg.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	for {
		if n, err := p.flush(ctx); n == 0 || err != nil {
			return err
		}
	}
}

// Err returns nil if a processor judges this gateway's events, or the problem.
func (p *Publisher) Err() error {
	at, age := p.d.Heard()
	silent := p.d.Now().Sub(at)
	switch err := p.away.Load(); {
	case err != nil:
		return fmt.Errorf("events can't be published: %w", *err)
	case at.UnixNano() <= 0:
		return errors.New("no processor was heard of")
	case silent > p.cfg.AloneAfter:
		return fmt.Errorf("no processor was heard of for %v", silent.Round(time.Second))
	case age > p.cfg.AloneAfter:
		return fmt.Errorf("the processors are %v behind", age.Round(time.Second))
	}
	return nil
}

// Offer implements verdict.Sink.
func (p *Publisher) Offer(e *verdict.Event) bool {
	p.offered.Inc()
	name, settings, ok := p.services.Load().name(e.Service)
	if !ok || e.N == 0 || int(e.N) > len(e.Subjects) || p.closed.Load() {
		p.shed.Inc()
		return false
	}
	ok = p.add(e, name)
	if !ok {
		p.shed.Inc()
	}
	if settings.Sync || !ok || p.alone.Load() {
		p.watched.Inc()
		return p.d.Eyes.Offer(e) || ok
	}
	p.d.Learn(e, settings.Group)
	return true
}

func (p *Publisher) add(e *verdict.Event, service uint32) bool {
	o := &p.parts[Partition(e.Subjects[e.N-1].ID, len(p.parts))]
	at := e.At.UnixMicro()
	o.mu.Lock()
	if cap(o.open)-len(o.open) < maxEvent && !o.grow(int(p.cfg.BufferBytes)/2/len(p.parts)) {
		o.mu.Unlock()
		return false
	}
	first := len(o.open) == 0
	if first {
		o.base = at
	}
	o.open = appendEvent(o.open, e, service, o.base)
	o.mu.Unlock()
	if first {
		select {
		case p.wake <- struct{}{}:
		default:
		}
	}
	return true
}

// grow makes room for another event; false at the bound. The caller holds the lock.
func (o *outlet) grow(most int) bool {
	if cap(o.open) >= most {
		return false
	}
	open := make([]byte, len(o.open), min(max(2*cap(o.open), 2*maxEvent), most))
	copy(open, o.open)
	o.open = open
	return cap(o.open)-len(o.open) >= maxEvent
}

const (
	linger     = 5 * time.Millisecond // for which events are collected before they are published
	retryPause = 250 * time.Millisecond
	checkEvery = 500 * time.Millisecond // between checks for processors while there is nothing to publish
)

func (p *Publisher) run(ctx context.Context) {
	t := time.NewTicker(checkEvery)
	defer t.Stop()
	for {
		p.look()
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			continue
		case <-p.wake:
		}
		store.Pause(ctx, linger)
		for ctx.Err() == nil {
			n, err := p.flush(ctx)
			p.away.Store(nil)
			if err != nil {
				p.away.Store(&err)
			}
			if err != nil {
				p.look()
				store.Pause(ctx, retryPause)
			} else if n == 0 { // a retried batch had others behind it
				break
			}
		}
	}
}

// look checks for processors, and logs a change.
func (p *Publisher) look() {
	alone := p.Err() != nil
	if p.alone.Swap(alone) == alone {
		return
	}
	if alone {
		p.d.Log.Warn().Msg("nobody judges this gateway's events: it judges what it sees by itself")
	} else {
		p.d.Log.Info().Msg("processors judge this gateway's events")
	}
}

// flush publishes the collected events and returns the number of batches. A failed batch goes first, unchanged; it is
// dropped when the engine would no longer keep it.
func (p *Publisher) flush(ctx context.Context) (int, error) {
	var batches []Batch
	size := 0
	for i := range p.parts {
		o := &p.parts[i]
		if len(o.going) > 0 && p.d.Now().Sub(o.since) > p.cfg.Keep {
			o.going = o.going[:0]
			p.shed.Inc()
		}
		if len(o.going) == 0 && !p.take(o) {
			continue
		}
		batches = append(batches, Batch{Partition: i, Data: o.going})
		size += len(o.going)
	}
	if len(batches) == 0 {
		return 0, nil
	}
	if err := p.stream.Publish(ctx, batches); err != nil {
		p.errors.Inc()
		return 0, err
	}
	for _, b := range batches {
		o := &p.parts[b.Partition]
		o.going = o.going[:0]
	}
	p.batches.Add(len(batches))
	p.bytes.Add(size)
	return len(batches), nil
}

// take closes the open batch of a partition; false if it is empty.
func (p *Publisher) take(o *outlet) bool {
	o.mu.Lock()
	events, base := o.open, o.base
	if len(events) == 0 {
		o.mu.Unlock()
		return false
	}
	o.open, o.spare = o.spare[:0], nil
	o.mu.Unlock()
	o.sent++
	o.since = p.d.Now()
	o.going = appendHead(o.going[:0], head{publisher: p.id, number: o.sent, base: base})
	o.going = append(o.going, events...)
	o.spare = events[:0]
	return true
}
