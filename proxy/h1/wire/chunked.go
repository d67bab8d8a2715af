package wire

import (
	"bufio"
	"errors"
	"io"
	"strconv"

	"antirobot/request"
)

// ErrChunk is any violation of RFC 9112 section 7.1.
var ErrChunk = errors.New("malformed chunked body")

const (
	maxChunkDigits = 15      // hexadecimal: fits int64
	maxChunkExt    = 4 << 10 // bytes, of one chunk
	maxChunkWaste  = 1 << 20 // bytes of framing beyond ordinary needs
)

// Chunks decodes a chunked body. Start with Reset. To pass data on without copying, call Next when Left is 0, subtract
// what is read from Left, until Done.
type Chunks struct {
	Left    int64 // of the chunk
	Inside  bool  // the chunk's CRLF is still to come
	Done    bool
	spaced  bool  // accept white space after a size (old services)
	waste   int64 // bytes of extensions
	limits  struct{ bytes, fields int }
	Trailer Head // valid when done
}

// Reset begins a body. spaced accepts white space after a size; maxBytes and maxFields bound the trailers.
func (d *Chunks) Reset(spaced bool, maxBytes, maxFields int) {
	d.Left, d.Inside, d.Done, d.spaced, d.waste = 0, false, false, spaced, 0
	d.limits.bytes, d.limits.fields = maxBytes, maxFields
	d.Trailer.Raw = d.Trailer.Raw[:0]
	d.Trailer.Reset()
}

// Read decodes data into p, or returns io.EOF after the trailers. s fills r. Errors are ErrChunk, and s's.
func (d *Chunks) Read(r *bufio.Reader, s Source, p []byte) (int, error) {
	if d.Done {
		return 0, io.EOF
	}
	if d.Left == 0 {
		if err := d.Next(r, s); err != nil {
			return 0, err
		}
		if d.Done {
			return 0, io.EOF
		}
	}
	if int64(len(p)) > d.Left {
		p = p[:d.Left]
	}
	n, err := s.Read(p)
	d.Left -= int64(n)
	return n, err
}

// Next reads the end of a chunk and the size of the next one; after the last, the trailers, and sets Done. Errors are
// ErrChunk, and s's.
func (d *Chunks) Next(r *bufio.Reader, s Source) error {
	if d.Inside {
		for _, want := range [2]byte{'\r', '\n'} {
			c, err := readByte(r, s)
			if err != nil {
				return err
			}
			if c != want {
				return ErrChunk
			}
		}
		d.Inside = false
	}
	size, err := d.size(r, s)
	if err != nil {
		return err
	}
	if size > 0 {
		d.Left, d.Inside = size, true
		return nil
	}
	d.Trailer.Raw, err = ReadHead(r, s, d.Trailer.Raw[:0], LineRules{Max: d.limits.bytes})
	if err == nil {
		err = d.Trailer.parseFields(d.Trailer.Raw, d.limits.fields, false)
	}
	if _, ok := err.(Refusal); ok { //nolint:errorlint // bare
		return ErrChunk
	}
	d.Done = err == nil
	return err
}

func (d *Chunks) size(r *bufio.Reader, s Source) (int64, error) {
	var n int64
	digits := 0
	c, err := readByte(r, s)
	for ; err == nil; c, err = readByte(r, s) {
		v := request.Unhex(c)
		if v < 0 {
			break
		}
		if digits++; digits > maxChunkDigits {
			return 0, ErrChunk
		}
		n = n<<4 | int64(v)
	}
	if err == nil && digits == 0 {
		return 0, ErrChunk
	}
	for ; err == nil && d.spaced && (c == ' ' || c == '\t'); c, err = readByte(r, s) {
		if d.waste++; d.waste > maxChunkWaste {
			return 0, ErrChunk
		}
	}
	if err == nil && c == ';' {
		c, err = d.skipExtension(r, s)
	}
	if err != nil {
		return 0, err
	}
	if c != '\r' {
		return 0, ErrChunk
	}
	if c, err = readByte(r, s); err != nil {
		return 0, err
	}
	if c != '\n' {
		return 0, ErrChunk
	}
	return n, nil
}

func (d *Chunks) skipExtension(r *bufio.Reader, s Source) (byte, error) {
	for i := 0; i < maxChunkExt; i++ {
		c, err := readByte(r, s)
		if err != nil || classes[c]&Value == 0 {
			return c, err
		}
		if d.waste++; d.waste > maxChunkWaste {
			break
		}
	}
	return 0, ErrChunk
}

func readByte(r *bufio.Reader, s Source) (byte, error) {
	if r.Buffered() == 0 {
		if err := s.Fill(); err != nil {
			return 0, err
		}
	}
	return r.ReadByte()
}

// ChunkRoom is the frame before a chunk's data: up to 8 hexadecimal digits and CRLF.
const ChunkRoom = 10

// FrameChunk frames the n > 0 bytes from ChunkRoom on in buf, which has two more bytes of room, as a chunk within buf.
func FrameChunk(buf []byte, n int) []byte {
	var tmp [ChunkRoom]byte
	size := append(strconv.AppendInt(tmp[:0], int64(n), 16), '\r', '\n')
	begin := ChunkRoom - len(size)
	copy(buf[begin:], size)
	end := ChunkRoom + n
	buf[end], buf[end+1] = '\r', '\n'
	return buf[begin : end+2]
}

// Trailers are the fields after a body. The zero value has none.
type Trailers struct {
	Fields []request.Field
	Drop   func(name []byte) bool // not forwarded; nil: none
}

// Each calls f for each field that may be forwarded. Borrowed.
func (t Trailers) Each(f func(name, value []byte)) {
	for i := range t.Fields {
		if t.passes(i) {
			f(t.Fields[i].Name, t.Fields[i].Value)
		}
	}
}

func (t Trailers) passes(i int) bool {
	name := t.Fields[i].Name
	return trailerAllowed(name) && (t.Drop == nil || !t.Drop(name))
}

// AppendLastChunk ends a chunked body with the trailers that may be forwarded.
func AppendLastChunk(dst []byte, t Trailers) []byte {
	dst = append(dst, "0\r\n"...)
	for i := range t.Fields {
		if t.passes(i) {
			dst = AppendField(dst, t.Fields[i].Name, t.Fields[i].Value)
		}
	}
	return append(dst, "\r\n"...)
}

// trailerAllowed implements RFC 9110 section 6.5.1: a service that merges trailers into the header would trust them.
func trailerAllowed(name []byte) bool {
	if KindOf(name) != Plain {
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

// AppendField appends a valid field.
func AppendField(dst, name, value []byte) []byte {
	dst = append(dst, name...)
	dst = append(dst, ": "...)
	dst = append(dst, value...)
	return append(dst, "\r\n"...)
}
