package message

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"antirobot/rules"
)

// Query says which entries of a range a search finds. Empty fields are no condition.
type Query struct {
	Range
	Text string // is in one of the texts, without case
	Tag  string
	// Newest turns the order round: with a limit the last entries are found.
	Newest bool
}

// search returns the entries that fit a query, ordered by time; with a limit, the first ones.
func (l *messageLog) search(ctx context.Context, q Query) ([]Entry, error) {
	limit := q.Limit
	q.Limit = 0
	all, err := l.fetch(ctx, q.Range)
	if err != nil {
		return nil, err
	}
	text := strings.ToLower(q.Text)
	out := slices.DeleteFunc(all, func(e Entry) bool {
		return q.Tag != "" && !slices.Contains(e.Tags, q.Tag) || text != "" && !e.Message.contains(text)
	})
	if q.Newest {
		slices.Reverse(out)
	}
	if limit > 0 && len(out) > limit {
		out = out[:limit]
	}
	return out, nil
}

// contains says whether a text of m contains s, which is in lower case.
func (m *Message) contains(s string) bool {
	return slices.ContainsFunc(m.attributes, func(a attribute) bool {
		return a.Value.Kind == rules.Text && strings.Contains(strings.ToLower(a.Value.Text), s)
	})
}

// Range says which entries are wanted; both ends are inclusive. The zero value wants all.
type Range struct {
	First, Last time.Time // zero: no bound
	FirstID     int64
	Limit       int // 0: no limit
}

// fetch returns the entries of a range, ordered by time; with a limit, the first ones.
func (l *messageLog) fetch(ctx context.Context, r Range) ([]Entry, error) {
	if err := l.flush(ctx); err != nil {
		return nil, err
	}
	oldest := l.oldest()
	var out []Entry
	err := l.store.Scan(ctx, l.key("b"), func(k, v []byte, _ time.Duration) error {
		if len(k) != len(l.prefix)+1+8+8+4 || len(v) < 8 || l.chunkOf(k) < oldest {
			return nil
		}
		from := time.Unix(0, l.chunkOf(k)*int64(l.chunk))
		if !r.Last.IsZero() && from.After(r.Last) || !r.First.IsZero() && from.Add(l.chunk).Before(r.First) {
			return nil
		}
		for v = v[8:]; len(v) > 0; {
			e, rest, err := readEntry(v)
			if err != nil {
				return err
			}
			v = rest
			if e.ID >= r.FirstID && (r.First.IsZero() || !e.When.Before(r.First)) && (r.Last.IsZero() || !e.When.After(r.Last)) {
				out = append(out, e)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read a message log: %w", err)
	}
	slices.SortFunc(out, func(a, b Entry) int { return cmp.Or(a.When.Compare(b.When), cmp.Compare(a.ID, b.ID)) })
	if r.Limit > 0 && len(out) > r.Limit {
		out = out[:r.Limit]
	}
	return out, nil
}
