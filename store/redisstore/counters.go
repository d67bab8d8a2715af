package redisstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/rueidis"

	"antirobot/store"
)

// Counters has a hash for each record, with the periods as fields. A record expires once no query can ask for it.
//
// A counter costs about 145 bytes of the servers' memory: this is for millions. docs/scaling.md covers billions.
type Counters struct{ s *Store }

var _ store.Repeatable = (*Counters)(nil)

// Counters returns the counts. They are closed with the store.
func (s *Store) Counters() *Counters { return &Counters{s} }

// Shared implements store.Repeatable.
func (c *Counters) Shared() bool { return true }

// Healthy returns nil if the servers accept updates.
func (c *Counters) Healthy() error { return c.s.serves() }

// Drop implements store.Records: the servers drop records by themselves, by their own clock.
func (c *Counters) Drop(ctx context.Context, _ store.Period) error { return c.s.ready(ctx, 0) }

// Sync implements store.Records. Replicas are not waited for.
func (c *Counters) Sync(ctx context.Context) error { return c.s.ready(ctx, 0) }

// record returns the key of a counter's record, and its tag. Parts of fixed length come first, so that names are
// unambiguous.
func (c *Counters) record(u store.Unit, number uint32, k *store.Counter) (key string, tag uint64) {
	var room [160]byte
	body := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint16(room[:0], k.Type), k.Shingle)
	body = append(body, k.Prefix...)
	tag = hash(body) % tags
	dst := c.s.appendHead(make([]byte, 0, len(c.s.cfg.KeyPrefix)+16+len(body)), tag, letterCnt)
	dst = binary.BigEndian.AppendUint32(append(dst, 'A'+byte(u)), number)
	return string(append(dst, body...)), tag
}

const (
	// keepSlack is how many seconds a record outlives its last query, for clocks that differ.
	keepSlack = 3600
	// maxLife bounds a record's life: some servers count expiries in 32 bits.
	maxLife = 5 * 365 * 86400
)

// life returns how many seconds a record stays useful. A past record lives as long as a current one.
func life(u store.Unit, record uint32, now int64) int64 {
	length := u.Seconds() * int64(u.PerRecord())
	kept := u.Seconds() * int64(u.Kept())
	return min(max((int64(record)+1)*length+kept-now, kept)+keepSlack, maxLife)
}

type increment struct {
	key   string
	tag   uint64
	field string
	n     int64
	ttl   int64 // seconds
}

// increments returns the increments for a counter's ten minutes and day.
func (c *Counters) increments(k *store.Counter, slot uint32, n uint64, now int64) []increment {
	day := slot / store.SlotsPerDay
	fortnight := day / store.DaysPerFortnight
	fine, tag := c.record(store.TenMinutes, day, k)
	daily, _ := c.record(store.Day, fortnight, k)
	add := int64(min(n, store.MaxCount)) //nolint:gosec // bounded
	return []increment{
		{fine, tag, decimal(int64(slot % store.SlotsPerDay)), add, life(store.TenMinutes, day, now)},
		{daily, tag, decimal(int64(day % store.DaysPerFortnight)), add, life(store.Day, fortnight, now)},
	}
}

// The steps of a batch. Each records its own progress: a unique may be on another server than its pair.
const (
	stepPairs   = "p"
	stepUniques = "u"
	stepAdds    = "a"
)

// Count implements store.Repeatable. One script makes the increments of a step that share a tag, and records the
// batch's number and the pairs that were zero: a repeated step gets the same answer.
func (c *Counters) Count(ctx context.Context, b *store.Batch) error {
	if err := c.s.ready(ctx, 0); err != nil {
		return err
	}
	if err := b.Valid(); err != nil {
		return err
	}
	now := c.s.deps.Now().Unix()
	if len(b.Uniques) > 0 {
		incs := make([]increment, 0, 2*len(b.Uniques))
		for i := range b.Uniques {
			pair := b.Uniques[i].PairCounter()
			incs = append(incs, c.increments(&pair, b.Uniques[i].Slot, 1, now)...)
		}
		fresh, err := c.countStep(ctx, b, stepPairs, incs)
		if err != nil {
			return err
		}
		if _, err := c.countStep(ctx, b, stepUniques, c.growing(b.Uniques, now, fresh)); err != nil {
			return err
		}
	}
	incs := make([]increment, 0, 2*len(b.Adds))
	for i := range b.Adds {
		if d := &b.Adds[i]; d.N > 0 {
			incs = append(incs, c.increments(&d.Counter, d.Slot, d.N, now)...)
		}
	}
	_, err := c.countStep(ctx, b, stepAdds, incs)
	return err
}

// growing returns the increments of uniques with new pairs; fresh has two flags for each pair.
func (c *Counters) growing(u []store.Unique, now int64, fresh []bool) (grow []increment) {
	for i := range u {
		if !fresh[2*i] && !fresh[2*i+1] {
			continue // the usual case: the pair is known
		}
		for j, in := range c.increments(&u[i].Counter, u[i].Slot, 1, now) {
			if fresh[2*i+j] {
				grow = append(grow, in)
			}
		}
	}
	return grow
}

// together is how many scripts share a timeout: servers that keep counts on disk are slow.
const together = 32

// countStep makes the increments of a step; for pairs it returns which found nothing.
func (c *Counters) countStep(ctx context.Context, b *store.Batch, step string, incs []increment) (fresh []bool,
	err error,
) {
	var byTag [tags][]int
	for i := range incs {
		byTag[incs[i].tag] = append(byTag[incs[i].tag], i)
	}
	var calls []call
	var members [][]int
	for tag, of := range byTag {
		if len(of) > 0 {
			calls = append(calls, c.stepCall(b, step, uint64(tag), incs, of))
			members = append(members, of)
		}
	}
	fresh = make([]bool, len(incs))
	for from := 0; from < len(calls); from += together {
		results, err := c.s.runMany(ctx, calls[from:min(from+together, len(calls))])
		if err != nil {
			return nil, err
		}
		for i := range results {
			text, err := results[i].ToString()
			if err != nil {
				return nil, c.s.failed(err)
			}
			for j := range text {
				fresh[members[from+i][j]] = text[j] == '1'
			}
		}
	}
	return fresh, nil
}

func (c *Counters) stepCall(b *store.Batch, step string, tag uint64, incs []increment, of []int) call {
	numbers := string(strconv.AppendUint(c.s.appendHead(nil, tag, letterNum), b.Writer, 16))
	do := call{
		script: c.s.scripts.count,
		keys:   append(make([]string, 0, 1+len(of)), numbers),
		args:   append(make([]string, 0, 2+3*len(of)), strconv.FormatUint(b.Number, 10), step),
	}
	for _, i := range of {
		in := &incs[i]
		do.keys = append(do.keys, in.key)
		do.args = append(do.args, in.field, decimal(in.n), decimal(in.ttl))
	}
	return do
}

const pipeline = 4096

// ReadRecords implements store.Records.
func (c *Counters) ReadRecords(ctx context.Context, r []store.Record, f func(i int, counts []store.Count)) error {
	if err := c.s.ready(ctx, 0); err != nil {
		return err
	}
	if err := store.ValidRecords(r); err != nil {
		return err
	}
	first := 0
	for chunk := range slices.Chunk(r, pipeline) {
		if err := c.readRecords(ctx, chunk, func(i int, n []store.Count) { f(first+i, n) }); err != nil {
			return err
		}
		first += len(chunk)
	}
	return nil
}

func (c *Counters) readRecords(ctx context.Context, r []store.Record, f func(i int, counts []store.Count)) error {
	results, err := c.s.doMulti(ctx, len(r), func(cl rueidis.Client, i int) rueidis.Completed {
		key, _ := c.record(r[i].Unit, r[i].Number, &r[i].Counter)
		return cl.B().Hgetall().Key(key).Build()
	})
	if err != nil {
		return err
	}
	var counts []store.Count
	for i := range results {
		fields, err := results[i].AsStrMap()
		if err != nil {
			return c.s.failed(err)
		}
		counts = counts[:0]
		for period, n := range fields {
			p, err1 := strconv.ParseUint(period, 10, 8)
			v, err2 := strconv.ParseUint(n, 10, 63)
			if err := errors.Join(err1, err2); err != nil {
				return fmt.Errorf("redis: a record is malformed: %w", err)
			}
			counts = append(counts, store.Count{N: v, Period: uint8(p)})
		}
		slices.SortFunc(counts, func(a, b store.Count) int { return int(a.Period) - int(b.Period) })
		f(i, counts)
	}
	return nil
}
