package stream

import (
	"encoding/binary"
	"errors"
	"math"
	"time"

	"antirobot/identity"
	"antirobot/request"
	"antirobot/varint"
	"antirobot/verdict"
	"antirobot/verdict/client"
)

// An event on the wire: its length, flags, a set of the fields that follow, single bytes, subjects, and those fields.
// Zero fields take no room. A later version may add fields at the end.

// maxEvent bounds the bytes of an event, with its length.
const maxEvent = 384

const (
	atVerdict = 18 // 2 bits
	atMode    = 20 // 2
	atType    = 22 // 4
	atKind    = 26 // 3
	atQUIC    = 29
)

// flags are the event's booleans in the order of their bits, a part of the format.
func flags(e *verdict.Event) [18]*bool {
	return [...]*bool{
		&e.Paid, &e.Own, &e.Crawler, &e.Static, &e.Document, &e.Advised, &e.Work, &e.Partial, &e.Partner, &e.Liar,
		&e.Secure, &e.Direct, &e.HTTP10, &e.HTTP2, &e.Query, &e.Page, &e.WantsHTML, &e.Claim.Mobile,
	}
}

// appendEvent appends an event, with its time relative to base and its service's name.
func appendEvent(dst []byte, e *verdict.Event, service uint32, base int64) []byte {
	begin := len(dst)
	dst = append(dst, 0, 0)
	bits := uint32(e.Verdict&3)<<atVerdict | uint32(e.Mode&3)<<atMode |
		uint32(e.Type&15)<<atType | uint32(e.Kind&7)<<atKind
	for i, f := range flags(e) {
		if *f {
			bits |= 1 << i
		}
	}
	if e.QUIC {
		bits |= 1 << atQUIC
	}
	dst = varint.AppendU32(dst, bits)
	at := len(dst)
	dst = append(dst, 0, 0, 0)
	dst = append(dst, byte(e.Cause), e.Method, byte(e.Asked), byte(e.Site)<<4|byte(e.Referer)&15, byte(e.Cookies),
		byte(e.PathKind), e.Depth, byte(e.Software), byte(e.Claim.Family), byte(e.Claim.System), byte(e.Lag))
	dst = varint.AppendU32(dst, service)
	dst = binary.AppendVarint(dst, e.At.UnixMicro()-base)
	n := min(e.N, uint8(len(e.Subjects)))
	dst = append(dst, n)
	for i := range n {
		dst = appendSubject(dst, &e.Subjects[i])
	}
	c := codec{dst: dst, writing: true}
	c.fields(e)
	dst = c.dst
	dst[at], dst[at+1], dst[at+2] = byte(c.has), byte(c.has>>8), byte(c.has>>16)
	binary.LittleEndian.PutUint16(dst[begin:], uint16(len(dst)-begin-2)) //nolint:gosec // below maxEvent
	return dst
}

// How an ID is shortened, above its kind.
const (
	shortIPv4 = 0x80
	shortIPv6 = 0x40
	kindMask  = 0x3f
)

func appendSubject(dst []byte, s *identity.Subject) []byte {
	kind := byte(s.Kind)
	switch {
	case [12]byte(s.ID[:12]) == [12]byte{10: 0xff, 11: 0xff}:
		return append(append(dst, kind|shortIPv4), s.ID[12:]...)
	case [8]byte(s.ID[8:]) == [8]byte{}:
		return append(append(dst, kind|shortIPv6), s.ID[:8]...)
	}
	return append(append(dst, kind), s.ID[:]...)
}

var errEvent = errors.New("stream: malformed event")

// codec writes the fields of an event, or reads them: the same code does both, so that they agree.
type codec struct {
	varint.Reader
	dst     []byte
	writing bool
	has     uint32 // a bit for each field that follows
	next    uint32 // the number of the next field
}

// field reports whether the next field follows; while writing, full says so.
func (c *codec) field(full bool) bool {
	bit := uint32(1) << c.next
	c.next++
	if c.writing && full {
		c.has |= bit
	}
	return c.has&bit != 0
}

func (c *codec) u64(v *uint64) {
	switch {
	case !c.field(*v != 0):
	case c.writing:
		c.dst = varint.AppendU64(c.dst, *v)
	default:
		*v = c.U64()
	}
}

func (c *codec) u32(v *uint32) {
	switch {
	case !c.field(*v != 0):
	case c.writing:
		c.dst = varint.AppendU32(c.dst, *v)
	default:
		*v = c.U32()
	}
}

// number is a field of variable length.
func number[T ~uint8 | ~uint16 | ~uint32 | ~uint64](c *codec, v *T) {
	switch {
	case !c.field(*v != 0):
	case c.writing:
		c.dst = binary.AppendUvarint(c.dst, uint64(*v))
	default:
		*v = T(c.Uint(uint64(^T(0))))
	}
}

// pair is a field of two bytes.
func pair[A, B ~uint8](c *codec, a *A, b *B) {
	switch {
	case !c.field(*a != 0 || *b != 0):
	case c.writing:
		c.dst = append(c.dst, byte(*a), byte(*b))
	default:
		*a, *b = A(c.Byte()), B(c.Byte())
	}
}

// fields writes or reads the fields in the order of their bits, a part of the format. A read event begins empty.
func (c *codec) fields(e *verdict.Event) {
	if c.field(e.Young.Kind != identity.KindNone) {
		if c.writing {
			c.dst = appendSubject(c.dst, &e.Young)
		} else {
			e.Young = c.subject()
		}
	}
	pair(c, &e.Mark.Label, &e.Mark.Source)
	known, took, age := uint8(0), uint64(0), uint32(0)
	if c.writing {
		if e.Evidence.Known {
			known = 1
		}
		took = uint64(max(e.Took, 0) / time.Microsecond)
		age = uint32(max(int64(e.IAge)+1, 0)) //nolint:gosec // above no int32 by more than one
	}
	pair(c, &known, &e.Evidence.Probes)
	number(c, &e.Status)
	number(c, &e.BytesOut)
	number(c, &took)
	c.u64(&e.Path)
	c.u64(&e.PathShape)
	c.u64(&e.Agent)
	c.u32(&e.Client)
	c.u64(&e.Shape)
	c.u32(&e.Language)
	c.u64(&e.JA4)
	c.u64(&e.Frames)
	c.u32(&e.RefererPath)
	c.u32(&e.Browser)
	c.u64(&e.Target)
	number(c, &e.Number)
	c.u32(&e.Series)
	number(c, &age)
	number(c, &e.Misfits)
	number(c, &e.Forged)
	number(c, &e.Headers)
	number(c, &e.Claim.Major)
	if c.writing {
		return
	}
	c.Bad = c.Bad || took > uint64(math.MaxInt64/time.Microsecond) || age > math.MaxInt32+1
	e.Evidence.Known = known&1 != 0
	e.Took = time.Duration(took) * time.Microsecond //nolint:gosec // bounded above
	e.IAge = int32(int64(age) - 1)                  //nolint:gosec // the same
}

func (c *codec) subject() (s identity.Subject) {
	kind := c.Byte()
	s.Kind = identity.Kind(kind & kindMask)
	switch {
	case kind&shortIPv4 != 0:
		s.ID[10], s.ID[11] = 0xff, 0xff
		copy(s.ID[12:], c.Bytes(4))
	case kind&shortIPv6 != 0:
		copy(s.ID[:8], c.Bytes(8))
	default:
		copy(s.ID[:], c.Bytes(16))
	}
	if s.Kind == identity.KindNone || s.Kind > identity.KindIP {
		c.Bad = true
	}
	return s
}

// readEvent reads the event at the beginning of b, and returns its service's name and the rest.
func readEvent(e *verdict.Event, b []byte, base int64) (service uint32, rest []byte, err error) {
	if len(b) < 2 {
		return 0, nil, errEvent
	}
	n := int(binary.LittleEndian.Uint16(b))
	if n > len(b)-2 {
		return 0, nil, errEvent
	}
	r := codec{Reader: varint.Reader{Src: b[2 : 2+n]}}
	rest = b[2+n:]
	*e = verdict.Event{}
	bits := r.U32()
	for i, f := range flags(e) {
		*f = bits>>i&1 == 1
	}
	e.Verdict, e.Mode = verdict.Verdict(bits>>atVerdict&3), verdict.Mode(bits>>atMode&3)
	e.Type, e.Kind = verdict.Type(bits>>atType&15), verdict.EventKind(bits>>atKind&7)
	e.QUIC = bits>>atQUIC&1 == 1
	r.has = uint32(r.Byte()) | uint32(r.Byte())<<8 | uint32(r.Byte())<<16
	e.Cause, e.Method, e.Asked = verdict.Cause(r.Byte()), r.Byte(), request.Kind(r.Byte())
	site := r.Byte()
	e.Site, e.Referer = client.Site(site>>4), client.Referer(site&15)
	e.Cookies, e.PathKind, e.Depth = client.Cookies(r.Byte()), client.PathKind(r.Byte()), r.Byte()
	e.Software, e.Claim.Family = client.Software(r.Byte()), client.Family(r.Byte())
	e.Claim.System, e.Lag = client.System(r.Byte()), client.Lag(r.Byte())
	service = r.U32()
	e.At = time.UnixMicro(base + r.Signed())
	e.N = r.Byte()
	if e.N == 0 || int(e.N) > len(e.Subjects) || int(e.Cause) >= verdict.Causes || e.Mode > verdict.Off ||
		e.Kind > verdict.EventEvidence {
		return 0, rest, errEvent
	}
	for i := range e.N {
		e.Subjects[i] = r.subject()
	}
	r.fields(e)
	if r.Bad || e.Type > verdict.TypeFeed {
		return 0, rest, errEvent
	}
	return service, rest, nil
}
