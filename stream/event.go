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
	"antirobot/verdict/label"
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

const (
	hasYoung = 1 << iota
	hasMark
	hasEvidence
	hasStatus
	hasBytes
	hasTook
	hasPath
	hasPathShape
	hasAgent
	hasClient
	hasShape
	hasLanguage
	hasJA4
	hasFrames
	hasRefererPath
	hasBrowser
	hasTarget
	hasNumber
	hasSeries
	hasIAge
	hasMisfits
	hasForged
	hasHeaders
	hasMajor
)

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
	dst, has := appendFields(dst, e)
	dst[at], dst[at+1], dst[at+2] = byte(has), byte(has>>8), byte(has>>16)
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

type fieldWriter struct {
	dst []byte
	has uint32
}

func (w *fieldWriter) u64(bit uint32, v uint64) {
	if v != 0 {
		w.has |= bit
		w.dst = varint.AppendU64(w.dst, v)
	}
}

func (w *fieldWriter) u32(bit, v uint32) {
	if v != 0 {
		w.has |= bit
		w.dst = varint.AppendU32(w.dst, v)
	}
}

func (w *fieldWriter) varint(bit uint32, v uint64) {
	if v != 0 {
		w.has |= bit
		w.dst = binary.AppendUvarint(w.dst, v)
	}
}

func appendFields(dst []byte, e *verdict.Event) (_ []byte, has uint32) {
	w := fieldWriter{dst: dst}
	if e.Young.Kind != identity.KindNone {
		w.has |= hasYoung
		w.dst = appendSubject(w.dst, &e.Young)
	}
	if e.Mark != (label.Mark{}) {
		w.has |= hasMark
		w.dst = append(w.dst, byte(e.Mark.Label), byte(e.Mark.Source))
	}
	if e.Evidence != (request.Evidence{}) {
		w.has |= hasEvidence
		known := byte(0)
		if e.Evidence.Known {
			known = 1
		}
		w.dst = append(w.dst, known, byte(e.Evidence.Probes))
	}
	w.varint(hasStatus, uint64(e.Status))
	w.varint(hasBytes, e.BytesOut)
	w.varint(hasTook, uint64(max(e.Took, 0)/time.Microsecond))
	w.u64(hasPath, e.Path)
	w.u64(hasPathShape, e.PathShape)
	w.u64(hasAgent, e.Agent)
	w.u32(hasClient, e.Client)
	w.u64(hasShape, e.Shape)
	w.u32(hasLanguage, e.Language)
	w.u64(hasJA4, e.JA4)
	w.u64(hasFrames, e.Frames)
	w.u32(hasRefererPath, e.RefererPath)
	w.u32(hasBrowser, e.Browser)
	w.u64(hasTarget, e.Target)
	w.varint(hasNumber, uint64(e.Number))
	w.u32(hasSeries, e.Series)
	w.varint(hasIAge, uint64(max(int64(e.IAge)+1, 0)))
	w.varint(hasMisfits, uint64(e.Misfits))
	w.varint(hasForged, uint64(e.Forged))
	w.varint(hasHeaders, uint64(e.Headers))
	w.varint(hasMajor, uint64(e.Claim.Major))
	return w.dst, w.has
}

var errEvent = errors.New("stream: malformed event")

type reader struct {
	varint.Reader
	has uint32
}

func (r *reader) u64(bit uint32) uint64 {
	if r.has&bit == 0 {
		return 0
	}
	return r.U64()
}

func (r *reader) u32(bit uint32) uint32 {
	if r.has&bit == 0 {
		return 0
	}
	return r.U32()
}

func (r *reader) uint(bit uint32, limit uint64) uint64 {
	if r.has&bit == 0 {
		return 0
	}
	return r.Uint(limit)
}

func (r *reader) subject() (s identity.Subject) {
	kind := r.Byte()
	s.Kind = identity.Kind(kind & kindMask)
	switch {
	case kind&shortIPv4 != 0:
		s.ID[10], s.ID[11] = 0xff, 0xff
		copy(s.ID[12:], r.Bytes(4))
	case kind&shortIPv6 != 0:
		copy(s.ID[:8], r.Bytes(8))
	default:
		copy(s.ID[:], r.Bytes(16))
	}
	if s.Kind == identity.KindNone || s.Kind > identity.KindIP {
		r.Bad = true
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
	r := reader{Reader: varint.Reader{Src: b[2 : 2+n]}}
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

func (r *reader) fields(e *verdict.Event) {
	if r.has&hasYoung != 0 {
		e.Young = r.subject()
	}
	if r.has&hasMark != 0 {
		e.Mark = label.Mark{Label: label.Label(r.Byte()), Source: label.Source(r.Byte())}
	}
	if r.has&hasEvidence != 0 {
		e.Evidence.Known, e.Evidence.Probes = r.Byte()&1 != 0, request.Probes(r.Byte())
	}
	e.Status = uint16(r.uint(hasStatus, math.MaxUint16)) //nolint:gosec // bounded, as are those below
	e.BytesOut = r.uint(hasBytes, math.MaxUint64)
	took := r.uint(hasTook, uint64(math.MaxInt64/time.Microsecond))
	e.Took = time.Duration(took) * time.Microsecond //nolint:gosec // bounded
	e.Path = r.u64(hasPath)
	e.PathShape = r.u64(hasPathShape)
	e.Agent = r.u64(hasAgent)
	e.Client = r.u32(hasClient)
	e.Shape = r.u64(hasShape)
	e.Language = r.u32(hasLanguage)
	e.JA4 = r.u64(hasJA4)
	e.Frames = r.u64(hasFrames)
	e.RefererPath = r.u32(hasRefererPath)
	e.Browser = r.u32(hasBrowser)
	e.Target = r.u64(hasTarget)
	e.Number = uint32(r.uint(hasNumber, math.MaxUint32)) //nolint:gosec // bounded
	e.Series = r.u32(hasSeries)
	e.IAge = int32(int64(r.uint(hasIAge, math.MaxInt32+1)) - 1) //nolint:gosec // bounded
	e.Misfits = client.Misfits(r.uint(hasMisfits, math.MaxUint16))
	e.Forged = uint8(r.uint(hasForged, math.MaxUint8)) //nolint:gosec // bounded
	e.Headers = client.Headers(r.uint(hasHeaders, math.MaxUint32))
	e.Claim.Major = uint16(r.uint(hasMajor, math.MaxUint16)) //nolint:gosec // bounded
}
