// Package frames stores payloads in files, each behind a mark, its length and its checksum. A reader skips damage up to
// the next mark: a torn tail or a bad sector costs its own payloads only.
package frames

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
)

const (
	mark = "\xa7AR\x1a"
	// Head is the size of a frame's head: mark, length and checksum.
	Head = len(mark) + 8
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Reserve appends room for a frame's head. The payload follows, then Seal.
func Reserve(dst []byte) []byte { return append(append(dst, mark...), 0, 0, 0, 0, 0, 0, 0, 0) }

// Seal completes the frame from start to the end of dst. Its payload is not empty.
func Seal(dst []byte, start int) []byte {
	payload := dst[start+Head:]
	binary.BigEndian.PutUint32(dst[start+4:], uint32(len(payload))) //nolint:gosec // files have smaller bounds
	binary.BigEndian.PutUint32(dst[start+8:], crc32.Checksum(payload, castagnoli))
	return dst
}

// Append appends the frame of a payload.
func Append(dst, payload []byte) []byte {
	start := len(dst)
	return Seal(append(Reserve(dst), payload...), start)
}

// ErrDamaged is returned by Reader.Next after it skipped damage.
var ErrDamaged = errors.New("frames: damaged")

// Reader reads frames. Made by NewReader.
type Reader struct {
	in  *bufio.Reader
	max uint32
}

// NewReader returns a Reader; larger payloads are damage.
func NewReader(r io.Reader, maxPayload int) *Reader {
	return &Reader{bufio.NewReaderSize(r, Head+maxPayload), uint32(maxPayload)} //nolint:gosec // a constant
}

// Next returns the next payload, valid until the next call and never empty; ErrDamaged, after which more may follow; or
// io.EOF.
func (r *Reader) Next() ([]byte, error) {
	head, err := r.in.Peek(Head)
	if len(head) == 0 {
		return nil, err
	}
	if len(head) == Head && string(head[:len(mark)]) == mark {
		size, sum := binary.BigEndian.Uint32(head[4:]), binary.BigEndian.Uint32(head[8:])
		if size > 0 && size <= r.max {
			frame, err := r.in.Peek(Head + int(size))
			if err != nil && !errors.Is(err, io.EOF) {
				return nil, err
			}
			if err == nil && crc32.Checksum(frame[Head:], castagnoli) == sum {
				_, err = r.in.Discard(len(frame)) // the bytes stay where they are until the next read
				return frame[Head:], err
			}
		}
	}
	return nil, r.skip()
}

func (r *Reader) skip() error {
	_, _ = r.in.Discard(1) // the head was there
	for {
		rest, err := r.in.Peek(max(r.in.Buffered(), len(mark)))
		i := bytes.Index(rest, []byte(mark))
		found := i >= 0
		if !found {
			if i = len(rest) - len(mark) + 1; err != nil {
				i = len(rest)
			}
		}
		_, _ = r.in.Discard(i) // it was there
		switch {
		case found, errors.Is(err, io.EOF):
			return ErrDamaged
		case err != nil:
			return err
		}
	}
}

// WriteTemp writes and syncs a temporary file next to path, mode 0600. The caller renames or drops it.
func WriteTemp(path string, write func(w io.Writer) error) (*os.File, error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return nil, err
	}
	w := bufio.NewWriterSize(f, 64<<10)
	if err = errors.Join(write(w), w.Flush()); err == nil {
		err = f.Sync()
	}
	if err != nil {
		Drop(f)
		return nil, err
	}
	return f, nil
}

// Drop closes and removes a file of WriteTemp.
func Drop(f *os.File) {
	_ = f.Close() // an earlier error is the one to report
	_ = os.Remove(f.Name())
}

// Replace replaces a file: either the whole file or nothing.
func Replace(path string, write func(w io.Writer) error) error {
	f, err := WriteTemp(path, write)
	if err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		Drop(f)
		return err
	}
	return f.Close()
}
