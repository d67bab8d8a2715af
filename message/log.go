package message

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"antirobot/rules"
	"antirobot/store"
)

// Entry is a judged message in a log.
type Entry struct {
	ID      int64
	When    time.Time
	Tags    []string
	Message *Message
	Opinion *Opinion
}

// messageLog is a ring of judged messages in the store: of the chunks of time the last numChunks are kept, so an
// entry lives for chunk × (numChunks−1) at least. Entries are written in batches, each an expiring key. Safe for
// concurrent use.
type messageLog struct {
	store     store.Store
	prefix    []byte
	chunk     time.Duration
	numChunks int64
	maxKept   int64
	now       func() time.Time
	node      uint32

	mu      sync.Mutex
	batch   []byte
	chunkNo int64
	first   int64
	pending int64
	nextID  int64
	lastID  int64
	last    time.Time

	writing sync.Mutex
	stored  []storedBatch
	kept    int64
}

type storedBatch struct {
	key     string
	entries int64
}

const (
	// idBlock ids are reserved at a time in an unshared store. Several gateways take them one by one, so that ids
	// follow time.
	idBlock = 1024
	// maxBatch bytes are written at once.
	maxBatch = 256 << 10
)

func newLog(st store.Store, prefix string, cfg PropertyConfig, node uint32, now func() time.Time) *messageLog {
	return &messageLog{
		store: st, prefix: []byte(prefix), chunk: cfg.TimeChunk, numChunks: int64(cfg.NumChunks),
		maxKept: maxLogEntries, node: node, now: now, nextID: 1,
	}
}

func (l *messageLog) open(ctx context.Context) error {
	err := l.store.Scan(ctx, l.key("b"), func(k, v []byte, _ time.Duration) error {
		if len(v) < 8 {
			return nil
		}
		n := int64(binary.BigEndian.Uint64(v))
		l.stored = append(l.stored, storedBatch{string(k), n})
		l.kept += n
		return nil
	})
	slices.SortFunc(l.stored, func(a, b storedBatch) int { return cmp.Compare(a.key, b.key) })
	return err
}

func (l *messageLog) key(part string) []byte {
	return append(append(make([]byte, 0, len(l.prefix)+len(part)+20), l.prefix...), part...)
}

func (l *messageLog) reserve(ctx context.Context, n int64) (int64, error) {
	end, err := l.store.Incr(ctx, l.key("id"), n, 0)
	if err != nil {
		return 0, fmt.Errorf("take ids of a log: %w", err)
	}
	return end - n + 1, nil
}

func (l *messageLog) id(ctx context.Context) (int64, error) {
	if l.nextID > l.lastID {
		first, err := l.reserve(ctx, idBlock)
		if err != nil {
			return 0, err
		}
		l.nextID, l.lastID = first, first+idBlock-1
	}
	l.nextID++
	return l.nextID - 1, nil
}

func (l *messageLog) put(ctx context.Context, m *Message, tag string, r *rules.Run, o *Opinion) error {
	var id int64
	var err error
	if l.store.Shared() { // a round trip, so mu is not held
		if id, err = l.reserve(ctx, 1); err != nil {
			return err
		}
	}
	full, err := l.append(ctx, id, m, tag, r, o)
	for _, b := range full {
		err = errors.Join(err, l.write(ctx, b))
	}
	return err
}

func (l *messageLog) append(ctx context.Context, id int64, m *Message, tag string, r *rules.Run,
	o *Opinion,
) (full []*batch, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if id == 0 {
		if id, err = l.id(ctx); err != nil {
			return nil, err
		}
	}
	at := l.now()
	if at.Before(l.last) {
		at = l.last // ids follow time, also when the clock is set back
	}
	l.last = at
	no := at.UnixNano() / int64(l.chunk)
	if l.pending > 0 && no != l.chunkNo {
		full = append(full, l.take())
	}
	if l.pending == 0 {
		l.first, l.chunkNo = id, no
	}
	if l.batch, err = appendEntry(l.batch, id, at, tag, r, m, o); err != nil {
		return full, err
	}
	if l.pending++; len(l.batch) >= maxBatch {
		full = append(full, l.take())
	}
	return full, nil
}

type batch struct {
	key     []byte
	value   []byte
	entries int64
}

func (l *messageLog) take() *batch {
	if l.pending == 0 {
		return nil
	}
	key := binary.BigEndian.AppendUint64(l.key("b"), uint64(l.chunkNo))
	key = binary.BigEndian.AppendUint64(key, uint64(l.first))
	key = binary.BigEndian.AppendUint32(key, l.node)
	value := binary.BigEndian.AppendUint64(make([]byte, 0, len(l.batch)+8), uint64(l.pending))
	b := &batch{key, append(value, l.batch...), l.pending}
	l.batch, l.pending = l.batch[:0], 0
	return b
}

func (l *messageLog) flush(ctx context.Context) error {
	l.mu.Lock()
	b := l.take()
	l.mu.Unlock()
	return l.write(ctx, b)
}

func (l *messageLog) write(ctx context.Context, b *batch) error {
	if b == nil {
		return nil
	}
	l.writing.Lock()
	defer l.writing.Unlock()
	if err := l.store.Put(ctx, b.key, b.value, l.chunk*time.Duration(l.numChunks)); err != nil {
		return fmt.Errorf("write a message log: %w", err)
	}
	l.stored = append(l.stored, storedBatch{string(b.key), b.entries})
	l.kept += b.entries
	return l.drop(ctx)
}

func (l *messageLog) drop(ctx context.Context) error {
	oldest := l.oldest()
	for len(l.stored) > 1 {
		b := l.stored[0]
		over := l.chunkOf([]byte(b.key)) < oldest
		if !over && l.kept <= l.maxKept {
			return nil
		}
		if err := l.store.Delete(ctx, []byte(b.key)); err != nil {
			return fmt.Errorf("shorten a message log: %w", err)
		}
		l.kept -= b.entries
		l.stored = l.stored[1:]
	}
	return nil
}

func (l *messageLog) oldest() int64 { return l.now().UnixNano()/int64(l.chunk) - l.numChunks + 1 }

func (l *messageLog) chunkOf(key []byte) int64 {
	return int64(binary.BigEndian.Uint64(key[len(l.prefix)+1:]))
}

func (l *messageLog) close(ctx context.Context) error {
	err := l.flush(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if left := l.lastID - l.nextID + 1; left > 0 && !l.store.Shared() {
		_, giveBack := l.store.Incr(ctx, l.key("id"), -left, 0)
		err = errors.Join(err, giveBack)
		l.lastID = l.nextID - 1
	}
	return err
}

type storedEntry struct {
	ID         int64       `json:"id"`
	When       int64       `json:"at"`
	Tags       []string    `json:"tags,omitempty"`
	Attributes []attribute `json:"is,omitempty"`
	Opinion    *Opinion    `json:"by,omitempty"`
}

func appendEntry(dst []byte, id int64, at time.Time, tag string, r *rules.Run, m *Message, o *Opinion) ([]byte, error) {
	e := storedEntry{ID: id, When: at.UnixNano(), Attributes: m.attributes, Opinion: o}
	if tag != "" {
		e.Tags = append(e.Tags, tag)
	}
	e.Tags = r.AppendTags(e.Tags)
	line, err := json.Marshal(e)
	if err != nil {
		return dst, fmt.Errorf("write a log entry: %w", err)
	}
	return append(append(dst, line...), '\n'), nil
}

func readEntry(line []byte) (Entry, error) {
	var e storedEntry
	if err := json.Unmarshal(line, &e); err != nil {
		return Entry{}, fmt.Errorf("a log entry is not readable: %w", err)
	}
	return Entry{e.ID, time.Unix(0, e.When), e.Tags, &Message{e.Attributes}, e.Opinion}, nil
}

// Query selects entries of a range. Empty fields match everything.
type Query struct {
	Range
	Text string // contained in a text, without case
	Tag  string
	// Newest returns the last entries first.
	Newest bool
}

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

func (m *Message) contains(s string) bool {
	return slices.ContainsFunc(m.attributes, func(a attribute) bool {
		return a.Value.Kind == rules.Text && strings.Contains(strings.ToLower(a.Value.Text), s)
	})
}

// Range selects entries; both ends are inclusive, and zero fields are no bound.
type Range struct {
	First, Last time.Time
	FirstID     int64
	Limit       int
}

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
		for line := range bytes.Lines(v[8:]) {
			e, err := readEntry(line)
			if err != nil {
				return err
			}
			if e.ID >= r.FirstID && (r.First.IsZero() || !e.When.Before(r.First)) &&
				(r.Last.IsZero() || !e.When.After(r.Last)) {
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
