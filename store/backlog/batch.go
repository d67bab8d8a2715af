package backlog

import (
	"encoding/binary"
	"errors"
	"time"

	"antirobot/store"
	"antirobot/varint"
)

// A batch on disk: version, Unix seconds (8 bytes), writer (8), number (8); then, each behind their count, prefixes,
// uniques and updates. Shingles have 8 bytes, all other numbers are varints.
const (
	version   = 1
	headBytes = 1 + 3*8
)

var errBatch = errors.New("backlog: not a batch")

func encode(b *store.Batch, at time.Time) []byte {
	dst := make([]byte, 0, headBytes+64+40*len(b.Uniques)+24*len(b.Adds))
	dst = append(dst, version)
	dst = varint.AppendU64(dst, uint64(max(at.Unix(), 1))) //nolint:gosec // positive
	dst = varint.AppendU64(dst, b.Writer)
	dst = varint.AppendU64(dst, b.Number)
	numbers, names := map[string]uint64{}, []string(nil)
	note := func(prefix string) {
		if _, ok := numbers[prefix]; !ok {
			numbers[prefix] = uint64(len(names))
			names = append(names, prefix)
		}
	}
	for i := range b.Uniques {
		note(b.Uniques[i].Prefix)
	}
	for i := range b.Adds {
		note(b.Adds[i].Prefix)
	}
	dst = binary.AppendUvarint(dst, uint64(len(names)))
	for _, n := range names {
		dst = varint.AppendText(dst, n)
	}
	counter := func(c *store.Counter) {
		dst = binary.AppendUvarint(dst, numbers[c.Prefix])
		dst = binary.AppendUvarint(dst, uint64(c.Type))
		dst = varint.AppendU64(dst, c.Shingle)
	}
	dst = binary.AppendUvarint(dst, uint64(len(b.Uniques)))
	for i := range b.Uniques {
		u := &b.Uniques[i]
		counter(&u.Counter)
		dst = binary.AppendUvarint(dst, uint64(u.PairType))
		dst = varint.AppendU64(dst, u.Pair)
		dst = binary.AppendUvarint(dst, uint64(u.Slot))
	}
	dst = binary.AppendUvarint(dst, uint64(len(b.Adds)))
	for i := range b.Adds {
		d := &b.Adds[i]
		counter(&d.Counter)
		dst = binary.AppendUvarint(dst, uint64(d.Slot))
		dst = binary.AppendUvarint(dst, d.N)
	}
	return dst
}

// writtenAt returns the Unix seconds of a batch; 0 if it is none.
func writtenAt(text []byte) int64 {
	if len(text) < headBytes {
		return 0
	}
	return int64(binary.LittleEndian.Uint64(text[1:])) //nolint:gosec // it is only shown
}

func decode(text []byte) (*store.Batch, error) {
	if len(text) < headBytes || text[0] != version {
		return nil, errBatch
	}
	r := &varint.Reader{Src: text[9:]}
	b := &store.Batch{Writer: r.U64(), Number: r.U64()}
	names := make([]string, r.Count())
	for i := range names {
		names[i] = r.Text()
	}
	counter := func() (c store.Counter) {
		if n := r.Uint(uint64(len(names))); n < uint64(len(names)) {
			c.Prefix = names[n]
		}
		c.Type, c.Shingle = uint16(r.Uint(1<<16-1)), r.U64() //nolint:gosec // bounded
		return c
	}
	b.Uniques = make([]store.Unique, r.Uint(uint64(len(r.Src)/20))) // each has at least that many bytes
	for i := range b.Uniques {
		b.Uniques[i] = store.Unique{
			Counter: counter(), PairType: uint16(r.Uint(1<<16 - 1)), Pair: r.U64(), //nolint:gosec // bounded
			Slot: uint32(r.Uint(1<<32 - 1)), //nolint:gosec // bounded
		}
	}
	b.Adds = make([]store.Delta, r.Uint(uint64(len(r.Src)/12)))
	for i := range b.Adds {
		//nolint:gosec // bounded
		b.Adds[i] = store.Delta{Counter: counter(), Slot: uint32(r.Uint(1<<32 - 1)), N: r.Uint(1<<64 - 1)}
	}
	if r.Bad || len(r.Src) > 0 || b.Valid() != nil {
		return nil, errBatch
	}
	return b, nil
}
