package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"antirobot/store"
	"antirobot/verdict/counter"
)

// CounterStore counts. *counter.Shingler does.
type CounterStore interface {
	Do(ctx context.Context, b *counter.Batch) error
	DoSafely(ctx context.Context, b *counter.Batch) error
	Read(ctx context.Context, dst []uint64, q []store.Query) error
}

// Bounds of one call.
const (
	maxCounterItems = 10_000
	maxUpdateAge    = store.DaysPerFortnight * 24 * time.Hour
	maxUpdateAhead  = 10 * time.Minute
)

// counted names a counter: what all items have.
type counted struct {
	Prefix  string  `json:"prefix"`
	Type    *uint16 `json:"type"`
	Shingle string  `json:"shingle"` // 16 hex digits
	Text    *string `json:"text"`    // instead of the shingle: normalised and hashed here
}

type updateItem struct {
	counted
	N  *uint64 `json:"n"`
	At string  `json:"at"`
}

type uniqueItem struct {
	counted
	Pair *struct {
		Type    *uint16 `json:"type"`
		Shingle string  `json:"shingle"`
		Text    *string `json:"text"`
	} `json:"pair"`
	At string `json:"at"`
}

type queryItem struct {
	counted
	Key  string  `json:"key"` // the printed form, instead of all else
	Unit string  `json:"unit"`
	From *uint32 `json:"from"`
	To   *uint32 `json:"to"`
	Last *uint32 `json:"last"`
}

// updateCounters makes the updates of a call, and answers its queries from before them.
func (s *gatewayCalls) updateCounters(c *call) (any, error) {
	var in struct {
		Prefix  string            `json:"prefix"`
		Uniques []json.RawMessage `json:"uniques"`
		Updates []json.RawMessage `json:"updates"`
		Queries []json.RawMessage `json:"queries"`
	}
	if err := decode(c.RequestCtx, &in); err != nil {
		return nil, err
	}
	if n := len(in.Uniques) + len(in.Updates) + len(in.Queries); n == 0 || n > maxCounterItems {
		return nil, badField("updates", "a call has 1 to %d uniques, updates and queries; this one has %d",
			maxCounterItems, n)
	}
	p := itemParser{now: s.now(), prefix: in.Prefix}
	var b counter.Batch
	var err error
	if b.Uniques, err = parseItems("uniques", in.Uniques, p.unique); err != nil {
		return nil, err
	}
	if b.Adds, err = parseItems("updates", in.Updates, p.update); err != nil {
		return nil, err
	}
	if b.Queries, err = parseItems("queries", in.Queries, p.query); err != nil {
		return nil, err
	}
	do := s.deps.Counters.Do
	switch wait := string(c.QueryArgs().Peek("wait")); wait {
	case "":
	case "durable":
		do = s.deps.Counters.DoSafely
	default:
		return nil, badField("wait", "the only value is durable, not %.80q", wait)
	}
	if err := do(c.work, &b); err != nil {
		return nil, storeFailed(err)
	}
	return struct {
		Updated int      `json:"updated"`
		Before  []uint64 `json:"before,omitempty"`
	}{len(b.Uniques) + len(b.Adds), b.Before}, nil
}

func (s *gatewayCalls) readCounters(c *call) (any, error) {
	var in struct {
		Prefix  string            `json:"prefix"`
		Queries []json.RawMessage `json:"queries"`
	}
	if err := decode(c.RequestCtx, &in); err != nil {
		return nil, err
	}
	if n := len(in.Queries); n == 0 || n > maxCounterItems {
		return nil, badField("queries", "a call has 1 to %d queries; this one has %d", maxCounterItems, n)
	}
	p := itemParser{now: s.now(), prefix: in.Prefix}
	queries, err := parseItems("queries", in.Queries, p.query)
	if err != nil {
		return nil, err
	}
	counts := make([]uint64, len(queries))
	if err := s.deps.Counters.Read(c.work, counts, queries); err != nil {
		return nil, storeFailed(err)
	}
	return struct {
		Counts []uint64 `json:"counts"`
	}{counts}, nil
}

func storeFailed(err error) *problem {
	if errors.Is(err, store.ErrPrefix) { // each is well-formed: there are too many of them
		return &problem{status: statusFull, Code: "full", Message: err.Error() +
			": so many different prefixes are not kept apart; they are for services, not for data"}
	}
	return &problem{
		status: statusUnavailable, Code: "store_failed",
		Message: "the store failed: reads have no answer, pairs may or may not be counted, plain updates are: " +
			err.Error(),
	}
}

// parseItems reads every item of a list; an error names the item and its field.
func parseItems[T any](list string, raw []json.RawMessage, parse func(json.RawMessage) (T, *problem)) ([]T, error) {
	items := make([]T, len(raw))
	for i := range raw {
		var p *problem
		if items[i], p = parse(raw[i]); p != nil {
			at := fmt.Sprintf("%s[%d]", list, i)
			if p.Field != "" {
				at += "." + strings.TrimPrefix(p.Field, "counted.") // the decoder names the embedded struct
			}
			p.Field = at
			return nil, p
		}
	}
	return items, nil
}

// itemParser reads the items of one call.
type itemParser struct {
	now    time.Time
	prefix string // of items that have none
}

func decodeItem(raw json.RawMessage, v any) *problem {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return decodeProblem(err)
	}
	return nil
}

func (p *itemParser) update(raw json.RawMessage) (d store.Delta, bad *problem) {
	var in updateItem
	if bad = decodeItem(raw, &in); bad != nil {
		return d, bad
	}
	if d.Counter, bad = p.counter(&in.counted); bad != nil {
		return d, bad
	}
	d.N = 1
	if in.N != nil {
		d.N = *in.N
	}
	d.Slot, bad = p.slot(in.At)
	return d, bad
}

func (p *itemParser) unique(raw json.RawMessage) (u store.Unique, bad *problem) {
	var in uniqueItem
	if bad = decodeItem(raw, &in); bad != nil {
		return u, bad
	}
	if u.Counter, bad = p.counter(&in.counted); bad != nil {
		return u, bad
	}
	if in.Pair == nil {
		return u, badField("pair", "a unique needs the pair that it is counted with: {\"type\":…,\"shingle\":…}")
	}
	pair, bad := shingleOf(in.Pair.Type, in.Pair.Shingle, in.Pair.Text)
	if bad != nil {
		bad.Field = "pair." + bad.Field
		return u, bad
	}
	u.PairType, u.Pair = pair.Type, pair.Hash
	u.Slot, bad = p.slot(in.At)
	return u, bad
}

func (p *itemParser) query(raw json.RawMessage) (q store.Query, bad *problem) {
	var in queryItem
	if bad = decodeItem(raw, &in); bad != nil {
		return q, bad
	}
	if in.Key != "" {
		k, err := counter.ParseKey(in.Key)
		if err != nil {
			return q, badField("key", "%v; it looks like mass_in_5791f8cac2b7d8dd_14_10m_2831519", err)
		}
		return store.Query{Counter: k.Counter, Unit: k.Unit, From: k.Number, To: k.Number}, nil
	}
	if q.Counter, bad = p.counter(&in.counted); bad != nil {
		return q, bad
	}
	switch in.Unit {
	case "10m":
		q.Unit = store.TenMinutes
	case "1d":
		q.Unit = store.Day
	default:
		return q, badField("unit", "%q is neither 10m nor 1d", clipped(in.Unit))
	}
	now := q.Unit.Number(p.now)
	switch {
	case in.Last != nil && (in.From != nil || in.To != nil):
		return q, badField("last", "give either last or from and to")
	case in.Last != nil && (*in.Last < 1 || *in.Last > q.Unit.Kept()):
		return q, badField("last", "%d is not between 1 and %d", *in.Last, q.Unit.Kept())
	case in.Last != nil:
		q.To = now
		q.From = now - min(now, *in.Last-1)
	case in.From == nil && in.To == nil:
		q.From, q.To = now, now
	case in.From == nil || in.To == nil:
		return q, badField("from", "from and to go together: numbers of periods, both included")
	default:
		q.From, q.To = *in.From, *in.To
	}
	if err := q.Valid(); err != nil {
		return q, badField("from", "%v", err)
	}
	return q, nil
}

func (p *itemParser) counter(in *counted) (store.Counter, *problem) {
	prefix := in.Prefix
	if prefix == "" {
		prefix = p.prefix
	}
	if !counter.ValidPrefix(prefix) {
		return store.Counter{}, badField("prefix", "%q: a prefix is 1 to %d letters, digits, _, - and .",
			clipped(prefix), store.MaxPrefix)
	}
	sh, bad := shingleOf(in.Type, in.Shingle, in.Text)
	return store.Counter{Prefix: prefix, Shingle: sh.Hash, Type: sh.Type}, bad
}

func shingleOf(typ *uint16, hex string, text *string) (sh counter.Shingle, bad *problem) {
	if typ == nil {
		return sh, badField("type", "a number below 65536 that says what is counted; docs/api.md has the table")
	}
	sh.Type = *typ
	switch {
	case (hex == "") == (text == nil):
		return sh, badField("shingle", "give either shingle (16 hex digits) or text")
	case text != nil:
		var room [1]counter.Shingle
		all, err := counter.Shingles(room[:0], []counter.Piece{{Type: *typ, Text: *text}})
		if err != nil {
			return sh, badField("text", "%v", err)
		}
		return all[0], nil
	}
	n, err := strconv.ParseUint(hex, 16, 64)
	if err != nil || len(hex) != 16 {
		return sh, badField("shingle", "%q is not 16 hex digits", clipped(hex))
	}
	sh.Hash = n
	return sh, nil
}

func (p *itemParser) slot(at string) (uint32, *problem) {
	if at == "" {
		return store.TenMinutes.Number(p.now), nil
	}
	t, err := time.Parse(time.RFC3339, at)
	switch {
	case err != nil:
		return 0, badField("at", "%q is no time of RFC 3339 such as 2026-01-02T15:04:05Z", clipped(at))
	case t.After(p.now.Add(maxUpdateAhead)):
		return 0, badField("at", "%s lies in the future", at)
	case t.Before(p.now.Add(-maxUpdateAge)):
		return 0, badField("at", "%s is longer ago than counts are kept", at)
	}
	return store.TenMinutes.Number(t), nil
}

// clipped keeps what an error repeats short.
func clipped(s string) string {
	if len(s) > 80 {
		return s[:80] + "…"
	}
	return s
}
