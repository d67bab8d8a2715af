package standing

import "encoding/binary"

// recordSize is the length of a record in bytes.
const recordSize = 21

// What a record says about the standing, beside its first and last day.
const (
	recordEstablished = 1   // the first day is that on which the subject itself was seen
	recordTrusted     = 3   // the first day is that on which it was seen, and it is trusted
	recordProven      = 5   // established, and proven
	recordYoung       = 254 // only young cookies were seen; smaller even numbers: half of it is the number of days before the first
)

func (e *tenure) record() (first uint16, says byte) {
	switch {
	case e.proven:
		return e.first, recordProven
	case e.established:
		return e.first, recordEstablished
	case e.trusted:
		return e.first, recordTrusted
	case e.first == 0:
		return e.since, recordYoung
	}
	return e.first, byte(min(e.first-e.since, recordYoung/2-1)) << 1
}

func tenureOf(first, last uint16, says byte) tenure {
	e := tenure{since: first, first: first, last: last, trusted: says == recordTrusted, proven: says == recordProven}
	e.established = e.proven || says == recordEstablished
	switch {
	case e.established, e.trusted:
	case says == recordYoung:
		e.first = 0
	default:
		e.since -= uint16(says >> 1)
	}
	return e
}

// value is what the store has of a subject: first day, last day (2 bytes each), state, home.
func (e *tenure) value() []byte {
	first, says := e.record()
	val := binary.BigEndian.AppendUint16(nil, first)
	val = binary.BigEndian.AppendUint16(val, e.last)
	return append(append(val, says), e.home[:]...)
}

// readTenure reads a value, of recordSize.
func readTenure(v []byte) tenure {
	e := tenureOf(binary.BigEndian.Uint16(v), binary.BigEndian.Uint16(v[2:]), v[4])
	e.home = [16]byte(v[5:])
	return e
}
