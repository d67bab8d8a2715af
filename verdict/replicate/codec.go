// Package replicate is the one codec of the records that gateways and processors tell each other and keep in the store. A
// type describes its fields once, in a function that both writes and reads them.
package replicate

import (
	"encoding/binary"
	"math"
	"time"

	"antirobot/identity"
)

// Codec writes a record, or reads one, field by field. Times in a record are those of the store's clock. What is read does
// not point into the record. After the first malformed field, reading yields zero values.
type Codec struct {
	b     []byte
	skew  time.Duration
	reads bool
	bad   bool
}

// Writer returns a Codec that appends to dst; skew is by how much the store's clock is ahead of this machine's.
func Writer(dst []byte, skew time.Duration) *Codec { return &Codec{b: dst, skew: skew} }

// Reader returns a Codec that reads b.
func Reader(b []byte, skew time.Duration) *Codec { return &Codec{b: b, skew: skew, reads: true} }

// Bytes returns what was written.
func (c *Codec) Bytes() []byte { return c.b }

// Reads reports whether fields are read.
func (c *Codec) Reads() bool { return c.reads }

// Fail gives up a record that the caller found malformed.
func (c *Codec) Fail(malformed bool) {
	if malformed {
		c.bad, c.b = true, nil
	}
}

// OK reports whether the whole record was read and well-formed.
func (c *Codec) OK() bool { return !c.bad && len(c.b) == 0 }

// Fixed copies bytes whose number is known.
func (c *Codec) Fixed(p []byte) {
	switch {
	case !c.reads:
		c.b = append(c.b, p...)
	case len(c.b) < len(p):
		c.Fail(true)
	default:
		c.b = c.b[copy(p, c.b):]
	}
}

// Uint is a number of any size; one that does not fit its type is malformed.
func Uint[T ~uint8 | ~uint16 | ~uint32 | ~uint64](c *Codec, v *T) {
	if !c.reads {
		c.b = binary.AppendUvarint(c.b, uint64(*v))
		return
	}
	n, w := binary.Uvarint(c.b)
	if *v = T(n); w <= 0 || uint64(*v) != n {
		*v = 0
		c.Fail(true)
		return
	}
	c.b = c.b[w:]
}

// Bool is a truth value.
func (c *Codec) Bool(v *bool) {
	var n uint8
	if *v {
		n = 1
	}
	Uint(c, &n)
	*v = n == 1
}

// Float is a number that is finite.
func (c *Codec) Float(v *float32) {
	n := math.Float32bits(*v)
	Uint(c, &n)
	*v = math.Float32frombits(n)
	c.Fail(c.reads && (math.IsNaN(float64(*v)) || math.IsInf(float64(*v), 0)))
}

// Time is a time of this machine's clock; the zero time stays zero.
func (c *Codec) Time(v *time.Time) {
	var n uint64
	if !v.IsZero() {
		n = uint64(v.Add(c.skew).UnixNano()) //nolint:gosec // read back as it is
	}
	if Uint(c, &n); c.reads {
		if *v = (time.Time{}); n != 0 {
			*v = time.Unix(0, int64(n)).Add(-c.skew) //nolint:gosec // as it was written
		}
	}
}

// Text is a text of at most so many bytes.
func (c *Codec) Text(v *string, most int) {
	n := uint64(len(*v))
	Uint(c, &n)
	switch {
	case !c.reads:
		c.b = append(c.b, *v...)
	case n > uint64(most) || n > uint64(len(c.b)): //nolint:gosec // a small bound
		*v = ""
		c.Fail(true)
	default:
		*v, c.b = string(c.b[:n]), c.b[n:]
	}
}

// Subject is a subject of a kind.
func (c *Codec) Subject(v *identity.Subject) {
	Uint(c, &v.Kind)
	c.Fixed(v.ID[:])
	c.Fail(c.reads && (v.Kind == identity.KindNone || v.Kind > identity.KindIP))
}

// Prefix is a network of addresses at a group of services.
func (c *Codec) Prefix(v *identity.Prefix) {
	c.Fixed(v.ID[:])
	Uint(c, &v.Bits)
	Uint(c, &v.Group)
	c.Fail(c.reads && (v.Bits > 128 || v.Bits%8 != 0))
}

// Append appends a record with its kind and length, as Each reads it.
func Append(dst []byte, kind byte, record []byte) []byte {
	dst = binary.AppendUvarint(append(dst, kind), uint64(len(record)))
	return append(dst, record...)
}

// Each calls f with each record of a message until f returns false, and reports whether all were well-formed.
func Each(msg []byte, f func(kind byte, record []byte) bool) bool {
	for len(msg) > 0 {
		n, w := binary.Uvarint(msg[1:])
		if w <= 0 || n > uint64(len(msg)-1-w) { //nolint:gosec // not negative
			return false
		}
		end := 1 + w + int(n) //nolint:gosec // no longer than the message
		if !f(msg[0], msg[1+w:end]) {
			return false
		}
		msg = msg[end:]
	}
	return true
}
