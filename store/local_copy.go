package store

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"time"
)

// A copy is a file of keys and values: what a gateway knew of a shared store when it wrote the file. A gateway starts from
// it when the store is unavailable or has lost its data. It begins with a line that names its version and the time of
// writing, and ends with a checksum of everything before it.

const (
	copyMagic = "antirobot copy 1\n"
	copyHead  = len(copyMagic) + 8
	maxCopied = 1 << 20 // bytes of a key or a value
)

// errCopy is returned for a file that is not a copy, or is incomplete.
var errCopy = errors.New("store: not a whole copy")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Copied is one entry of a copy.
type Copied struct {
	Key, Val []byte
	Until    time.Time // zero: no expiry
}

// WriteCopy writes a copy of everything that each yields, mode 0600: either the whole file or nothing.
func WriteCopy(path string, at time.Time, each func(put func(Copied) error) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".copy.*")
	if err != nil {
		return fmt.Errorf("write copy: %w", err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("write copy: %w", errors.Join(err, f.Close()))
			_ = os.Remove(f.Name())
		}
	}()
	sum := crc32.New(castagnoli)
	w := bufio.NewWriterSize(io.MultiWriter(f, sum), 64<<10)
	line := binary.BigEndian.AppendUint64([]byte(copyMagic), uint64(at.UnixMilli())) //nolint:gosec // read back as it is
	if _, err := w.Write(line); err != nil {
		return err
	}
	err = each(func(c Copied) error {
		line = appendCopied(line[:0], &c)
		_, err := w.Write(line)
		return err
	})
	if err = errors.Join(err, w.Flush()); err != nil {
		return err
	}
	if _, err = f.Write(binary.BigEndian.AppendUint32(nil, sum.Sum32())); err != nil {
		return err
	}
	if err = f.Sync(); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return err
	}
	return f.Close()
}

func appendCopied(dst []byte, c *Copied) []byte {
	until := int64(0)
	if !c.Until.IsZero() {
		until = max(c.Until.UnixMilli(), 1)
	}
	dst = binary.AppendUvarint(dst, uint64(len(c.Key)))
	dst = append(dst, c.Key...)
	dst = binary.AppendUvarint(dst, uint64(len(c.Val)))
	dst = append(dst, c.Val...)
	return binary.BigEndian.AppendUint64(dst, uint64(until)) //nolint:gosec // read back as it is
}

// ReadCopy calls f with each entry of a copy and returns when the copy was written. For an incomplete file it returns
// errCopy without calling f; for an absent one, fs.ErrNotExist. The bytes of an entry are valid only during the call.
func ReadCopy(path string, f func(Copied) error) (at time.Time, err error) {
	file, err := os.Open(path)
	if err != nil {
		return at, fmt.Errorf("read copy: %w", err)
	}
	defer func() { _ = file.Close() }() // the file was only read
	info, err := file.Stat()
	if err != nil {
		return at, fmt.Errorf("read copy: %w", err)
	}
	body := info.Size() - crc32.Size
	if body < int64(copyHead) {
		return at, fmt.Errorf("read copy: %s: %w", path, errCopy)
	}
	sum := crc32.New(castagnoli)
	if _, err := io.Copy(sum, io.NewSectionReader(file, 0, body)); err != nil {
		return at, fmt.Errorf("read copy: %w", err)
	}
	var end [crc32.Size]byte
	if _, err := file.ReadAt(end[:], body); err != nil {
		return at, fmt.Errorf("read copy: %w", err)
	}
	if binary.BigEndian.Uint32(end[:]) != sum.Sum32() {
		return at, fmt.Errorf("read copy: %s: %w", path, errCopy)
	}
	if at, err = parseCopy(io.NewSectionReader(file, 0, body), f); err != nil {
		return at, fmt.Errorf("read copy: %s: %w", path, err)
	}
	return at, nil
}

// parseCopy reads everything before the checksum.
func parseCopy(r io.Reader, f func(Copied) error) (at time.Time, err error) {
	in := bufio.NewReaderSize(r, 64<<10)
	var head [copyHead]byte
	if _, err := io.ReadFull(in, head[:]); err != nil || !bytes.HasPrefix(head[:], []byte(copyMagic)) {
		return at, errCopy
	}
	at = time.UnixMilli(int64(binary.BigEndian.Uint64(head[len(copyMagic):]))) //nolint:gosec // as it was written
	var c Copied
	var room [8]byte
	for {
		if c.Key, err = readCopied(in, c.Key[:0]); errors.Is(err, io.EOF) {
			return at, nil
		}
		if err == nil {
			c.Val, err = readCopied(in, c.Val[:0])
		}
		if err == nil {
			_, err = io.ReadFull(in, room[:])
		}
		if err != nil {
			return at, errCopy
		}
		c.Until = time.Time{}
		if ms := int64(binary.BigEndian.Uint64(room[:])); ms != 0 { //nolint:gosec // as it was written
			c.Until = time.UnixMilli(ms)
		}
		if err := f(c); err != nil {
			return at, err
		}
	}
}

// readCopied reads a length and that many bytes. io.EOF means that nothing was left.
func readCopied(in *bufio.Reader, dst []byte) ([]byte, error) {
	n, err := binary.ReadUvarint(in)
	if err != nil {
		return dst, err
	}
	if n > maxCopied {
		return dst, errCopy
	}
	dst = append(dst, make([]byte, n)...)
	if _, err := io.ReadFull(in, dst); err != nil {
		return dst, errCopy
	}
	return dst, nil
}
