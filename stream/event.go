package stream

import (
	"encoding/binary"
	"errors"
	"math"
	"time"

	"antirobot/identity"
	"antirobot/request"
	"antirobot/verdict"
	"antirobot/verdict/client"
	"antirobot/verdict/label"
)

// An event on the wire: its length, bits, bits that say which fields follow, single bytes, subjects, and those fields. What
// is zero takes no room. A later version may add fields at the end, which an earlier one passes over.

// maxEvent is how many bytes an event takes at most, with its length.
const maxEvent = 384

// Above the bits of what is true or false, see flags, are verdict, mode, type and kind.
const (
	atVerdict = 18 // 2 bits
	atMode    = 20 // 2
	atType    = 22 // 4
	atKind    = 26 // 3
	atQUIC    = 29
	atWeakBan = 30
	atBanned  = 31 // OnBanned
)

// flags are the event's fields that are true or false, in the order of their bits, which is part of the format.
func flags(e *verdict.Event) [18]*bool {
	return [...]*bool{
		&e.Paid, &e.Own, &e.Crawler, &e.Static, &e.Document, &e.Advised, &e.Work, &e.Partial, &e.Partner, &e.Liar, &e.Secure, &e.Direct,
		&e.HTTP10, &e.HTTP2, &e.Query, &e.Page, &e.WantsHTML, &e.Claim.Mobile,
	}
}

// The fields that are there only if they say something.
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

// appendEvent appends an event whose time is given from a base; service is the name of its service, see Services.
func appendEvent(dst []byte, e *verdict.Event, service uint32, base int64) []byte {
	begin := len(dst)
	dst = append(dst, 0, 0) // the length
	bits := uint32(e.Verdict&3)<<atVerdict | uint32(e.Mode&3)<<atMode | uint32(e.Type&15)<<atType | uint32(e.Kind&7)<<atKind
	for i, f := range flags(e) {
		if *f {
			bits |= 1 << i
		}
	}
	if e.QUIC {
		bits |= 1 << atQUIC
	}
	if e.WeakBan {
		bits |= 1 << atWeakBan
	}
	if e.OnBanned {
		bits |= 1 << atBanned
	}
	dst = binary.LittleEndian.AppendUint32(dst, bits)
	at := len(dst)
	dst = append(dst, 0, 0, 0) // which fields there are
	dst = append(dst, byte(e.Cause), e.Method, byte(e.Asked), byte(e.Site)<<4|byte(e.Referer)&15, byte(e.Cookies), byte(e.PathKind), e.Depth,
		byte(e.Software), byte(e.Claim.Family), byte(e.Claim.System), byte(e.Lag))
	dst = binary.LittleEndian.AppendUint32(dst, service)
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

// fieldWriter appends the fields that say something.
type fieldWriter struct {
	dst []byte
	has uint32
}

func (w *fieldWriter) u64(bit uint32, v uint64) {
	if v != 0 {
		w.has |= bit
		w.dst = binary.LittleEndian.AppendUint64(w.dst, v)
	}
}

func (w *fieldWriter) u32(bit, v uint32) {
	if v != 0 {
		w.has |= bit
		w.dst = binary.LittleEndian.AppendUint32(w.dst, v)
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
		w.dst = appendEvidence(w.dst, &e.Evidence)
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

func appendEvidence(dst []byte, e *request.Evidence) []byte {
	known := byte(0)
	if e.Known {
		known = 1
	}
	return append(dst, known, byte(e.Probes))
}

var errEvent = errors.New("stream: malformed event")

// reader takes fields off an event. After the first that is missing all are zero, and bad is set.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if len(r.b) < n {
		r.bad, r.b = true, nil
		return make([]byte, n)
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) byte() byte { return r.take(1)[0] }

func (r *reader) u64(has, bit uint32) uint64 {
	if has&bit == 0 {
		return 0
	}
	return binary.LittleEndian.Uint64(r.take(8))
}

func (r *reader) u32(has, bit uint32) uint32 {
	if has&bit == 0 {
		return 0
	}
	return binary.LittleEndian.Uint32(r.take(4))
}

func (r *reader) varint(has, bit uint32, most uint64) uint64 {
	if has&bit == 0 {
		return 0
	}
	v, n := binary.Uvarint(r.b)
	if n <= 0 || v > most {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) subject() (s identity.Subject) {
	kind := r.byte()
	s.Kind = identity.Kind(kind & kindMask)
	switch {
	case kind&shortIPv4 != 0:
		s.ID[10], s.ID[11] = 0xff, 0xff
		copy(s.ID[12:], r.take(4))
	case kind&shortIPv6 != 0:
		copy(s.ID[:8], r.take(8))
	default:
		copy(s.ID[:], r.take(16))
	}
	if s.Kind == identity.KindNone || s.Kind > identity.KindIP {
		r.bad = true
	}
	return s
}

// readEvent reads the event that b begins with, and returns the name of its service and what follows it.
func readEvent(e *verdict.Event, b []byte, base int64) (service uint32, rest []byte, err error) {
	if len(b) < 2 {
		return 0, nil, errEvent
	}
	n := int(binary.LittleEndian.Uint16(b))
	if n > len(b)-2 {
		return 0, nil, errEvent
	}
	r := reader{b: b[2 : 2+n]}
	rest = b[2+n:]
	*e = verdict.Event{}
	bits := binary.LittleEndian.Uint32(r.take(4))
	for i, f := range flags(e) {
		*f = bits>>i&1 == 1
	}
	e.Verdict, e.Mode = verdict.Verdict(bits>>atVerdict&3), verdict.Mode(bits>>atMode&3)
	e.Type, e.Kind = verdict.Type(bits>>atType&15), verdict.EventKind(bits>>atKind&7)
	e.QUIC, e.WeakBan, e.OnBanned = bits>>atQUIC&1 == 1, bits>>atWeakBan&1 == 1, bits>>atBanned&1 == 1
	h := r.take(3)
	has := uint32(h[0]) | uint32(h[1])<<8 | uint32(h[2])<<16
	x := r.take(11)
	e.Cause, e.Method, e.Asked, e.Site, e.Referer = verdict.Cause(x[0]), x[1], request.Kind(x[2]), client.Site(x[3]>>4), client.Referer(x[3]&15)
	e.Cookies, e.PathKind, e.Depth, e.Software = client.Cookies(x[4]), client.PathKind(x[5]), x[6], client.Software(x[7])
	e.Claim.Family, e.Claim.System, e.Lag = client.Family(x[8]), client.System(x[9]), client.Lag(x[10])
	service = binary.LittleEndian.Uint32(r.take(4))
	if offset, n := binary.Varint(r.b); n > 0 {
		r.b = r.b[n:]
		e.At = time.UnixMicro(base + offset)
	} else {
		r.bad = true
	}
	e.N = r.byte()
	if e.N == 0 || int(e.N) > len(e.Subjects) || int(e.Cause) >= verdict.Causes || e.Mode > verdict.Off || e.Kind > verdict.EventEvidence {
		return 0, rest, errEvent
	}
	for i := range e.N {
		e.Subjects[i] = r.subject()
	}
	r.fields(e, has)
	if r.bad || e.Type > verdict.TypeFeed {
		return 0, rest, errEvent
	}
	return service, rest, nil
}

func (r *reader) fields(e *verdict.Event, has uint32) {
	if has&hasYoung != 0 {
		e.Young = r.subject()
	}
	if has&hasMark != 0 {
		b := r.take(2)
		e.Mark = label.Mark{Label: label.Label(b[0]), Source: label.Source(b[1])}
	}
	if has&hasEvidence != 0 {
		r.evidence(&e.Evidence)
	}
	e.Status = uint16(r.varint(has, hasStatus, math.MaxUint16)) //nolint:gosec // bounded, as are those below
	e.BytesOut = r.varint(has, hasBytes, math.MaxUint64)
	e.Took = time.Duration(r.varint(has, hasTook, uint64(math.MaxInt64/time.Microsecond))) * time.Microsecond //nolint:gosec // bounded
	e.Path = r.u64(has, hasPath)
	e.PathShape = r.u64(has, hasPathShape)
	e.Agent = r.u64(has, hasAgent)
	e.Client = r.u32(has, hasClient)
	e.Shape = r.u64(has, hasShape)
	e.Language = r.u32(has, hasLanguage)
	e.JA4 = r.u64(has, hasJA4)
	e.Frames = r.u64(has, hasFrames)
	e.RefererPath = r.u32(has, hasRefererPath)
	e.Browser = r.u32(has, hasBrowser)
	e.Target = r.u64(has, hasTarget)
	e.Number = uint32(r.varint(has, hasNumber, math.MaxUint32)) //nolint:gosec // bounded
	e.Series = r.u32(has, hasSeries)
	e.IAge = int32(int64(r.varint(has, hasIAge, math.MaxInt32+1)) - 1) //nolint:gosec // bounded
	e.Misfits = client.Misfits(r.varint(has, hasMisfits, math.MaxUint16))
	e.Forged = uint8(r.varint(has, hasForged, math.MaxUint8)) //nolint:gosec // bounded
	e.Headers = client.Headers(r.varint(has, hasHeaders, math.MaxUint32))
	e.Claim.Major = uint16(r.varint(has, hasMajor, math.MaxUint16)) //nolint:gosec // bounded
}

func (r *reader) evidence(e *request.Evidence) {
	b := r.take(2)
	e.Known, e.Probes = b[0]&1 != 0, request.Probes(b[1])
}
