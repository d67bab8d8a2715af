package backlog

import (
	"encoding/binary"
	"errors"
	"time"

	"antirobot/store"
)

// A batch on disk: version, Unix seconds (8 bytes), writer (8), number (8); the prefixes that it uses, as length and bytes,
// their number before them; then the uniques and the updates, their numbers before them. All other numbers are varints, but
// shingles have 8 bytes.
const (
	version   = 1
	headBytes = 1 + 3*8
)

// errBatch is returned for bytes that are not a batch.
var errBatch = errors.New("backlog: not a batch")

// encode writes a batch.
func encode(b *store.Batch, at time.Time) []byte {
	dst := make([]byte, 0, headBytes+64+40*len(b.Uniques)+24*len(b.Adds))
	dst = append(dst, version)
	dst = binary.BigEndian.AppendUint64(dst, uint64(max(at.Unix(), 1))) //nolint:gosec // positive
	dst = binary.BigEndian.AppendUint64(dst, b.Writer)
	dst = binary.BigEndian.AppendUint64(dst, b.Number)
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
		dst = append(binary.AppendUvarint(dst, uint64(len(n))), n...)
	}
	counter := func(c *store.Counter) {
		dst = binary.AppendUvarint(dst, numbers[c.Prefix])
		dst = binary.AppendUvarint(dst, uint64(c.Type))
		dst = binary.BigEndian.AppendUint64(dst, c.Shingle)
	}
	dst = binary.AppendUvarint(dst, uint64(len(b.Uniques)))
	for i := range b.Uniques {
		u := &b.Uniques[i]
		counter(&u.Counter)
		dst = binary.AppendUvarint(dst, uint64(u.PairType))
		dst = binary.BigEndian.AppendUint64(dst, u.Pair)
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

// writtenAt returns when a batch was written, in Unix seconds; 0 for what is not one.
func writtenAt(text []byte) int64 {
	if len(text) < headBytes {
		return 0
	}
	return int64(binary.BigEndian.Uint64(text[1:])) //nolint:gosec // it is only shown
}

// reader reads the numbers of a batch. After a mistake all of them are zero.
type reader struct {
	text []byte
	bad  bool
}

// varint reads a number up to limit.
func (r *reader) varint(limit uint64) uint64 {
	n, size := binary.Uvarint(r.text)
	if r.bad = r.bad || size <= 0 || n > limit; r.bad {
		return 0
	}
	r.text = r.text[size:]
	return n
}

func (r *reader) fixed() uint64 {
	if r.bad = r.bad || len(r.text) < 8; r.bad {
		return 0
	}
	n := binary.BigEndian.Uint64(r.text)
	r.text = r.text[8:]
	return n
}

func (r *reader) bytes(n uint64) []byte {
	if r.bad = r.bad || n > uint64(len(r.text)); r.bad {
		return nil
	}
	b := r.text[:n]
	r.text = r.text[n:]
	return b
}

// decode reads what encode wrote.
func decode(text []byte) (*store.Batch, error) {
	if len(text) < headBytes || text[0] != version {
		return nil, errBatch
	}
	r := &reader{text: text[9:]}
	b := &store.Batch{Writer: r.fixed(), Number: r.fixed()}
	names := make([]string, r.varint(uint64(len(r.text))))
	for i := range names {
		names[i] = string(r.bytes(r.varint(store.MaxPrefix)))
	}
	counter := func() (c store.Counter) {
		if n := r.varint(uint64(len(names))); n < uint64(len(names)) {
			c.Prefix = names[n]
		}
		c.Type, c.Shingle = uint16(r.varint(1<<16-1)), r.fixed() //nolint:gosec // bounded
		return c
	}
	b.Uniques = make([]store.Unique, r.varint(uint64(len(r.text)/20))) // each has at least that many bytes
	for i := range b.Uniques {
		b.Uniques[i] = store.Unique{
			Counter: counter(), PairType: uint16(r.varint(1<<16 - 1)), Pair: r.fixed(), Slot: uint32(r.varint(1<<32 - 1)), //nolint:gosec // bounded
		}
	}
	b.Adds = make([]store.Delta, r.varint(uint64(len(r.text)/12)))
	for i := range b.Adds {
		b.Adds[i] = store.Delta{Counter: counter(), Slot: uint32(r.varint(1<<32 - 1)), N: r.varint(1<<64 - 1)} //nolint:gosec // bounded
	}
	if r.bad || len(r.text) > 0 || b.Valid() != nil {
		return nil, errBatch
	}
	return b, nil
}
