package pebblestore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2"

	"antirobot/store"
)

// A record is a version byte and, in slot order, a slot (one byte, within the record's day or fortnight) and its count
// (a varint). Merging adds slot by slot.
const (
	countsVersion = 1
	// mergerName is stored: a different merge needs a different name.
	mergerName = "antirobot.counts.v1"
)

var errCounts = errors.New("not a record of counts")

type slotCount = store.Count

func appendCounts(dst []byte, counts []slotCount) []byte {
	dst = append(dst, countsVersion)
	for _, c := range counts {
		dst = append(dst, c.Period)
		dst = binary.AppendUvarint(dst, c.N)
	}
	return dst
}

// nextCount decodes one slot, and returns the rest.
func nextCount(b []byte) (c slotCount, rest []byte, err error) {
	if len(b) < 2 {
		return c, nil, fmt.Errorf("%w: ends early", errCounts)
	}
	n, size := binary.Uvarint(b[1:])
	if size <= 0 || n > store.MaxCount {
		return c, nil, fmt.Errorf("%w: bad count", errCounts)
	}
	return slotCount{N: n, Period: b[0]}, b[1+size:], nil
}

func countsBody(b []byte) ([]byte, error) {
	if len(b) == 0 || b[0] != countsVersion {
		return nil, fmt.Errorf("%w: unknown version", errCounts)
	}
	return b[1:], nil
}

func sumCounts(b []byte, from, to uint8) (sum uint64, err error) {
	if b, err = countsBody(b); err != nil {
		return 0, err
	}
	for len(b) > 0 {
		var c slotCount
		if c, b, err = nextCount(b); err != nil {
			return 0, err
		}
		if c.Period > to {
			break
		}
		if c.Period >= from {
			sum = store.AddCounts(sum, c.N)
		}
	}
	return sum, nil
}

// addCounts adds the record b to sum, in slot order.
func addCounts(sum []slotCount, b []byte) ([]slotCount, error) {
	b, err := countsBody(b)
	if err != nil {
		return nil, err
	}
	i, last := 0, -1
	for len(b) > 0 {
		var c slotCount
		if c, b, err = nextCount(b); err != nil {
			return nil, err
		}
		if int(c.Period) <= last {
			return nil, fmt.Errorf("%w: slots out of order", errCounts)
		}
		last = int(c.Period)
		for i < len(sum) && sum[i].Period < c.Period {
			i++
		}
		if i < len(sum) && sum[i].Period == c.Period {
			sum[i].N = store.AddCounts(sum[i].N, c.N)
			continue
		}
		sum = append(sum, slotCount{})
		copy(sum[i+1:], sum[i:])
		sum[i] = c
	}
	return sum, nil
}

// countsMerge is a merge in progress. Addition commutes, so both directions are the same.
type countsMerge struct {
	sum  []slotCount
	room [4]slotCount
}

func newCountsMerger() *pebble.Merger {
	return &pebble.Merger{
		Name: mergerName,
		Merge: func(_, value []byte) (pebble.ValueMerger, error) {
			m := &countsMerge{}
			m.sum = m.room[:0]
			return m, m.MergeNewer(value)
		},
	}
}

func (m *countsMerge) MergeNewer(value []byte) (err error) {
	m.sum, err = addCounts(m.sum, value)
	return err
}

func (m *countsMerge) MergeOlder(value []byte) error { return m.MergeNewer(value) }

func (m *countsMerge) Finish(bool) ([]byte, io.Closer, error) {
	return appendCounts(make([]byte, 0, 1+4*len(m.sum)), m.sum), nil, nil
}
