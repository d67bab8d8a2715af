package stream

import (
	"bufio"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"

	"antirobot/identity"
	"antirobot/verdict"
)

// Erase removes all events in which a subject is named, and returns how many there were. What was erased is gone from the files when
// it returns.
func (y *Diary) Erase(sub identity.Subject) (n int, err error) {
	y.erasing.Lock()
	defer y.erasing.Unlock()
	y.mu.Lock() // what was judged up to now is in files that nobody adds to
	y.write()
	if y.file != nil {
		err = y.file.Close()
		y.file = nil
	}
	y.mu.Unlock()
	names, e := y.files()
	err = errors.Join(err, e)
	for _, name := range names {
		gone, e := y.eraseIn(filepath.Join(y.d.Dir, name), sub)
		if errors.Is(e, fs.ErrNotExist) { // it was the oldest
			e = nil
		}
		n += gone
		err = errors.Join(err, e)
	}
	return n, err
}

// eraseIn writes a file anew without the events of a subject, if it has some.
func (y *Diary) eraseIn(path string, sub identity.Subject) (n int, err error) {
	file, err := os.Open(path) //nolint:gosec // in our own directory
	if err != nil {
		return 0, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	var kept []byte
	err = frames(bufio.NewReaderSize(file, 64<<10), func(batch []byte) error {
		rest, gone, err := without(batch, sub)
		n += gone
		kept = appendFrame(kept, rest)
		return err
	})
	if n == 0 || err != nil && !errors.Is(err, errDiary) { // the rest of a damaged file is nothing that anybody reads
		return 0, err
	}
	next := path + ".new"
	if err = os.WriteFile(next, kept, 0o600); err == nil {
		err = os.Chtimes(next, info.ModTime(), info.ModTime()) // it is as old as it was
	}
	if err == nil {
		err = os.Rename(next, path)
	}
	if err != nil {
		_ = os.Remove(next) // the first error is the one to report
		return 0, err
	}
	return n, nil
}

// without returns a batch without the events of a subject, and how many these were.
func without(batch []byte, sub identity.Subject) (rest []byte, n int, err error) {
	h, events, err := readHead(batch)
	if err != nil {
		return nil, 0, err
	}
	rest = append(rest, batch[:headLength]...)
	var e verdict.Event
	for len(events) > 0 {
		_, next, err := readEvent(&e, events, h.base)
		if err != nil {
			return nil, n, err
		}
		if names(&e, sub) {
			n++
		} else {
			rest = append(rest, events[:len(events)-len(next)]...)
		}
		events = next
	}
	return rest, n, nil
}

func names(e *verdict.Event, sub identity.Subject) bool {
	for _, s := range e.Subjects[:e.N] {
		if s == sub {
			return true
		}
	}
	return e.Young == sub
}

// appendFrame appends a batch with its length and checksum.
func appendFrame(dst, batch []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(batch))) //nolint:gosec // below diaryMost
	dst = binary.LittleEndian.AppendUint32(dst, crc32.Checksum(batch, castagnoli))
	return append(dst, batch...)
}
