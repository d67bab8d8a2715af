package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"antirobot/store/frames"
	"antirobot/varint"
)

// A local log is a gateway's copy of a shared store, for a start while the store is away or has lost its data. The last
// record of a key holds.

const (
	maxLogged   = 64 << 10
	logBacklog  = 4 << 20 // bytes that may wait for the disk
	logSlack    = 1 << 20 // bytes that a log may exceed twice its last compaction
	logSync     = time.Second
	logPatience = time.Minute // between attempts to compact a log, and between warnings
)

const (
	loggedRecord = 'r' // key and value, each behind its length, and expiry (8 bytes, unix milliseconds, 0: none)
	loggedStamp  = 't' // the time at which all records were current (8 bytes, unix milliseconds)
)

var errTooLong = errors.New("store: record too long for a local log")

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
	dst = append(frames.Reserve(dst), loggedRecord)
	dst = varint.AppendText(varint.AppendText(dst, r.Key), r.Val)
	return frames.Seal(varint.AppendU64(dst, uint64(until)), start), nil //nolint:gosec // read back as it is
}

func appendStamp(dst []byte, at time.Time) []byte {
	start := len(dst)
	dst = append(frames.Reserve(dst), loggedStamp)
	return frames.Seal(varint.AppendU64(dst, uint64(at.UnixMilli())), start) //nolint:gosec // read back as it is
}

// WriteLog replaces a log by the records that each yields, or changes nothing.
func WriteLog(path string, at time.Time, each func(put func(Logged) error) error) error {
	err := frames.Replace(path, func(w io.Writer) error { return writeRecords(w, at, each) })
	if err != nil {
		return fmt.Errorf("write local log: %w", err)
	}
	return nil
}

func writeRecords(w io.Writer, at time.Time, each func(put func(Logged) error) error) error {
	frame := appendStamp(nil, at)
	if _, err := w.Write(frame); err != nil {
		return err
	}
	return each(func(r Logged) (err error) {
		if frame, err = appendRecord(frame[:0], &r); err == nil {
			_, err = w.Write(frame)
		}
		return err
	})
}

// LogRead is what ReadLog found in a log.
type LogRead struct {
	Records, Damaged int
	At               time.Time // when the records were last known to be current
}

// ReadLog calls f with each whole record, in order; for an absent log it returns fs.ErrNotExist. A record is valid
// during the call.
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
	in := frames.NewReader(r, maxLogged)
	for {
		payload, err := in.Next()
		switch {
		case errors.Is(err, io.EOF):
			return n, nil
		case errors.Is(err, frames.ErrDamaged):
			n.Damaged++
			continue
		case err != nil:
			return n, err
		}
		rec, at, ok := parseLogged(payload)
		switch {
		case !ok:
			n.Damaged++
		case !at.IsZero():
			if at.After(n.At) {
				n.At = at
			}
		default:
			n.Records++
			if err := f(rec); err != nil {
				return n, err
			}
		}
	}
}

// parseLogged returns the record of a payload, or the time of a stamp.
func parseLogged(b []byte) (rec Logged, at time.Time, ok bool) {
	in := varint.Reader{Src: b[1:]}
	switch b[0] {
	case loggedStamp:
		at = time.UnixMilli(int64(in.U64())) //nolint:gosec // as it was written
	case loggedRecord:
		rec.Key, rec.Val = in.Bytes(in.Count()), in.Bytes(in.Count())
		if ms := int64(in.U64()); ms != 0 { //nolint:gosec // as it was written
			rec.Until = time.UnixMilli(ms)
		}
	default:
		return rec, at, false
	}
	return rec, at, !in.Bad && len(in.Src) == 0
}

// LocalLog appends to a log and compacts it. Append never waits for the disk.
//
// A record survives the death of the process after one write, and of the machine after a second. The file has at most
// twice the bytes of its live records and logSlack. If the disk refuses records, the log is compacted once it accepts
// writes.
//
// A nil *LocalLog takes no records. Safe for concurrent use; made by OpenLog.
type LocalLog struct {
	path string
	each func(put func(Logged) error) error
	now  func() time.Time
	log  zerolog.Logger

	mu      sync.Mutex
	waiting []byte
	wake    chan struct{}
	behind  atomic.Bool // a record was dropped

	writing sync.Mutex
	file    *os.File
	size    int64
	live    int64 // size after the last compaction
	spare   []byte
	warned  time.Time

	dirty  atomic.Bool
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// OpenLog compacts a log to the records that each yields. Every later compaction calls each again, which sees all
// appended records.
func OpenLog(
	path string, now func() time.Time, log zerolog.Logger, each func(put func(Logged) error) error,
) *LocalLog {
	l := &LocalLog{path: path, each: each, now: now, log: log, wake: make(chan struct{}, 1)}
	if err := l.compact(); err != nil {
		l.warn(err)
		l.behind.Store(true)
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	l.wg.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-l.wake:
				l.Flush()
			}
		}
	})
	l.wg.Go(func() { l.keep(ctx) })
	return l
}

// Append takes a record. Its bytes are copied.
func (l *LocalLog) Append(r Logged) {
	l.add(func(dst []byte) ([]byte, error) { return appendRecord(dst, &r) })
}

// Stamp notes that all records are current.
func (l *LocalLog) Stamp() {
	l.add(func(dst []byte) ([]byte, error) { return appendStamp(dst, l.now()), nil })
}

func (l *LocalLog) add(frame func(dst []byte) ([]byte, error)) {
	if l == nil {
		return
	}
	l.mu.Lock()
	err := errTooLong
	if len(l.waiting) < logBacklog {
		l.waiting, err = frame(l.waiting)
	}
	l.mu.Unlock()
	if err != nil {
		l.behind.Store(true)
		return
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *LocalLog) keep(ctx context.Context) {
	var tried time.Time
	Every(ctx, logSync, func() {
		l.writing.Lock()
		file, grown := l.file, l.size > 2*l.live+logSlack
		l.writing.Unlock()
		if file != nil && l.dirty.Swap(false) {
			_ = file.Sync() // a start has the kernel, or else the store
		}
		if at := l.now(); (grown || l.behind.Load()) && at.Sub(tried) >= logPatience {
			if tried = at; l.compact() != nil {
				l.behind.Store(true)
			}
		}
	})
}

// Flush hands the waiting records to the kernel.
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
	if err != nil { // a reader skips a half-written frame
		l.behind.Store(true)
		l.warn(err)
	}
}

func (l *LocalLog) warn(err error) {
	if at := l.now(); at.Sub(l.warned) >= logPatience {
		l.warned = at
		l.log.Warn().Err(err).Str("file", l.path).
			Msg("the local log can't be written: a start without the shared store will miss recent changes")
	}
}

// compact replaces the file by the live records. Records appended meanwhile are copied from the old file.
func (l *LocalLog) compact() (err error) {
	l.writing.Lock()
	l.flush()
	old, from := l.file, l.size
	l.writing.Unlock()
	l.behind.Store(false)
	file, err := frames.WriteTemp(l.path, func(w io.Writer) error { return writeRecords(w, l.now(), l.each) })
	l.writing.Lock()
	defer l.writing.Unlock()
	if err != nil {
		l.warn(err)
		return l.reopen(err)
	}
	l.flush()
	live, err := file.Seek(0, io.SeekEnd)
	size := live
	if err == nil && old != nil && l.size > from {
		var n int64
		n, err = io.Copy(file, io.NewSectionReader(old, from, l.size-from))
		size += n
	}
	if err == nil {
		err = os.Rename(file.Name(), l.path)
	}
	if err != nil {
		frames.Drop(file)
		return l.reopen(err)
	}
	if old != nil {
		_ = old.Close() // all of it is in the new file
	}
	l.file, l.size, l.live = file, size, live
	l.dirty.Store(true)
	return nil
}

// reopen goes on with the present file after an error.
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

// Close writes the waiting records.
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
