package verdict

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"antirobot/store"
	"antirobot/verdict/replicate"
)

// Where gateways and processors are different processes, the processors' decisions reach the gateways over the store's
// feed: bans in their own topic, everything else in decisionTopic. A gateway that starts reads what the topic still has.

const (
	decisionTopic = "decisions"
	publishQueue  = 1 << 14
	publishBatch  = 32 << 10 // bytes of a message
)

// The kinds of records.
const (
	recordExcess     = 'q'
	recordDoubt      = 'd'
	recordReputation = 's'
	recordCampaign   = 'c'
	recordPlace      = 'm'
	recordReader     = 'l'
	recordBeat       = 'h'
)

// Part is the share of the work that a process does.
type Part uint8

// The parts.
const (
	PartAll       Part = iota
	PartGateway        // decides, and applies the decisions of others
	PartProcessor      // judges, and publishes its decisions
)

// feed publishes records to gateways. Safe for concurrent use.
type feed struct {
	*clock
	applies   bool
	queue     chan []byte // nil: nothing is published
	dropped   atomic.Uint64
	published atomic.Uint64
	applied   atomic.Uint64
}

func newFeed(c *clock, part Part) *feed {
	f := &feed{clock: c, applies: part == PartGateway}
	if part == PartProcessor {
		f.queue = make(chan []byte, publishQueue)
	}
	return f
}

// register adds the metrics of what this process does.
func (f *feed) register(gauge func(name string, f func() float64)) {
	count := func(name string, n *atomic.Uint64) { gauge(name, func() float64 { return float64(n.Load()) }) }
	if f.queue != nil {
		count("antirobot_conclusions_told_total", &f.published)
		count("antirobot_conclusions_dropped_total", &f.dropped)
	}
	if f.applies {
		count("antirobot_conclusions_heard_total", &f.applied)
	}
}

// coder is a record of the feed.
type coder interface{ code(c *replicate.Codec) }

// publish passes a record on; it never waits.
func (f *feed) publish(kind byte, x coder) {
	if f.queue == nil {
		return
	}
	c := replicate.Writer(nil, f.skewNow())
	x.code(c)
	f.publishRecord(kind, c.Bytes())
}

func (f *feed) publishRecord(kind byte, record []byte) {
	select {
	case f.queue <- replicate.Append(nil, kind, record):
		f.published.Add(1)
	default:
		f.dropped.Add(1)
	}
}

// run writes records to the store until ctx ends, and then the rest. A message that the store does not take is tried
// again; meanwhile the queue fills.
func (f *feed) run(ctx context.Context) {
	for {
		var msg []byte
		select {
		case msg = <-f.queue:
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.Background(), closePatience)
			defer cancel()
			for len(f.queue) > 0 && f.st.Append(last, decisionTopic, f.more(nil)) == nil {
			}
			return
		}
		msg = f.more(msg)
		for f.st.Append(ctx, decisionTopic, msg) != nil && ctx.Err() == nil {
			store.Pause(ctx, followPause)
		}
	}
}

// more appends records that wait, up to a message's length.
func (f *feed) more(msg []byte) []byte {
	for len(msg) < publishBatch {
		select {
		case next := <-f.queue:
			msg = append(msg, next...)
		default:
			return msg
		}
	}
	return msg
}

// follow applies the records of processors until ctx ends: first those that the topic still has, then new ones.
func (f *feed) follow(ctx context.Context, apply func(msg []byte)) {
	from := "0"
	for ctx.Err() == nil {
		err := f.st.Follow(ctx, decisionTopic, from, func(pos string, msg []byte) error {
			from = pos
			apply(msg)
			return nil
		})
		if errors.Is(err, store.ErrGap) || errors.Is(err, store.ErrPosition) {
			from = "0"
		}
		store.Pause(ctx, followPause)
	}
}

// beat says that a processor works, and how old the events are that it judges.
type beat struct {
	at  time.Time
	age time.Duration
}

func (b *beat) code(c *replicate.Codec) {
	age := uint64(max(b.age, 0)) //nolint:gosec // not negative
	c.Time(&b.at)
	replicate.Uint(c, &age)
	b.age = time.Duration(age & (1<<63 - 1)) //nolint:gosec // not negative
}
