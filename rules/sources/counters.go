// Package sources provides the surroundings of rules for requests and messages: counters, lists, models from files,
// and storages. Everything is safe for concurrent use, except Once.
package sources

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"antirobot/rules"
	"antirobot/rules/texts"
	"antirobot/store"
	"antirobot/verdict/counter"
)

// Shingler is what Counters needs of *counter.Shingler.
type Shingler interface {
	Read(ctx context.Context, dst []uint64, q []store.Query) error
	Add(d store.Delta)
	AddUnique(ctx context.Context, u []store.Unique) error
}

// Counters gives rules the gateway's counters, those of the API. Safe for concurrent use.
type Counters struct {
	shingler Shingler
	now      func() time.Time
}

// NewCounters returns the counters of s.
func NewCounters(s Shingler, now func() time.Time) *Counters {
	if now == nil {
		now = time.Now
	}
	return &Counters{s, now}
}

// counter hashes a value as the API does.
func (c *Counters) counter(k rules.Counter, v rules.Value) (store.Counter, error) {
	if !counter.ValidPrefix(k.Prefix) {
		return store.Counter{}, rules.Faultf(rules.CodeType,
			"%.80q is not a prefix of counters: letters, digits, _, - and .", k.Prefix)
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

// Count implements rules.CounterSource. Of several links it returns the greatest count.
func (c *Counters) Count(ctx context.Context, k rules.Counter) (most uint64, err error) {
	err = c.each(k, func(n store.Counter) error {
		var count [1]uint64
		err := c.shingler.Read(ctx, count[:], []store.Query{c.query(n, k.Period)})
		most = max(most, count[0])
		return unread(err)
	})
	return most, err
}

var readers = sync.Pool{New: func() any { return new(texts.Reader) }}

// each calls f with the counter of a value, or of each link in a text under the type of links or hosts.
func (c *Counters) each(k rules.Counter, f func(n store.Counter) error) error {
	if k.Type != counter.TypeLink && k.Type != counter.TypeHost || k.Value.Kind != rules.Text ||
		wholeAddress(k.Type, k.Value.Text) {
		n, err := c.counter(k, k.Value)
		if err != nil {
			return err
		}
		return f(n)
	}
	r, ok := readers.Get().(*texts.Reader)
	if !ok {
		panic("BUG: the pool holds something else")
	}
	defer func() {
		r.Forget()
		readers.Put(r)
	}()
	var done []store.Counter
	for _, l := range r.Links(k.Value.Text) {
		text := l.Host
		if k.Type == counter.TypeLink {
			text += l.Path
		}
		n, err := c.counter(k, rules.Value{Kind: rules.Text, Text: text})
		if err != nil || slices.Contains(done, n) {
			continue // not a link after all
		}
		if err := f(n); err != nil {
			return err
		}
		done = append(done, n)
	}
	return nil
}

func wholeAddress(typ uint16, text string) bool {
	text = strings.TrimSpace(text)
	i := strings.IndexAny(text, ".:")
	if i <= 0 || i == len(text)-1 || strings.ContainsFunc(text, unicode.IsSpace) || typ == counter.TypeHost &&
		strings.Contains(text, "/") {
		return false
	}
	var room [1]counter.Shingle
	_, err := counter.Shingles(room[:0], []counter.Piece{{Type: counter.TypeLink, Text: text}})
	return err == nil
}

func unread(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("read counters: %w", err)
}

var marked = [...]uint16{
	rules.JudgedGood: counter.TypeJudgedGood, rules.JudgedBad: counter.TypeJudgedBad,
	rules.MarkedSpam: counter.TypeMarkedSpam, rules.MarkedGood: counter.TypeMarkedGood,
}

// Share implements rules.CounterSource. Of several links the worst counts.
func (c *Counters) Share(ctx context.Context, k rules.Counter) (bad, judged uint64, err error) {
	err = c.each(k, func(n store.Counter) error {
		var counts [len(marked)]uint64
		var queries [len(marked)]store.Query
		for i, t := range marked {
			n.Type = t
			queries[i] = c.query(n, k.Period)
		}
		if err := c.shingler.Read(ctx, counts[:], queries[:]); err != nil {
			return unread(err)
		}
		ofBad := store.AddCounts(counts[rules.JudgedBad], counts[rules.MarkedSpam])
		all := store.AddCounts(ofBad, store.AddCounts(counts[rules.JudgedGood], counts[rules.MarkedGood]))
		if judged == 0 || ofBad > bad {
			bad, judged = ofBad, all
		}
		return nil
	})
	return bad, judged, err
}

// Add implements rules.CounterSource.
func (c *Counters) Add(_ context.Context, k rules.Counter, n uint64) error {
	return c.each(k, func(name store.Counter) error {
		c.shingler.Add(store.Delta{Counter: name, Slot: store.TenMinutes.Number(c.now()), N: n})
		return nil
	})
}

// Mark implements rules.CounterSource.
func (c *Counters) Mark(_ context.Context, k rules.Counter, as rules.Marker) error {
	return c.each(k, func(name store.Counter) error {
		name.Type = marked[as]
		c.shingler.Add(store.Delta{Counter: name, Slot: store.TenMinutes.Number(c.now()), N: 1})
		return nil
	})
}

// AddPair implements rules.CounterSource.
func (c *Counters) AddPair(ctx context.Context, k rules.Counter, unique rules.Value) error {
	of := textOf(k.Value)
	k.Value = unique
	return c.each(k, func(grows store.Counter) error {
		// A pair is a text of two, which has no normal form of its type.
		text := strconv.FormatUint(grows.Shingle, 16) + "\x00" + of
		pair, err := c.counter(rules.Counter{Prefix: k.Prefix, Type: counter.TypePair},
			rules.Value{Kind: rules.Text, Text: text})
		if err != nil {
			return err
		}
		u := store.Unique{Counter: grows, PairType: k.Type, Pair: pair.Shingle, Slot: store.TenMinutes.Number(c.now())}
		if err := c.shingler.AddUnique(ctx, []store.Unique{u}); err != nil {
			return fmt.Errorf("count a pair: %w", err)
		}
		return nil
	})
}
