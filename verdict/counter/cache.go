package counter

import (
	"encoding/binary"

	"github.com/coocood/freecache"

	"antirobot/store"
)

// cache holds records of the store, including absent ones, and seen pairs. It may lose any of them. A record is used
// under its shard's mu.
type cache struct {
	c      *freecache.Cache
	expire int
}

const (
	recordKeyLen = 1 + 4 + 2 + 2 + 8
	pairKeyLen   = recordKeyLen
)

func appendRecordKey(dst []byte, kind byte, number uint32, k name) []byte {
	dst = append(dst, kind)
	dst = binary.BigEndian.AppendUint32(dst, number)
	dst = binary.BigEndian.AppendUint16(dst, k.prefix)
	dst = binary.BigEndian.AppendUint16(dst, k.typ)
	return binary.BigEndian.AppendUint64(dst, k.shingle)
}

func recordKey(room *[recordKeyLen]byte, u store.Unit, number uint32, k name) []byte {
	return appendRecordKey(room[:0], byte(u), number, k)
}

// pairKind distinguishes the keys of pairs, as records begin with their unit.
const pairKind = 0xff

// pairKey names a pair that was seen in its ten minutes.
func pairKey(room *[pairKeyLen]byte, slot uint32, pair name) []byte {
	return appendRecordKey(room[:0], pairKind, slot, pair)
}

// A cached record is a byte for the period and a varint for its count, for each count.

// sum returns the sum of the periods from..to of a record; false if it is not cached.
func (c *cache) sum(key []byte, from, to uint8) (sum uint64, ok bool) {
	err := c.c.GetFn(key, func(b []byte) error {
		ok = true
		for len(b) > 1 {
			n, size := binary.Uvarint(b[1:])
			if b[0] >= from && b[0] <= to {
				sum = store.AddCounts(sum, n)
			}
			b = b[1+max(size, 1):]
		}
		return nil
	})
	return sum, ok && err == nil
}

func (c *cache) put(key []byte, counts []store.Count) {
	var room [256]byte
	val := room[:0]
	for _, n := range counts {
		val = binary.AppendUvarint(append(val, n.Period), n.N)
	}
	_ = c.c.Set(key, val, c.expire) // too large for the cache: not cached
}

// add adds n to a period of a record if it is cached.
func (c *cache) add(key []byte, period uint8, n uint64) {
	var room [256]byte
	val, found, done := room[:0], false, false
	err := c.c.GetFn(key, func(b []byte) error {
		found = true
		for len(b) > 1 {
			old, size := binary.Uvarint(b[1:])
			if b[0] == period {
				old, done = store.AddCounts(old, n), true
			}
			val = binary.AppendUvarint(append(val, b[0]), old)
			b = b[1+max(size, 1):]
		}
		return nil
	})
	if !found || err != nil {
		return
	}
	if !done {
		val = binary.AppendUvarint(append(val, period), n)
	}
	if c.expire > 0 { // its age must not start over, or other gateways' updates would stay unseen
		c.c.Del(key)
		return
	}
	if c.c.Set(key, val, 0) != nil {
		c.c.Del(key)
	}
}
