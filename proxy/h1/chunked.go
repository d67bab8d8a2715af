package h1

import (
	"bufio"
	"errors"
	"io"
	"strconv"

	"antirobot/request"
)

// errChunk is any violation of RFC 9112 section 7.1.
var errChunk = errors.New("malformed chunked body")

const (
	maxChunkDigits = 15      // hexadecimal: a size stays within int64
	maxChunkExt    = 4 << 10 // bytes of extensions of one chunk
	maxChunkWaste  = 1 << 20 // bytes of framing beyond what ordinary bodies need: a flood of extensions ends here
)

// chunks decodes one chunked body. It is reused: start with reset.
type chunks struct {
	left    int64 // of the current chunk
	inside  bool  // the current chunk's CRLF is still to come
	done    bool
	spaced  bool  // accept white space after a size, with which some old services pad
	waste   int64 // bytes of extensions so far
	limits  struct{ bytes, fields int }
	trailer head // its fields are valid when done
}

func (d *chunks) reset(spaced bool, maxBytes, maxFields int) {
	d.left, d.inside, d.done, d.spaced, d.waste = 0, false, false, spaced, 0
	d.limits.bytes, d.limits.fields = maxBytes, maxFields
	d.trailer.raw = d.trailer.raw[:0]
	d.trailer.reset()
}

// read decodes at least one byte of data into p, or returns io.EOF once the last chunk and the trailers are read.
func (d *chunks) read(r *bufio.Reader, s source, p []byte) (int, error) {
	if d.done {
		return 0, io.EOF
	}
	if d.left == 0 {
		if err := d.next(r, s); err != nil {
			return 0, err
		}
		if d.done {
			return 0, io.EOF
		}
	}
	if int64(len(p)) > d.left {
		p = p[:d.left]
	}
	n, err := s.read(p)
	d.left -= int64(n)
	return n, err
}

// next reads the end of the previous chunk and the size of the next one; after the last one, the trailers.
func (d *chunks) next(r *bufio.Reader, s source) error {
	if d.inside {
		for _, want := range [2]byte{'\r', '\n'} {
			c, err := readByte(r, s)
			if err != nil {
				return err
			}
			if c != want {
				return errChunk
			}
		}
		d.inside = false
	}
	size, err := d.size(r, s)
	if err != nil {
		return err
	}
	if size > 0 {
		d.left, d.inside = size, true
		return nil
	}
	d.trailer.raw, err = readHead(r, s, d.trailer.raw[:0], lineRules{max: d.limits.bytes})
	if err == nil {
		err = d.trailer.parseFields(d.trailer.raw, d.limits.fields, false)
	}
	if _, ok := err.(refusal); ok { //nolint:errorlint // it is never wrapped
		return errChunk
	}
	d.done = err == nil
	return err
}

// size reads the line of a chunk's size. Extensions are dropped.
func (d *chunks) size(r *bufio.Reader, s source) (int64, error) {
	var n int64
	digits := 0
	c, err := readByte(r, s)
	for ; err == nil; c, err = readByte(r, s) {
		v := request.Unhex(c)
		if v < 0 {
			break
		}
		if digits++; digits > maxChunkDigits {
			return 0, errChunk
		}
		n = n<<4 | int64(v)
	}
	if err == nil && digits == 0 {
		return 0, errChunk
	}
	for ; err == nil && d.spaced && (c == ' ' || c == '\t'); c, err = readByte(r, s) {
		if d.waste++; d.waste > maxChunkWaste {
			return 0, errChunk
		}
	}
	if err == nil && c == ';' {
		c, err = d.skipExtension(r, s)
	}
	if err != nil {
		return 0, err
	}
	if c != '\r' {
		return 0, errChunk
	}
	if c, err = readByte(r, s); err != nil {
		return 0, err
	}
	if c != '\n' {
		return 0, errChunk
	}
	return n, nil
}

// skipExtension returns the byte that ends the extensions of one chunk.
func (d *chunks) skipExtension(r *bufio.Reader, s source) (byte, error) {
	for i := 0; i < maxChunkExt; i++ {
		c, err := readByte(r, s)
		if err != nil || classes[c]&isValue == 0 {
			return c, err
		}
		if d.waste++; d.waste > maxChunkWaste {
			break
		}
	}
	return 0, errChunk
}

func readByte(r *bufio.Reader, s source) (byte, error) {
	if r.Buffered() == 0 {
		if err := s.fill(); err != nil {
			return 0, err
		}
	}
	return r.ReadByte() //nolint:wrapcheck // a byte is buffered
}

// chunkRoom is what a chunk's frame needs before its data: up to 8 hexadecimal digits and CRLF.
const chunkRoom = 10

// frameChunk turns buf, which holds n > 0 bytes of data from chunkRoom on, into one chunk and returns it.
func frameChunk(buf []byte, n int) []byte {
	var tmp [chunkRoom]byte
	size := append(strconv.AppendInt(tmp[:0], int64(n), 16), '\r', '\n')
	begin := chunkRoom - len(size)
	copy(buf[begin:], size)
	end := chunkRoom + n
	buf[end], buf[end+1] = '\r', '\n'
	return buf[begin : end+2]
}

// Trailers are the fields after a body. The zero value has none.
type Trailers struct {
	fields []request.Field
	drop   func(name []byte) bool // those that are not passed on; nil: none
}

// Each calls f for each field that may be passed on. Name and value are borrowed.
func (t Trailers) Each(f func(name, value []byte)) {
	for i := range t.fields {
		if t.passes(i) {
			f(t.fields[i].Name, t.fields[i].Value)
		}
	}
}

func (t Trailers) passes(i int) bool {
	name := t.fields[i].Name
	return trailerAllowed(name) && (t.drop == nil || !t.drop(name))
}

// appendLastChunk appends the end of a chunked body with those trailer fields that may be passed on.
func appendLastChunk(dst []byte, t Trailers) []byte {
	dst = append(dst, "0\r\n"...)
	for i := range t.fields {
		if t.passes(i) {
			dst = appendField(dst, t.fields[i].Name, t.fields[i].Value)
		}
	}
	return append(dst, "\r\n"...)
}

// trailerAllowed refuses as trailers what RFC 9110 section 6.5.1 requires before the body: framing, routing,
// authentication, and how to read the body. A service that merges trailers into the header would trust them.
func trailerAllowed(name []byte) bool {
	if kindOf(name) != plain {
		return false
	}
	for _, s := range [...]string{
		"authorization", "set-cookie", "content-encoding", "content-type", "content-range", "cache-control", "age",
		"expires", "location", "retry-after", "vary", "warning", "pragma", "range", "www-authenticate", "if-match",
		"if-none-match", "if-modified-since", "if-unmodified-since", "if-range", "origin", "x-request-id",
	} {
		if request.EqualFold(name, s) {
			return false
		}
	}
	return !request.HasPrefixFold(name, "x-antirobot-") && !request.HasPrefixFold(name, "x-accel-")
}

func appendField(dst, name, value []byte) []byte {
	dst = append(dst, name...)
	dst = append(dst, ": "...)
	dst = append(dst, value...)
	return append(dst, "\r\n"...)
}
