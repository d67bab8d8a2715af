package sources

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"antirobot/rules"
	"antirobot/store"
	"antirobot/verdict/counter"
)

// Shingler is what Counters needs of *counter.Shingler.
type Shingler interface {
	Read(ctx context.Context, dst []uint64, q []store.Query) error
	Add(d store.Delta)
	AddUnique(ctx context.Context, u []store.Unique) error
}

// Counters gives rules the gateway's counters, the same that the API reads and updates. Safe for concurrent use.
type Counters struct {
	shingler Shingler
	now      func() time.Time // nil: time.Now
}

// NewCounters returns the counters of s.
func NewCounters(s Shingler, now func() time.Time) *Counters {
	if now == nil {
		now = time.Now
	}
	return &Counters{s, now}
}

// counter returns the counter of a value under a type: hashed as the API hashes a text.
func (c *Counters) counter(k rules.Counter, v rules.Value) (store.Counter, error) {
	if !counter.ValidPrefix(k.Prefix) {
		return store.Counter{}, rules.Faultf(rules.CodeType, "%.80q is not a prefix of counters: letters, digits, _, - and .", k.Prefix)
	}
	var room [1]counter.Shingle
	sh, err := counter.Shingles(room[:0], []counter.Piece{{Type: k.Type, Text: textOf(v)}})
	if err != nil {
		return store.Counter{}, rules.Faultf(rules.CodeType, "%v", err)
	}
	return store.Counter{Prefix: k.Prefix, Shingle: sh[0].Hash, Type: k.Type}, nil
}

func textOf(v rules.Value) string {
	switch v.Kind {
	case rules.IP:
		return v.IP.String()
	case rules.Int, rules.UniqueInt:
		return strconv.FormatInt(v.Int, 10)
	default:
		return v.Text
	}
}

// query asks for the period up to now: its whole ten minutes or days, and the one that has just begun.
func (c *Counters) query(k store.Counter, period time.Duration) store.Query {
	q := store.Query{Counter: k, Unit: store.TenMinutes}
	if period%(24*time.Hour) == 0 {
		q.Unit = store.Day
	}
	q.To = q.Unit.Number(c.now())
	n := uint32(period / (time.Duration(q.Unit.Seconds()) * time.Second)) //nolint:gosec // 14 days at most
	q.From = q.To - min(n, q.To)
	return q
}

// Count is rules.Counters.
func (c *Counters) Count(ctx context.Context, k rules.Counter) (uint64, error) {
	n, err := c.counter(k, k.Value)
	if err != nil {
		return 0, err
	}
	var count [1]uint64
	err = c.shingler.Read(ctx, count[:], []store.Query{c.query(n, k.Period)})
	return count[0], unread(err)
}

func unread(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("read counters: %w", err)
}

// marked are the types of the four counters by which a value is judged, by marker.
var marked = [...]uint16{
	rules.JudgedGood: counter.TypeJudgedGood, rules.JudgedBad: counter.TypeJudgedBad,
	rules.MarkedSpam: counter.TypeMarkedSpam, rules.MarkedGood: counter.TypeMarkedGood,
}

// Share is rules.Counters.
func (c *Counters) Share(ctx context.Context, k rules.Counter) (bad, judged uint64, err error) {
	n, err := c.counter(k, k.Value)
	if err != nil {
		return 0, 0, err
	}
	var counts [len(marked)]uint64
	var queries [len(marked)]store.Query
	for i, t := range marked {
		n.Type = t
		queries[i] = c.query(n, k.Period)
	}
	if err := c.shingler.Read(ctx, counts[:], queries[:]); err != nil {
		return 0, 0, unread(err)
	}
	bad = store.AddCounts(counts[rules.JudgedBad], counts[rules.MarkedSpam])
	return bad, store.AddCounts(bad, store.AddCounts(counts[rules.JudgedGood], counts[rules.MarkedGood])), nil
}

// Add is rules.Counters.
func (c *Counters) Add(_ context.Context, k rules.Counter, n uint64) error {
	name, err := c.counter(k, k.Value)
	if err == nil {
		c.shingler.Add(store.Delta{Counter: name, Slot: store.TenMinutes.Number(c.now()), N: n})
	}
	return err
}

// Mark is rules.Counters.
func (c *Counters) Mark(_ context.Context, k rules.Counter, as rules.Marker) error {
	name, err := c.counter(k, k.Value)
	if err == nil {
		name.Type = marked[as]
		c.shingler.Add(store.Delta{Counter: name, Slot: store.TenMinutes.Number(c.now()), N: 1})
	}
	return err
}

// AddPair is rules.Counters.
func (c *Counters) AddPair(ctx context.Context, k rules.Counter, unique rules.Value) error {
	grows, err := c.counter(k, unique)
	if err != nil {
		return err
	}
	pair, err := c.counter(k, rules.Value{Kind: rules.Text, Text: textOf(unique) + "\x00" + textOf(k.Value)})
	if err != nil {
		return err
	}
	u := store.Unique{Counter: grows, PairType: k.Type, Pair: pair.Shingle, Slot: store.TenMinutes.Number(c.now())}
	if err := c.shingler.AddUnique(ctx, []store.Unique{u}); err != nil {
		return fmt.Errorf("count a pair: %w", err)
	}
	return nil
}
