package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

// Counters keeps counts per counter and period: by ten minutes, and by day. Every update counts in both periods of its
// moment. Counts are unsigned, and stop at MaxCount. Rules beside those of the package, checked by storetest:
//  1. Add and AddUnique are at most once: after an error some of the batch may have been counted, and none twice; so a
//     failed batch is a loss and is not sent again.
//  2. They survive kill -9 after the backend's own interval, a second or so.
//  3. A batch is not one transaction: a reader may see a part of it. What was counted when a call returned nil is seen
//     by every Read that begins later.
//  4. The test and the count of one Unique are one: of any number of parallel callers one makes the counter grow.
type Counters interface {
	// Add adds each delta's N to its counter, in the ten minutes of its slot and in that day.
	Add(ctx context.Context, d []Delta) error
	// AddUnique adds one to each unique's counter for its ten minutes if its pair was not yet seen with it in these ten
	// minutes, and for its day if not yet on this day; and notes the pair as seen. Neither count is the sum of the other.
	AddUnique(ctx context.Context, u []Unique) error
	// Read sets dst[i] to the sum of the counts that q[i] asks for. dst is as long as q. A query over more periods than
	// are kept is ErrRange.
	Read(ctx context.Context, dst []uint64, q []Query) error
	// ReadRecords calls f with the counts of each record, in any order of the records and in order of their periods;
	// counts is valid during the call only, and empty for a record that is absent. f must not call the Counters. It is
	// what a cache before the backend asks for.
	ReadRecords(ctx context.Context, r []Record, f func(i int, counts []Count)) error
	// Drop forgets the counts of before's unit that are older, in whole records: days of ten-minute counts, fortnights
	// of daily ones (counted from the epoch). What is added for a dropped period afterwards counts from zero. It costs
	// no scan. A backend that others use, too, forgets nothing by its own clock that a query of now may ask for.
	Drop(ctx context.Context, before Period) error
}

// ErrRange is returned by Read for a query over more than Unit.Kept periods.
var ErrRange = errors.New("store: query over too many periods")

// ErrPrefix is returned for a counter whose prefix is empty or longer than MaxPrefix bytes.
var ErrPrefix = errors.New("store: bad counter prefix")

// MaxCount is where a count stops growing: the largest int64.
const MaxCount = math.MaxInt64

// MaxPrefix is the greatest length of a prefix in bytes.
const MaxPrefix = 64

// Counter names a counter: a shingle of some type, under the prefix of who counts.
type Counter struct {
	Prefix  string
	Shingle uint64
	Type    uint16
}

// Valid returns ErrPrefix or nil.
func (c *Counter) Valid() error {
	if c.Prefix == "" || len(c.Prefix) > MaxPrefix {
		return fmt.Errorf("%w: %.80q", ErrPrefix, c.Prefix)
	}
	return nil
}

// Delta adds N to a counter.
type Delta struct {
	Counter
	Slot uint32 // number of the ten minutes; its day follows from it
	N    uint64
}

// Unique counts a pair once per period: the counter tells how many different pairs came with it.
type Unique struct {
	Counter
	PairType uint16
	Pair     uint64 // the pair's shingle
	Slot     uint32
}

// Query asks for the sum of a counter over the periods From..To, both included; To before From asks for nothing.
type Query struct {
	Counter
	Unit     Unit
	From, To uint32
}

// Record names all counts of a counter in a day of ten minutes or in a fortnight of days, numbered from the epoch.
type Record struct {
	Counter
	Unit   Unit
	Number uint32
}

// Count is one of the counts of a record: Period counts from the record's first.
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

// SlotsPerDay is how many ten minutes a day has, DaysPerFortnight how many days a record of days.
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

// Kept returns over how many periods a query may go: the last 24 hours or fortnight and the period that has just begun.
func (u Unit) Kept() uint32 {
	if u == Day {
		return DaysPerFortnight + 1
	}
	return SlotsPerDay + 1
}

// PerRecord returns how many periods stand in one record: they are dropped together.
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

// Number returns the number of the period of unit u at a moment: Unix seconds by its length. Moments before the epoch
// are in period 0.
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

// Valid returns why q can not be read, or nil.
func (q *Query) Valid() error {
	if q.To >= q.From && q.To-q.From >= q.Unit.Kept() {
		return fmt.Errorf("%w: %d of %s; at most %d", ErrRange, uint64(q.To-q.From)+1, q.Unit, q.Unit.Kept())
	}
	return q.Counter.Valid()
}

// AddCounts is the sum that counters keep: it stops at MaxCount.
func AddCounts(a, b uint64) uint64 {
	a, b = min(a, MaxCount), min(b, MaxCount)
	return min(a+b, MaxCount)
}
