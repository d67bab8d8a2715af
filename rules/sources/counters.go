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

// Count implements rules.CounterSource. Of several links in a text it returns the greatest count, or the worst share.
func (c *Counters) Count(ctx context.Context, u rules.CounterUse) (n, of uint64, err error) {
	slot := store.TenMinutes.Number(c.now())
	switch u.Op {
	case rules.CountRead:
		err = c.each(u.Counter, func(k store.Counter) error {
			var count [1]uint64
			err := c.shingler.Read(ctx, count[:], []store.Query{c.query(k, u.Period)})
			n = max(n, count[0])
			return unread(err)
		})
	case rules.CountShare:
		err = c.each(u.Counter, func(k store.Counter) error {
			bad, judged, err := c.share(ctx, k, u.Period)
			if of == 0 || bad > n {
				n, of = bad, judged
			}
			return err
		})
	case rules.CountPair:
		pair := textOf(u.Value)
		u.Value = u.Unique
		err = c.each(u.Counter, func(k store.Counter) error { return c.addPair(ctx, k, pair, slot) })
	default:
		err = c.each(u.Counter, func(k store.Counter) error {
			d := store.Delta{Counter: k, Slot: slot, N: u.N}
			if u.Op == rules.CountMark {
				d.Type, d.N = marked[u.As], 1
			}
			c.shingler.Add(d)
			return nil
		})
	}
	return n, of, err
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

func (c *Counters) share(ctx context.Context, k store.Counter, period time.Duration) (bad, judged uint64, err error) {
	var counts [len(marked)]uint64
	var queries [len(marked)]store.Query
	for i, t := range marked {
		k.Type = t
		queries[i] = c.query(k, period)
	}
	if err := c.shingler.Read(ctx, counts[:], queries[:]); err != nil {
		return 0, 0, unread(err)
	}
	bad = store.AddCounts(counts[rules.JudgedBad], counts[rules.MarkedSpam])
	return bad, store.AddCounts(bad, store.AddCounts(counts[rules.JudgedGood], counts[rules.MarkedGood])), nil
}

// addPair counts a pair, which is a text of two and has no normal form of its type.
func (c *Counters) addPair(ctx context.Context, grows store.Counter, of string, slot uint32) error {
	text := strconv.FormatUint(grows.Shingle, 16) + "\x00" + of
	pair, err := c.counter(rules.Counter{Prefix: grows.Prefix, Type: counter.TypePair},
		rules.Value{Kind: rules.Text, Text: text})
	if err != nil {
		return err
	}
	u := store.Unique{Counter: grows, PairType: grows.Type, Pair: pair.Shingle, Slot: slot}
	if err := c.shingler.AddUnique(ctx, []store.Unique{u}); err != nil {
		return fmt.Errorf("count a pair: %w", err)
	}
	return nil
}
