package backlog

import (
	"errors"
	"io"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"antirobot/store"
	"antirobot/store/pebblestore"
)

const (
	lookEvery   = 50 * time.Millisecond
	resendAfter = 200 * time.Millisecond
)

func (c *Counters) run() {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for c.life.Err() == nil {
		if c.first < c.next && c.well() {
			c.sendOldest()
			select {
			case first := <-c.calls:
				c.take(first)
			default:
			}
			continue
		}
		ticks := look.C
		if c.first == c.next {
			ticks = nil // nothing waits but for calls
		}
		select {
		case first := <-c.calls:
			c.take(first)
		case <-ticks:
		case <-c.life.Done():
		}
	}
}

func (c *Counters) well() bool {
	return c.Repeatable.Healthy() == nil && !c.now().Before(c.resume) && !c.hurry.Load()
}

// take writes waiting calls to disk as one batch, and sends it if nothing is before it.
func (c *Counters) take(first *call) {
	calls, b := c.gather(first)
	text := encode(b, c.now())
	size, err := int64(len(text)), ErrFull
	if c.stats.bytes.Load()+size <= c.maxBytes {
		err = c.disk.Write(func(w *pebblestore.LogBatch) { w.Put(key(b.Number), text) })
	}
	alone := c.first == c.next
	switch {
	case err == nil:
		for _, one := range calls {
			one.kept.Store(true)
		}
		c.next++
		c.stats.batches.Add(1)
		c.stats.bytes.Add(size)
		if alone {
			c.stats.oldest.Store(c.now().Unix())
		}
		if !alone || !c.well() || !c.send(b, size) {
			c.stats.queued.Add(uint64(len(b.Adds) + len(b.Uniques)))
		}
	case alone && c.well(): // the disk takes nothing, but the store does
		c.first, c.next = c.next+1, c.next+1 // a number is not used twice
		err = c.Count(c.life, b)
	}
	if err != nil {
		c.stats.refused.Add(uint64(len(b.Adds) + len(b.Uniques)))
	}
	for _, one := range calls {
		one.done <- err
	}
}

func (c *Counters) gather(first *call) ([]*call, *store.Batch) {
	calls := []*call{first}
	b := &store.Batch{Writer: c.writer, Number: c.next, Adds: first.adds, Uniques: first.uniques}
	for len(b.Adds)+len(b.Uniques) < batchItems {
		select {
		case one := <-c.calls:
			calls = append(calls, one)
			b.Adds, b.Uniques = append(b.Adds, one.adds...), append(b.Uniques, one.uniques...)
			continue
		default:
		}
		break
	}
	return calls, b
}

// sendOldest sends the oldest batch. An unreadable one is dropped, and counted as lost.
func (c *Counters) sendOldest() {
	text, ok, err := c.disk.Get(nil, key(c.first))
	if err != nil {
		c.fail(err)
		return
	}
	var b *store.Batch
	if ok {
		c.stats.oldest.Store(writtenAt(text))
		b, err = decode(text)
	}
	if !ok || err != nil {
		c.log.Error().Err(err).Msg("a batch of counts can't be read any more, and is lost")
		c.stats.lost.Add(1)
		c.remove(int64(len(text)))
		return
	}
	c.send(b, int64(len(text)))
}

// send sends the oldest batch and removes it; false means that it waits.
func (c *Counters) send(b *store.Batch, size int64) bool {
	if err := c.Count(c.life, b); err != nil {
		c.fail(err)
		return false
	}
	c.stats.sent.Add(uint64(len(b.Adds) + len(b.Uniques)))
	c.remove(size)
	return true
}

func (c *Counters) fail(err error) {
	c.resume = c.now().Add(resendAfter)
	c.stats.failed.Add(1)
	if c.life.Err() == nil {
		c.log.Warn().Err(err).Int64("batches", c.stats.batches.Load()).Msg("counts wait on disk")
	}
}

// remove removes the oldest batch. If the disk refuses, a restart sends it again, and it counts once.
func (c *Counters) remove(size int64) {
	position := key(c.first)
	if err := c.disk.Write(func(w *pebblestore.LogBatch) { w.Delete(position) }); err != nil &&
		!errors.Is(err, store.ErrClosed) {
		c.log.Warn().Err(err).Msg("a batch of counts that the store has can't be removed from the disk")
	}
	c.first++
	c.stats.bytes.Add(-size)
	if c.stats.batches.Add(-1) == 0 {
		c.stats.oldest.Store(0)
	}
}

func (c *Counters) writeMetrics(w io.Writer) {
	metrics.WriteGaugeUint64(w, "antirobot_counter_queue_batches", uint64(max(c.stats.batches.Load(), 0)))
	metrics.WriteGaugeUint64(w, "antirobot_counter_queue_bytes", uint64(max(c.stats.bytes.Load(), 0)))
	metrics.WriteGaugeUint64(w, "antirobot_counter_queue_age_seconds", uint64(max(c.Age(), 0)/time.Second))
	metrics.WriteCounterUint64(w, "antirobot_counter_queue_queued_total", c.stats.queued.Load())
	metrics.WriteCounterUint64(w, "antirobot_counter_queue_sent_total", c.stats.sent.Load())
	metrics.WriteCounterUint64(w, "antirobot_counter_queue_failures_total", c.stats.failed.Load())
	metrics.WriteCounterUint64(w, "antirobot_counter_queue_refused_total", c.stats.refused.Load())
	metrics.WriteCounterUint64(w, "antirobot_counter_queue_lost_batches_total", c.stats.lost.Load())
}

// Age returns how long the oldest batch has waited; 0 without one.
func (c *Counters) Age() time.Duration {
	at := c.stats.oldest.Load()
	if at == 0 {
		return 0
	}
	return max(c.now().Sub(time.Unix(at, 0)), 0)
}
