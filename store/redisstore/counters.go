package redisstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"antirobot/store"
)

// Counters is the store's counts: a hash for each record, with the periods as its fields. A record expires once no query
// can ask for it any more. Records that Drop drops earlier get other names from then on (see name), and expire unseen.
//
// A counter costs about 145 bytes of the servers' memory, so this is for millions of them. docs/scaling.md
// says what to do with billions.
type Counters struct {
	s *Store
}

var _ store.Repeatable = (*Counters)(nil)

// Counters returns the counts. They are closed with the store.
func (s *Store) Counters() *Counters { return &Counters{s} }

// Shared reports that other nodes count there too.
func (c *Counters) Shared() bool { return true }

// Healthy returns nil if the servers accept updates.
func (c *Counters) Healthy() error { return c.s.serves() }

// Sync implements store.Counters. What the servers have acknowledged is as safe as their own persistence makes it; replicas are
// not waited for.
func (c *Counters) Sync(ctx context.Context) error { return c.s.ready(ctx, 0) }

// pipeline is how many commands are sent at once.
const pipeline = 4096

// appendCounter appends a counter's name: the parts of fixed length first, so that no two names are equal.
func appendCounter(dst []byte, k *store.Counter) []byte {
	dst = binary.BigEndian.AppendUint16(dst, k.Type)
	dst = binary.BigEndian.AppendUint64(dst, k.Shingle)
	return append(dst, k.Prefix...)
}

// record returns the key of a counter's record, and its tag. See drop for the names of dropped records.
func (c *Counters) record(u store.Unit, number uint32, k *store.Counter) (key string, tag uint64) {
	var room [160]byte
	body := appendCounter(room[:0], k)
	tag = hash(body) % tags
	dst := c.s.appendHead(make([]byte, 0, len(c.s.cfg.KeyPrefix)+16+len(body)), tag, letterCnt)
	if n := c.s.dropped(u, number); n != 0 {
		dst = binary.BigEndian.AppendUint32(append(dst, 'a'+byte(u)), n)
	} else {
		dst = append(dst, 'A'+byte(u))
	}
	dst = binary.BigEndian.AppendUint32(dst, number)
	return string(append(dst, body...)), tag
}

// keepSlack is how many seconds a record is kept after the last query about it can come, for clocks that differ.
const keepSlack = 3600

// mostLife bounds the life of a record that lies far ahead: some servers that keep their data on disk count the seconds of an
// expiry in 32 bits.
const mostLife = 5 * 365 * 86400

// life returns how many seconds a record stays useful. A record of the distant past lives as long as one that begins now.
func life(u store.Unit, record uint32, now int64) int64 {
	length := u.Seconds() * int64(u.PerRecord())
	kept := u.Seconds() * int64(u.Kept())
	return min(max((int64(record)+1)*length+kept-now, kept)+keepSlack, mostLife)
}

// increment adds to a field of a record.
type increment struct {
	key   string
	tag   uint64
	field string
	n     int64
	ttl   int64 // seconds
}

// Add implements store.Counters.
func (c *Counters) Add(ctx context.Context, d []store.Delta) error {
	if err := c.s.ready(ctx, 0); err != nil {
		return err
	}
	for i := range d {
		if err := d[i].Valid(); err != nil {
			return fmt.Errorf("delta %d: %w", i, err)
		}
	}
	now := c.s.now().Unix()
	for chunk := range slices.Chunk(d, pipeline/4) {
		if err := c.add(ctx, chunk, now); err != nil {
			return err
		}
	}
	return nil
}

func (c *Counters) add(ctx context.Context, d []store.Delta, now int64) error {
	incs := make([]increment, 0, 2*len(d))
	for i := range d {
		if d[i].N > 0 {
			incs = append(incs, c.increments(&d[i].Counter, d[i].Slot, min(d[i].N, store.MaxCount), now)...)
		}
	}
	_, err := c.increase(ctx, incs)
	return err
}

// increments returns what adds n to a counter, at most MaxCount: for its ten minutes, and for its day.
func (c *Counters) increments(k *store.Counter, slot uint32, n uint64, now int64) []increment {
	day := slot / store.SlotsPerDay
	fortnight := day / store.DaysPerFortnight
	fine, tag := c.record(store.TenMinutes, day, k)
	daily, _ := c.record(store.Day, fortnight, k)
	return []increment{
		{fine, tag, fieldOf(store.TenMinutes, slot), int64(n), life(store.TenMinutes, day, now)}, //nolint:gosec // bounded
		{daily, tag, fieldOf(store.Day, day), int64(n), life(store.Day, fortnight, now)},         //nolint:gosec // bounded
	}
}

// increase makes increments and returns each count as it is afterwards, zero where the error keeps it unknown.
func (c *Counters) increase(ctx context.Context, incs []increment) ([]int64, error) {
	if len(incs) == 0 {
		return nil, nil
	}
	cl, err := c.s.conn()
	if err != nil {
		return nil, err
	}
	after := make([]int64, len(incs))
	cmds := make([]rueidis.Completed, 0, 2*len(incs))
	for i := range incs {
		in := &incs[i]
		cmds = append(cmds, cl.B().Hincrby().Key(in.key).Field(in.field).Increment(in.n).Build(), cl.B().Expire().Key(in.key).Seconds(in.ttl).Build())
	}
	c.s.stats.calls.Add(1)
	ctx, cancel := context.WithTimeout(ctx, c.s.cfg.Timeout)
	defer cancel()
	var errs []error
	var full []rueidis.Completed
	for i, r := range cl.DoMulti(ctx, cmds...) {
		n, err := r.AsInt64()
		switch {
		case err == nil && i%2 == 0:
			after[i/2] = n
		case err == nil:
		case i%2 == 0 && strings.Contains(err.Error(), "overflow"):
			after[i/2] = store.MaxCount
			full = append(full, cl.B().Hset().Key(incs[i/2].key).FieldValue().FieldValue(incs[i/2].field, decimal(store.MaxCount)).Build())
		default:
			errs = append(errs, err)
		}
	}
	if len(full) > 0 {
		for _, r := range cl.DoMulti(ctx, full...) {
			errs = append(errs, r.Error())
		}
	}
	return after, c.s.failedOf(errs)
}

// failedOf handles the errors of many commands: the first one is informative enough.
func (s *Store) failedOf(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return s.failed(err)
		}
	}
	return nil
}

func fieldOf(u store.Unit, number uint32) string {
	return strconv.FormatUint(uint64(number%u.PerRecord()), 10)
}

// AddUnique implements store.Counters.
func (c *Counters) AddUnique(ctx context.Context, u []store.Unique) error {
	if err := c.s.ready(ctx, 0); err != nil {
		return err
	}
	for i := range u {
		if err := u[i].Valid(); err != nil {
			return fmt.Errorf("unique %d: %w", i, err)
		}
	}
	now := c.s.now().Unix()
	for chunk := range slices.Chunk(u, pipeline/4) {
		if err := c.addUnique(ctx, chunk, now); err != nil {
			return err
		}
	}
	return nil
}

// addUnique counts the pairs, each atomically, and then the uniques of those that were zero: a pair and its unique may be
// on different servers.
func (c *Counters) addUnique(ctx context.Context, u []store.Unique, now int64) error {
	incs := make([]increment, 0, 2*len(u))
	for i := range u {
		pair := u[i].PairCounter()
		incs = append(incs, c.increments(&pair, u[i].Slot, 1, now)...)
	}
	after, err := c.increase(ctx, incs)
	if after == nil {
		return err
	}
	_, err2 := c.increase(ctx, c.growing(u, now, func(i int) bool { return after[i] == 1 }))
	return errors.Join(err, err2)
}

// growing returns what adds one to each unique whose pair was zero: fresh says so of the pairs' increments, two for each.
func (c *Counters) growing(u []store.Unique, now int64, fresh func(i int) bool) (grow []increment) {
	for i := range u {
		fine, daily := fresh(2*i), fresh(2*i+1)
		if !fine && !daily {
			continue // as nearly always: the pair is known
		}
		incs := c.increments(&u[i].Counter, u[i].Slot, 1, now)
		if fine {
			grow = append(grow, incs[0])
		}
		if daily {
			grow = append(grow, incs[1])
		}
	}
	return grow
}

// Read implements store.Counters.
func (c *Counters) Read(ctx context.Context, dst []uint64, q []store.Query) error {
	if err := c.s.ready(ctx, 0); err != nil {
		return err
	}
	var records []store.Record
	var owners []int
	for i := range q {
		if err := q[i].Valid(); err != nil {
			return fmt.Errorf("query %d: %w", i, err)
		}
		dst[i] = 0
		if q[i].To < q[i].From {
			continue
		}
		for n := q[i].From / q[i].Unit.PerRecord(); n <= q[i].To/q[i].Unit.PerRecord(); n++ {
			records = append(records, store.Record{Counter: q[i].Counter, Unit: q[i].Unit, Number: n})
			owners = append(owners, i)
		}
	}
	return c.ReadRecords(ctx, records, func(j int, counts []store.Count) {
		i, base := owners[j], uint64(records[j].Number)*uint64(records[j].Unit.PerRecord())
		for _, n := range counts {
			if p := base + uint64(n.Period); p >= uint64(q[i].From) && p <= uint64(q[i].To) {
				dst[i] = store.AddCounts(dst[i], n.N)
			}
		}
	})
}

// ReadRecords implements store.Counters.
func (c *Counters) ReadRecords(ctx context.Context, r []store.Record, f func(i int, counts []store.Count)) error {
	if err := c.s.ready(ctx, 0); err != nil {
		return err
	}
	for i := range r {
		if err := r[i].Valid(); err != nil {
			return fmt.Errorf("record %d: %w", i, err)
		}
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
	cl, err := c.s.conn()
	if err != nil {
		return err
	}
	cmds := make([]rueidis.Completed, len(r))
	for i := range r {
		key, _ := c.record(r[i].Unit, r[i].Number, &r[i].Counter)
		cmds[i] = cl.B().Hgetall().Key(key).Build()
	}
	c.s.stats.calls.Add(1)
	ctx, cancel := context.WithTimeout(ctx, c.s.cfg.Timeout)
	defer cancel()
	var counts []store.Count
	for i, r := range cl.DoMulti(ctx, cmds...) {
		fields, err := r.AsStrMap()
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
