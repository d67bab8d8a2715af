package store

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

// A local log is a file of records: what a gateway knows of a shared store. A gateway starts from it when the store is
// unavailable or has lost its data. Of several records with one key the last one holds.
//
// Each record stands in a frame of its own: mark (4 bytes), length (4), checksum (4), payload. A reader skips what is
// damaged and goes on at the next mark, so a torn tail or a bad sector costs the records in it and no others.

const (
	logMark     = "\xa7AR\x1a"
	logFrame    = len(logMark) + 8
	maxLogged   = 64 << 10 // bytes of a payload
	logBacklog  = 4 << 20  // bytes that may wait for the disk
	logSlack    = 1 << 20  // bytes by which a log may be longer than twice its last compaction
	logSync     = time.Second
	logPatience = time.Minute // between attempts to compact a log, and between warnings
)

// The first byte of a payload.
const (
	loggedRecord = 'r' // key and value, each after its length (uvarint), and expiry (8 bytes, unix milliseconds, 0: none)
	loggedStamp  = 't' // when the records before and after it were known to be current (8 bytes, unix milliseconds)
)

var (
	errLogged  = errors.New("store: malformed record")
	errTooLong = errors.New("store: record too long for a local log")
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// Logged is one record of a local log.
type Logged struct {
	Key, Val []byte
	Until    time.Time // zero: no expiry
}

// appendRecord appends the frame of a record; it returns dst unchanged with errTooLong.
func appendRecord(dst []byte, r *Logged) ([]byte, error) {
	if len(r.Key)+len(r.Val) > maxLogged-32 {
		return dst, errTooLong
	}
	until := int64(0)
	if !r.Until.IsZero() {
		until = max(r.Until.UnixMilli(), 1)
	}
	start := len(dst)
	dst = append(append(dst, logMark...), 0, 0, 0, 0, 0, 0, 0, 0)
	dst = append(dst, loggedRecord)
	dst = binary.AppendUvarint(dst, uint64(len(r.Key)))
	dst = append(dst, r.Key...)
	dst = binary.AppendUvarint(dst, uint64(len(r.Val)))
	dst = append(dst, r.Val...)
	dst = binary.BigEndian.AppendUint64(dst, uint64(until)) //nolint:gosec // read back as it is
	return sealFrame(dst, start), nil
}

func appendStamp(dst []byte, at time.Time) []byte {
	start := len(dst)
	dst = append(append(dst, logMark...), 0, 0, 0, 0, 0, 0, 0, 0)
	dst = append(dst, loggedStamp)
	dst = binary.BigEndian.AppendUint64(dst, uint64(at.UnixMilli())) //nolint:gosec // read back as it is
	return sealFrame(dst, start)
}

// sealFrame sets length and checksum of the frame that begins at start and ends dst.
func sealFrame(dst []byte, start int) []byte {
	payload := dst[start+logFrame:]
	binary.BigEndian.PutUint32(dst[start+4:], uint32(len(payload))) //nolint:gosec // at most maxLogged
	binary.BigEndian.PutUint32(dst[start+8:], crc32.Checksum(payload, castagnoli))
	return dst
}

// WriteLog replaces a log by the records that each yields, mode 0600: either the whole file or nothing.
func WriteLog(path string, at time.Time, each func(put func(Logged) error) error) error {
	f, _, err := writeLog(path, at, each)
	if err != nil {
		return fmt.Errorf("write local log: %w", err)
	}
	return installLog(f, path)
}

// writeLog writes and syncs a temporary file beside path. The caller installs or removes it.
func writeLog(path string, at time.Time, each func(put func(Logged) error) error) (f *os.File, size int64, err error) {
	if f, err = os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*"); err != nil {
		return nil, 0, err
	}
	w := bufio.NewWriterSize(f, maxLogged)
	frame := appendStamp(nil, at)
	size = int64(len(frame))
	_, err = w.Write(frame)
	if err == nil {
		err = each(func(r Logged) (err error) {
			if frame, err = appendRecord(frame[:0], &r); err == nil {
				size += int64(len(frame))
				_, err = w.Write(frame)
			}
			return err
		})
	}
	if err = errors.Join(err, w.Flush()); err == nil {
		err = f.Sync()
	}
	if err != nil {
		dropLog(f)
		return nil, 0, err
	}
	return f, size, nil
}

func dropLog(f *os.File) {
	_ = f.Close() // an earlier error is the one to report
	_ = os.Remove(f.Name())
}

func installLog(f *os.File, path string) error {
	if err := os.Rename(f.Name(), path); err != nil {
		dropLog(f)
		return fmt.Errorf("write local log: %w", err)
	}
	return f.Close()
}

// LogRead says what ReadLog found in a log.
type LogRead struct {
	Records, Damaged int       // whole records; stretches that were skipped
	At               time.Time // when the records were last known to be current
}

// ReadLog calls f with each whole record of a log, in order; for an absent log it returns fs.ErrNotExist. The bytes of a
// record are valid only during the call.
func ReadLog(path string, f func(Logged) error) (n LogRead, err error) {
	file, err := os.Open(path) //nolint:gosec // a path of the caller's
	if err != nil {
		return n, fmt.Errorf("read local log: %w", err)
	}
	defer file.Close()
	if n, err = readLog(file, f); err != nil {
		return n, fmt.Errorf("read local log %s: %w", path, err)
	}
	return n, nil
}

func readLog(r io.Reader, f func(Logged) error) (n LogRead, err error) {
	in := bufio.NewReaderSize(r, logFrame+maxLogged)
	for {
		payload, err := nextFrame(in)
		switch {
		case errors.Is(err, io.EOF):
			return n, nil
		case errors.Is(err, errLogged):
			n.Damaged++
			continue
		case err != nil:
			return n, err
		}
		if payload[0] == loggedStamp && len(payload) == 9 {
			//nolint:gosec // as it was written
			if at := time.UnixMilli(int64(binary.BigEndian.Uint64(payload[1:]))); at.After(n.At) {
				n.At = at
			}
			continue
		}
		rec, ok := parseRecord(payload)
		if !ok {
			n.Damaged++
			continue
		}
		n.Records++
		if err := f(rec); err != nil {
			return n, err
		}
	}
}

// nextFrame returns the payload of the next frame, which is valid until the next call and never empty; errLogged, after it
// has skipped damage; or io.EOF.
func nextFrame(in *bufio.Reader) ([]byte, error) {
	head, err := in.Peek(logFrame)
	if len(head) == 0 {
		return nil, err
	}
	if len(head) == logFrame && string(head[:4]) == logMark {
		size := binary.BigEndian.Uint32(head[4:])
		sum := binary.BigEndian.Uint32(head[8:])
		if size > 0 && size <= maxLogged {
			frame, err := in.Peek(logFrame + int(size))
			if err != nil && !errors.Is(err, io.EOF) {
				return nil, err
			}
			if err == nil && crc32.Checksum(frame[logFrame:], castagnoli) == sum {
				_, err = in.Discard(len(frame)) // the bytes stay where they are until the next read
				return frame[logFrame:], err
			}
		}
	}
	_, _ = in.Discard(1) // the head was there
	for {
		rest, err := in.Peek(max(in.Buffered(), len(logMark)))
		i := bytes.Index(rest, []byte(logMark))
		if i < 0 {
			i = len(rest) - len(logMark) + 1
			if err != nil {
				i = len(rest)
			}
		}
		_, _ = in.Discard(i) // it was there
		switch {
		case errors.Is(err, io.EOF), len(rest) > i && bytes.HasPrefix(rest[i:], []byte(logMark)):
			return nil, errLogged
		case err != nil:
			return nil, err
		}
	}
}

func parseRecord(b []byte) (r Logged, ok bool) {
	if b[0] != loggedRecord {
		return r, false
	}
	if r.Key, b, ok = cutLogged(b[1:]); !ok {
		return r, false
	}
	if r.Val, b, ok = cutLogged(b); !ok || len(b) != 8 {
		return r, false
	}
	if ms := int64(binary.BigEndian.Uint64(b)); ms != 0 { //nolint:gosec // as it was written
		r.Until = time.UnixMilli(ms)
	}
	return r, true
}

// cutLogged cuts off a length (uvarint) and that many bytes.
func cutLogged(b []byte) (val, rest []byte, ok bool) {
	n, w := binary.Uvarint(b)
	if w <= 0 || n > uint64(len(b)-w) {
		return nil, nil, false
	}
	return b[w : w+int(n)], b[w+int(n):], true //nolint:gosec // no more than there are
}

// LocalLog appends records to a log after the calls that made them, and compacts it. Append never waits for the disk.
//
// What was appended is with the kernel within the time of one write, so it survives the death of the process; it is synced
// within a second, and a compaction syncs the whole file. The file has at most twice the bytes of its live records and
// logSlack. What the disk does not take is dropped, and the log is compacted as soon as it does.
//
// A nil *LocalLog takes no records. Safe for concurrent use; made by OpenLog.
type LocalLog struct {
	path string
	each func(put func(Logged) error) error
	now  func() time.Time
	log  zerolog.Logger

	mu      sync.Mutex // of what waits
	waiting []byte
	wake    chan struct{}
	behind  atomic.Bool // a record was dropped

	writing sync.Mutex // of the file
	file    *os.File
	size    int64 // of the file
	live    int64 // of it after the last compaction
	spare   []byte
	warned  time.Time

	dirty  atomic.Bool
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// OpenLog compacts a log to the records that each yields, and takes more from then on. each is called again for every
// compaction, and sees what was appended before the call.
func OpenLog(path string, now func() time.Time, log zerolog.Logger, each func(put func(Logged) error) error) *LocalLog {
	l := &LocalLog{path: path, each: each, now: now, log: log, wake: make(chan struct{}, 1)}
	if err := l.compact(); err != nil {
		l.warn(err)
		l.behind.Store(true)
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	l.wg.Go(func() { l.write(ctx) })
	l.wg.Go(func() { l.keep(ctx) })
	return l
}

// Append takes a record. Its bytes are copied.
func (l *LocalLog) Append(r Logged) {
	if l == nil {
		return
	}
	l.mu.Lock()
	var err error
	if len(l.waiting) >= logBacklog {
		err = errTooLong
	} else {
		l.waiting, err = appendRecord(l.waiting, &r)
	}
	l.mu.Unlock()
	if err != nil {
		l.behind.Store(true)
		return
	}
	l.rouse()
}

// Stamp notes that all records are current.
func (l *LocalLog) Stamp() {
	if l == nil {
		return
	}
	l.mu.Lock()
	if len(l.waiting) < logBacklog {
		l.waiting = appendStamp(l.waiting, l.now())
	}
	l.mu.Unlock()
	l.rouse()
}

func (l *LocalLog) rouse() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *LocalLog) write(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
			l.Flush()
		}
	}
}

// keep syncs and compacts the file.
func (l *LocalLog) keep(ctx context.Context) {
	var tried time.Time
	Every(ctx, logSync, func() {
		l.writing.Lock()
		file, grown := l.file, l.size > 2*l.live+logSlack
		l.writing.Unlock()
		if file != nil && l.dirty.Swap(false) {
			_ = file.Sync() // what it misses, the next start reads from the kernel, or else from the store
		}
		if at := l.now(); (grown || l.behind.Load()) && at.Sub(tried) >= logPatience {
			if tried = at; l.compact() != nil {
				l.behind.Store(true)
			}
		}
	})
}

// Flush hands what waits to the kernel.
func (l *LocalLog) Flush() {
	if l == nil {
		return
	}
	l.writing.Lock()
	defer l.writing.Unlock()
	l.flush()
}

// flush is Flush for a caller that holds writing.
func (l *LocalLog) flush() {
	l.mu.Lock()
	batch := l.waiting
	l.waiting = l.spare[:0]
	l.mu.Unlock()
	l.spare = batch
	if len(batch) == 0 || l.file == nil {
		return
	}
	n, err := l.file.Write(batch)
	l.size += int64(n)
	l.dirty.Store(true)
	if err != nil { // a reader skips what is half written
		l.behind.Store(true)
		l.warn(err)
	}
}

func (l *LocalLog) warn(err error) {
	if at := l.now(); at.Sub(l.warned) >= logPatience {
		l.warned = at
		l.log.Warn().Err(err).Str("file", l.path).
			Msg("the local log can't be written: a start without the shared store will miss what happens now")
	}
}

// compact replaces the file by the live records. What is appended meanwhile goes to the old file, and is copied from there.
func (l *LocalLog) compact() (err error) {
	l.writing.Lock()
	l.flush()
	old, from := l.file, l.size
	l.writing.Unlock()
	l.behind.Store(false)
	file, size, err := writeLog(l.path, l.now(), l.each)
	l.writing.Lock()
	defer l.writing.Unlock()
	if err != nil {
		l.warn(err)
		return l.reopen(err)
	}
	l.flush()
	live := size
	if old != nil && l.size > from {
		n, err := io.Copy(file, io.NewSectionReader(old, from, l.size-from))
		if size += n; err != nil {
			dropLog(file)
			return err
		}
	}
	if err := os.Rename(file.Name(), l.path); err != nil {
		dropLog(file)
		return l.reopen(err)
	}
	if old != nil {
		_ = old.Close() // all of it is in the new file
	}
	l.file, l.size, l.live = file, size, live
	l.dirty.Store(true)
	return nil
}

// reopen goes on with the file that there is, after an error.
func (l *LocalLog) reopen(cause error) error {
	if l.file != nil {
		return cause
	}
	f, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err == nil {
		var info os.FileInfo
		if info, err = f.Stat(); err == nil {
			l.file, l.size = f, info.Size()
		}
	}
	return errors.Join(cause, err)
}

// Close writes what waits.
func (l *LocalLog) Close() error {
	if l == nil {
		return nil
	}
	l.cancel()
	l.wg.Wait()
	l.writing.Lock()
	defer l.writing.Unlock()
	l.flush()
	if l.file == nil {
		return nil
	}
	err := errors.Join(l.file.Sync(), l.file.Close())
	l.file = nil
	return err
}
