package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/identity"
	"antirobot/store"
	"antirobot/store/frames"
	"antirobot/verdict"
)

// RestartLog keeps the judged events of a process that has every role on disk. After a restart the process judges them
// again, to restore sessions, quotas and baselines. Safe for concurrent use; made by OpenRestartLog.
//
// Each file has frames with the batches of a stream. The last second is in memory alone. Nothing waits for a disk:
// events that can't be written are dropped and counted.
type RestartLog struct {
	d        RestartLogDeps
	services atomic.Pointer[Services]
	before   []string // files from before this start, the oldest first

	mu     sync.Mutex
	base   int64
	open   []byte // an unfinished frame with room for both heads
	number uint64
	file   *os.File // nil: none is begun, or writing failed
	size   int64
	warned time.Time

	erasing sync.Mutex // held while files are replaced

	events, read, errors *metrics.Counter

	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// RestartLogDeps are the dependencies of a RestartLog. Dir, Keep and Metrics are required.
type RestartLogDeps struct {
	Dir     string
	Keep    time.Duration // for which events are kept
	Bytes   int64         // about 110 bytes and, at start, 10 µs of CPU an event; 0: 128 MiB
	Now     func() time.Time
	Log     zerolog.Logger
	Metrics *metrics.Set
}

const (
	logFiles  = 16          // that share RestartLogDeps.Bytes
	logBatch  = 32 << 10    // bytes of events that are written at once
	logLinger = time.Second // after which fewer are written
	maxBatch  = 64 << 10    // bytes of a batch in a file
	logSuffix = ".events"
)

// OpenRestartLog opens or makes the directory. Prepare comes before Add and Read.
func OpenRestartLog(d RestartLogDeps) (*RestartLog, error) {
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Bytes == 0 {
		d.Bytes = 128 << 20
	}
	l := &RestartLog{
		d:      d,
		events: d.Metrics.NewCounter("antirobot_restart_log_events_total"),
		read:   d.Metrics.NewCounter("antirobot_restart_log_read_total"),
		errors: d.Metrics.NewCounter("antirobot_restart_log_errors_total"),
	}
	if err := os.MkdirAll(d.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("restart log: %w", err)
	}
	l.trim()
	var err error
	if l.before, err = l.files(); err != nil {
		return nil, fmt.Errorf("restart log: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	l.wg.Go(func() { store.Every(ctx, logLinger, l.flush) })
	return l, nil
}

// Prepare puts the services of a configuration into use.
func (l *RestartLog) Prepare(s *Services) (commit func()) { return func() { l.services.Store(s) } }

// Close writes the waiting events.
func (l *RestartLog) Close() error {
	l.cancel()
	l.wg.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.write()
	return l.finish()
}

// Add adds a judged event.
func (l *RestartLog) Add(e *verdict.Event) {
	name, _, ok := l.services.Load().name(e.Service)
	if !ok || e.N == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) == 0 {
		l.open = append(frames.Reserve(l.open), make([]byte, headLength)...)
		l.base = e.At.UnixMicro()
	}
	l.open = appendEvent(l.open, e, name, l.base)
	l.events.Inc()
	if len(l.open) >= logBatch {
		l.write()
	}
}

func (l *RestartLog) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.write()
}

// write writes the batch, and begins another. The caller holds the lock.
func (l *RestartLog) write() {
	if len(l.open) == 0 {
		return
	}
	l.number++
	appendHead(l.open[frames.Head:frames.Head], head{number: l.number, base: l.base})
	if err := l.put(frames.Seal(l.open, 0)); err != nil {
		l.fail(err)
	}
	l.open = l.open[:0]
}

func (l *RestartLog) put(b []byte) (err error) {
	if l.file != nil && l.size >= l.d.Bytes/logFiles {
		if err := l.finish(); err != nil {
			l.fail(err)
		}
		l.trim()
	}
	if l.file == nil {
		if l.file, err = l.create(); err != nil {
			return err
		}
		l.size = 0
	}
	n, err := l.file.Write(b)
	l.size += int64(n)
	return err
}

func (l *RestartLog) finish() error {
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}

// create begins a file whose name sorts behind all earlier ones.
func (l *RestartLog) create() (*os.File, error) {
	for at := l.d.Now().UnixNano(); ; at++ {
		name := filepath.Join(l.d.Dir, fmt.Sprintf("%016x%s", at, logSuffix))
		f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) //nolint:gosec // in our own directory
		switch {
		case err == nil:
			return f, nil
		case !errors.Is(err, fs.ErrExist):
			return nil, err
		}
	}
}

func (l *RestartLog) fail(err error) {
	l.errors.Inc()
	_ = l.finish() // the first error is the one to report
	if now := l.d.Now(); now.Sub(l.warned) > time.Minute {
		l.warned = now
		l.d.Log.Warn().Err(err).Msg("the restart log can't be written: a restart will not know recent visitors")
	}
}

func (l *RestartLog) files() ([]string, error) {
	list, err := os.ReadDir(l.d.Dir)
	var names []string
	for _, f := range list {
		if f.Type().IsRegular() && strings.HasSuffix(f.Name(), logSuffix) {
			names = append(names, f.Name())
		}
	}
	slices.Sort(names)
	return names, err
}

// trim removes files that are too old, and the oldest beyond the bytes.
func (l *RestartLog) trim() {
	names, err := l.files()
	if err != nil {
		l.fail(err)
	}
	room := l.d.Bytes - l.d.Bytes/logFiles // for the next one
	for _, name := range slices.Backward(names) {
		path := filepath.Join(l.d.Dir, name)
		info, err := os.Stat(path)
		if err != nil {
			continue
		}
		if room -= info.Size(); room < 0 || l.d.Now().Sub(info.ModTime()) > l.d.Keep {
			if err := os.Remove(path); err != nil {
				l.fail(err)
			}
		}
	}
}

// Read calls f with the events from before this start, in order, marked as Past. The event is valid during the call. It
// returns their number, and ends early with ctx.
func (l *RestartLog) Read(ctx context.Context, f func(e *verdict.Event)) (n int) {
	now := l.d.Now()
	for _, name := range l.before {
		err := eachBatch(filepath.Join(l.d.Dir, name), func(batch []byte) error {
			return l.readBatch(batch, func(e *verdict.Event) error {
				if age := now.Sub(e.At); age <= l.d.Keep && age >= 0 { // a clock may have been ahead
					n++
					f(e)
				}
				return ctx.Err()
			})
		})
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			l.d.Log.Warn().Err(err).Str("file", name).Msg("a part of the restart log can't be read")
		}
	}
	l.before = nil
	l.read.Add(n)
	return n
}

// eachBatch calls f with the batches of a file up to an error; damaged ones are skipped, and reported at the end.
func eachBatch(path string, f func(batch []byte) error) error {
	file, err := os.Open(path) //nolint:gosec // in our own directory
	if err != nil {
		return err
	}
	defer file.Close()
	return batches(file, f)
}

func batches(r io.Reader, f func(batch []byte) error) (err error) {
	for in := frames.NewReader(r, maxBatch); ; {
		batch, failed := in.Next()
		switch {
		case errors.Is(failed, io.EOF):
			return err
		case errors.Is(failed, frames.ErrDamaged):
			err = failed
			continue
		case failed != nil:
			return failed
		}
		if err := f(batch); err != nil {
			return err
		}
	}
}

func (l *RestartLog) readBatch(batch []byte, f func(e *verdict.Event) error) error {
	h, events, err := readHead(batch)
	if err != nil {
		return err
	}
	services := l.services.Load()
	var e verdict.Event
	for len(events) > 0 {
		var name uint32
		if name, events, err = readEvent(&e, events, h.base); err != nil {
			return err
		}
		index, known := services.of(name)
		if !known {
			continue
		}
		e.Service, e.Again, e.Past = index, true, true
		if err := f(&e); err != nil {
			return err
		}
	}
	return nil
}

// Erase removes all events that name a subject from the files, and returns their number.
func (l *RestartLog) Erase(sub identity.Subject) (n int, err error) {
	l.erasing.Lock()
	defer l.erasing.Unlock()
	l.mu.Lock() // all events up to now are in finished files
	l.write()
	err = l.finish()
	l.mu.Unlock()
	names, failed := l.files()
	err = errors.Join(err, failed)
	for _, name := range names {
		gone, failed := eraseIn(filepath.Join(l.d.Dir, name), sub)
		if errors.Is(failed, fs.ErrNotExist) { // it was the oldest
			failed = nil
		}
		n += gone
		err = errors.Join(err, failed)
	}
	return n, err
}

// eraseIn rewrites a file that has events of a subject.
func eraseIn(path string, sub identity.Subject) (n int, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	var kept []byte
	err = eachBatch(path, func(batch []byte) error {
		rest, gone, err := without(batch, sub)
		n += gone
		kept = frames.Append(kept, rest)
		return err
	})
	if n == 0 || err != nil && !errors.Is(err, frames.ErrDamaged) {
		return 0, err
	}
	f, err := frames.WriteTemp(path, func(w io.Writer) error { _, err := w.Write(kept); return err })
	if err != nil {
		return 0, err
	}
	err = os.Chtimes(f.Name(), info.ModTime(), info.ModTime()) // trim goes by the age of its events
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		frames.Drop(f)
		return 0, err
	}
	return n, f.Close()
}

// without returns a batch without the events of a subject, and their number.
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
		if e.Young == sub || slices.Contains(e.Subjects[:e.N], sub) {
			n++
		} else {
			rest = append(rest, events[:len(events)-len(next)]...)
		}
		events = next
	}
	return rest, n, nil
}
