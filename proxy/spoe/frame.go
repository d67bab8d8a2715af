package spoe

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net/netip"

	"antirobot/request"
)

const (
	helloFrame      = 1
	goodbyeFrame    = 2
	notifyFrame     = 3
	ourHelloFrame   = 101
	ourGoodbyeFrame = 102
	ackFrame        = 103
)

const (
	flagEnd   = 1 // frames are not fragmented here
	flagAbort = 2
)

// Bounds of a frame, without its length.
const (
	minFrame = 256
	maxFrame = 64 << 10
	headSize = 5 // kind and flags
)

var (
	errFrame   = errors.New("a frame is broken")
	errTooLong = errors.New("a frame is longer than agreed")
)

// frame is a message. Its payload is borrowed until the next frame.
type frame struct {
	kind       byte
	flags      uint32
	stream, id uint64
	payload    []byte
}

// readFrame reads a frame of at most limit bytes into buf, which it returns for the next one.
func readFrame(r *bufio.Reader, buf []byte, limit int) (f frame, _ []byte, err error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return f, buf, err
	}
	n := binary.BigEndian.Uint32(length[:])
	if n > uint32(limit) {
		return f, buf, errTooLong
	}
	if cap(buf) < int(n) {
		buf = make([]byte, n)
	}
	buf = buf[:n]
	if _, err := io.ReadFull(r, buf); err != nil {
		return f, buf, err
	}
	f, err = parseFrame(buf)
	return f, buf, err
}

func parseFrame(p []byte) (f frame, err error) {
	if len(p) < headSize {
		return f, errFrame
	}
	f.kind, f.flags = p[0], binary.BigEndian.Uint32(p[1:])
	d := decoder{p: p[headSize:]}
	f.stream, f.id = d.number(), d.number()
	f.payload = d.p
	if d.bad {
		return f, errFrame
	}
	return f, nil
}

func appendFrame(dst []byte, kind byte, stream, id uint64, body func(dst []byte) []byte) []byte {
	at := len(dst)
	dst = append(dst, 0, 0, 0, 0, kind)
	dst = binary.BigEndian.AppendUint32(dst, flagEnd)
	dst = appendNumber(appendNumber(dst, stream), id)
	dst = body(dst)
	binary.BigEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
	return dst
}

const (
	typeNull = iota
	typeBool
	typeInt32
	typeUint32
	typeInt64
	typeUint64
	typeIPv4
	typeIPv6
	typeString
	typeBinary

	typeMask = 0x0f
	trueFlag = 0x10
)

// value is one typed value; kind selects its field.
type value struct {
	kind byte
	yes  bool
	n    uint64
	text []byte
}

// decoder reads a payload. After an error it returns zero values, and bad is set.
type decoder struct {
	p   []byte
	bad bool
}

func (d *decoder) fail() {
	d.p, d.bad = nil, true
}

func (d *decoder) byte() byte {
	if len(d.p) == 0 {
		d.fail()
		return 0
	}
	b := d.p[0]
	d.p = d.p[1:]
	return b
}

func (d *decoder) number() uint64 {
	b := d.byte()
	n := uint64(b)
	if b < 240 {
		return n
	}
	for shift := 4; ; shift += 7 {
		b = d.byte()
		if d.bad || shift > 60 {
			d.fail()
			return 0
		}
		n += uint64(b) << shift
		if b < 128 {
			return n
		}
	}
}

func (d *decoder) take(n uint64) []byte {
	if n > uint64(len(d.p)) {
		d.fail()
		return nil
	}
	b := d.p[:n:n]
	d.p = d.p[n:]
	return b
}

func (d *decoder) text() []byte { return d.take(d.number()) }

func (d *decoder) value() value {
	b := d.byte()
	v := value{kind: b & typeMask}
	switch v.kind {
	case typeNull:
	case typeBool:
		v.yes = b&trueFlag != 0
	case typeInt32, typeUint32, typeInt64, typeUint64:
		v.n = d.number()
	case typeIPv4:
		v.text = d.take(4)
	case typeIPv6:
		v.text = d.take(16)
	case typeString, typeBinary:
		v.text = d.text()
	default:
		d.fail()
	}
	return v
}

// address returns an address; invalid: another kind.
func (v *value) address() netip.Addr {
	if v.kind != typeIPv4 && v.kind != typeIPv6 {
		return netip.Addr{}
	}
	a, _ := netip.AddrFromSlice(v.text)
	return request.Unwrap(a)
}

func appendNumber(dst []byte, n uint64) []byte {
	if n < 240 {
		return append(dst, byte(n))
	}
	dst = append(dst, byte(n)|240)
	n = (n - 240) >> 4
	for n >= 128 {
		dst = append(dst, byte(n)|128)
		n = (n - 128) >> 7
	}
	return append(dst, byte(n))
}

func appendText(dst, text []byte) []byte {
	return append(appendNumber(dst, uint64(len(text))), text...)
}

func appendString(dst []byte, name string, text []byte) []byte {
	dst = appendText(dst, []byte(name))
	return appendText(append(dst, typeString), text)
}

func appendUint32(dst []byte, name string, n uint64) []byte {
	dst = appendText(dst, []byte(name))
	return appendNumber(append(dst, typeUint32), n)
}

func appendVariable(dst []byte, name string, text []byte) []byte {
	const setVariable, arguments, transaction = 1, 3, 2
	return appendString(append(dst, setVariable, arguments, transaction), name, text)
}
