package traces

import (
	"encoding/binary"
	"encoding/hex"
	"math"

	"antirobot/request"
)

// Context is a request's place in a trace. Zero: not traced.
type Context struct {
	trace                   [16]byte
	parent, whole, decision [8]byte
	call                    [8]byte
	sampled                 bool
	text                    [headerLength]byte // of Header
}

// traceparent, version 00 (W3C Trace Context): version-trace-parent-flags.
const (
	headerLength = 2 + 1 + 32 + 1 + 16 + 1 + 2
	flagSampled  = 1
)

// Sampled reports whether the request is traced.
func (c *Context) Sampled() bool { return c.sampled }

// Header returns the service's traceparent, valid as long as c.
func (c *Context) Header() []byte {
	b := append(c.text[:0], "00-"...)
	b = hex.AppendEncode(b, c.trace[:])
	b = hex.AppendEncode(append(b, '-'), c.call[:])
	return append(b, "-01"...)
}

// ID returns the trace's ID; zeros: not traced.
func (c *Context) ID() [16]byte {
	if !c.sampled {
		return [16]byte{}
	}
	return c.trace
}

// AppendID appends the trace's ID in text.
func (c *Context) AppendID(dst []byte) []byte { return hex.AppendEncode(dst, c.trace[:]) }

// begin samples a request. A trace that begins here has the request's ID.
func (c *Context) begin(rid request.ID, traceparent []byte, trusted bool, share uint32) {
	*c = Context{}
	flags, ok := c.parse(traceparent)
	if ok && trusted {
		c.sampled = flags&flagSampled != 0
	} else {
		c.sampled = binary.LittleEndian.Uint32(rid[9:13]) < share
	}
	if !c.sampled {
		return
	}
	if !ok {
		c.trace = rid
	}
	var name [16 + 8 + 1]byte
	copy(name[copy(name[:], rid[:]):], c.parent[:])
	for i, span := range [...]*[8]byte{&c.whole, &c.decision, &c.call} {
		name[24] = byte(i)
		binary.BigEndian.PutUint64(span[:], request.Hash(name[:])|1) // never zero
	}
}

func (c *Context) parse(text []byte) (flags byte, ok bool) {
	if len(text) < headerLength || text[2] != '-' || text[35] != '-' || text[52] != '-' {
		return 0, false
	}
	var version, last [1]byte
	for _, part := range [...]struct {
		dst, text []byte
	}{{version[:], text[:2]}, {c.trace[:], text[3:35]}, {c.parent[:], text[36:52]}, {last[:], text[53:55]}} {
		if !unhex(part.dst, part.text) {
			*c = Context{}
			return 0, false
		}
	}
	longer := len(text) > headerLength
	if version[0] == 0xff || version[0] == 0 && longer || longer && text[headerLength] != '-' ||
		c.trace == [16]byte{} || c.parent == [8]byte{} {
		*c = Context{}
		return 0, false
	}
	return last[0], true
}

func unhex(dst, text []byte) bool {
	for _, b := range text {
		if 'A' <= b && b <= 'F' {
			return false
		}
	}
	_, err := hex.Decode(dst, text)
	return err == nil
}

// bound returns the limit below which a share of 2^32 random numbers lies.
func bound(share float64) uint32 { return uint32(min(share*(1<<32), math.MaxUint32)) }
