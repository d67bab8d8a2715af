package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

// Counters keeps counts per counter and period: by ten minutes and by day. Every update counts in both periods of its
// moment. Counts are unsigned and stop at MaxCount. Further rules, checked by storetest:
//  1. Add and AddUnique are at most once: after an error a part of the batch may have been counted, nothing twice. It
//     must not be sent again.
//  2. Counts survive a crash of the machine after about a second, or after Sync.
//  3. A batch is not one transaction and has no order. A read that begins after a call returned nil sees its counts.
//  4. Testing and counting a Unique's pair is atomic: of parallel callers exactly one makes the unique's counter grow.
//     A failed call may have counted the pair and not the unique, never the reverse.
type Counters interface {
	Records
	// Add adds each delta's N to its counter, for the ten minutes of its slot and for that day.
	Add(ctx context.Context, d []Delta) error
	// AddUnique adds one to the counter of each unique's pair, as Add would, and one to the unique's own counter for
	// its ten minutes if the pair's was zero in them, and for its day if it was zero on that day.
	AddUnique(ctx context.Context, u []Unique) error
}

// Records reads and drops counts.
type Records interface {
	// ReadRecords calls f with the counts of each record, in any order, their periods in order. counts is valid during
	// the call, and empty for an absent record. f must not call the Records.
	ReadRecords(ctx context.Context, r []Record, f func(i int, counts []Count)) error
	// Drop forgets older counts of before's unit, in whole records: days of ten-minute counts, fortnights of daily
	// ones. A shared backend ignores it, and drops counts that no query may ask for by its own clock.
	Drop(ctx context.Context, before Period) error
	// Sync returns when all earlier counts are as safe as the backend makes them.
	Sync(ctx context.Context) error
}

// Batch is a writer's group of updates, with a number for repetition.
type Batch struct {
	Writer  uint64 // random; a writer sends one batch at a time
	Number  uint64 // greater than those of the writer's batches before it
	Uniques []Unique
	Adds    []Delta
}

// Valid returns the first error of the batch's items.
func (b *Batch) Valid() error {
	for i := range b.Uniques {
		if err := b.Uniques[i].Valid(); err != nil {
			return fmt.Errorf("unique %d: %w", i, err)
		}
	}
	for i := range b.Adds {
		if err := b.Adds[i].Valid(); err != nil {
			return fmt.Errorf("delta %d: %w", i, err)
		}
	}
	return nil
}

// Repeatable keeps counts that gateways share. A batch of unknown outcome can be sent again.
type Repeatable interface {
	Records
	// Count counts the batch's uniques as AddUnique would, and then its Adds. After an error, the same batch is sent
	// again until Count returns nil: nothing counts twice. A batch whose number is not above that of a completed one
	// counts nothing. A writer is remembered for at least a week.
	Count(ctx context.Context, b *Batch) error
	// Healthy returns nil if Count can be expected to work.
	Healthy() error
	// Shared reports that other gateways count there, too.
	Shared() bool
}

// ErrRange is returned for a query over more than Unit.Kept periods.
var ErrRange = errors.New("store: query over too many periods")

// ErrPrefix is returned for a prefix that is empty or longer than MaxPrefix.
var ErrPrefix = errors.New("store: bad counter prefix")

// MaxCount is where a count stops growing: the largest int64.
const MaxCount = math.MaxInt64

// MaxPrefix is the greatest length of a prefix in bytes.
const MaxPrefix = 64

// Counter names a counter: a shingle of a type, under its owner's prefix.
type Counter struct {
	Prefix  string
	Shingle uint64
	Type    uint16
}

// Valid returns ErrPrefix, or nil if the counter is valid.
func (c *Counter) Valid() error {
	if c.Prefix == "" || len(c.Prefix) > MaxPrefix {
		return fmt.Errorf("%w: %.80q", ErrPrefix, c.Prefix)
	}
	return nil
}

// Delta adds N to a counter.
type Delta struct {
	Counter
	Slot uint32
	N    uint64
}

// Unique counts different pairs: it grows once per period for each. The pair is a counter with the same prefix; its
// shingle stands for both sides (a sender and a recipient), so a pair belongs to one unique.
type Unique struct {
	Counter
	PairType uint16
	Pair     uint64
	Slot     uint32
}

// PairCounter is the counter of the unique's pair.
func (u *Unique) PairCounter() Counter {
	return Counter{Prefix: u.Prefix, Shingle: u.Pair, Type: u.PairType}
}

// Query asks for the sum over the periods From..To; To before From is empty.
type Query struct {
	Counter
	Unit     Unit
	From, To uint32
}

// Record names all counts of a counter in a day (of ten-minute counts) or a fortnight (of daily ones), numbered from
// the epoch.
type Record struct {
	Counter
	Unit   Unit
	Number uint32
}

// ValidRecords returns the first error of the records' counters.
func ValidRecords(r []Record) error {
	for i := range r {
		if err := r[i].Valid(); err != nil {
			return fmt.Errorf("record %d: %w", i, err)
		}
	}
	return nil
}

// Count is one count of a record; Period counts from the record's first.
type Count struct {
	N      uint64
	Period uint8
}

// Unit is the length of a period.
type Unit uint8

// The units.
const (
	TenMinutes Unit = iota
	Day
)

// SlotsPerDay and DaysPerFortnight are the lengths of records.
const (
	SlotsPerDay      = 144
	DaysPerFortnight = 14
)

// Seconds returns the length of a period.
func (u Unit) Seconds() int64 {
	if u == Day {
		return 86400
	}
	return 600
}

// Kept returns how many periods a query may span: 24 hours or a fortnight, and the current period.
func (u Unit) Kept() uint32 {
	if u == Day {
		return DaysPerFortnight + 1
	}
	return SlotsPerDay + 1
}

// PerRecord returns how many periods share one record: they are dropped together.
func (u Unit) PerRecord() uint32 {
	if u == Day {
		return DaysPerFortnight
	}
	return SlotsPerDay
}

func (u Unit) String() string {
	if u == Day {
		return "1d"
	}
	return "10m"
}

// Number returns the number of the period that contains a moment; 0 before the epoch.
func (u Unit) Number(at time.Time) uint32 {
	n := at.Unix() / u.Seconds()
	return uint32(min(max(n, 0), math.MaxUint32))
}

// Period is a numbered stretch of time.
type Period struct {
	Unit   Unit
	Number uint32
}

// Start returns the first moment of p.
func (p Period) Start() time.Time { return time.Unix(int64(p.Number)*p.Unit.Seconds(), 0).UTC() }

// Valid returns ErrRange or ErrPrefix, or nil if q can be read.
func (q *Query) Valid() error {
	if q.To >= q.From && q.To-q.From >= q.Unit.Kept() {
		return fmt.Errorf("%w: %d of %s; at most %d", ErrRange, uint64(q.To-q.From)+1, q.Unit, q.Unit.Kept())
	}
	return q.Counter.Valid()
}

// AddCounts is the addition that counters use: the sum stops at MaxCount.
func AddCounts(a, b uint64) uint64 {
	a, b = min(a, MaxCount), min(b, MaxCount)
	return min(a+b, MaxCount)
}
