package stream

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
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

	"antirobot/store"
	"antirobot/verdict"
)

// Diary keeps on disk what a process that does everything by itself has judged: after a restart it reads that once more, and
// knows again whom it knew, what they have read, and what the site's people are like. Safe for concurrent use; made by OpenDiary.
//
// It is a directory of files, each a row of batches as they go over a stream, with length and checksum. What the last second
// brought is in memory alone. Nothing waits for a disk: what can't be written is dropped, and counted.
type Diary struct {
	cfg      DiaryConfig
	d        DiaryDeps
	services atomic.Pointer[Services]
	before   []string // files of before this start, the oldest first

	mu      sync.Mutex
	base    int64  // unix microseconds
	open    []byte // a batch in the making, behind room for its length, checksum and head
	number  uint64
	file    *os.File // nil: none has been begun, or writing failed
	size    int64    // of file
	saidBad time.Time

	erasing sync.Mutex // held by who writes files anew

	events, read, errors *metrics.Counter

	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// DiaryConfig says how much a Diary keeps.
type DiaryConfig struct {
	Keep  time.Duration `mapstructure:"keep"`  // how long; 0: nothing is written, and a restart begins anew
	Bytes int64         `mapstructure:"bytes"` // and how much of it: it is read at start, about 110 bytes and 10 µs of CPU an event
}

// DefaultDiaryConfig returns the defaults.
func DefaultDiaryConfig() DiaryConfig { return DiaryConfig{Keep: 24 * time.Hour, Bytes: 128 << 20} }

// Validate returns everything that is wrong with c.
func (c DiaryConfig) Validate() error {
	var errs []error
	if c.Keep < 0 || c.Keep > 48*time.Hour || c.Keep > 0 && c.Keep < time.Minute {
		errs = append(errs, fmt.Errorf("keep: %v is neither 0 nor between 1m and 48h", c.Keep))
	}
	if c.Bytes < diaryFiles*diaryBatch || c.Bytes > 1<<40 {
		errs = append(errs, fmt.Errorf("bytes: %d is not between %d and 1 TiB", c.Bytes, diaryFiles*diaryBatch))
	}
	return errors.Join(errs...)
}

// DiaryDeps is what a Diary works with. Dir and Metrics are required.
type DiaryDeps struct {
	Dir     string
	Now     func() time.Time // nil: time.Now
	Log     zerolog.Logger
	Metrics *metrics.Set
}

const (
	diaryFiles  = 16          // into which the bytes are divided: the oldest is removed when there are more
	diaryBatch  = 32 << 10    // bytes of events after which they are written …
	diaryLinger = time.Second // … or after this time
	diaryMost   = 1 << 20     // bytes of a batch that is read
	diarySuffix = ".events"
	diaryFrame  = 8 // length and checksum
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// OpenDiary opens the directory of a diary, or makes it. Prepare has to be called before the first event is added or read.
func OpenDiary(cfg DiaryConfig, d DiaryDeps) (*Diary, error) {
	if d.Now == nil {
		d.Now = time.Now
	}
	y := &Diary{
		cfg: cfg, d: d,
		events: d.Metrics.NewCounter("antirobot_diary_events_total"),
		read:   d.Metrics.NewCounter("antirobot_diary_read_total"),
		errors: d.Metrics.NewCounter("antirobot_diary_errors_total"),
	}
	if err := os.MkdirAll(d.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("diary: %w", err)
	}
	y.trim()
	var err error
	if y.before, err = y.files(); err != nil {
		return nil, fmt.Errorf("diary: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	y.cancel = cancel
	y.wg.Go(func() { store.Every(ctx, diaryLinger, y.flush) })
	return y, nil
}

// Prepare puts the services of a configuration into use.
func (y *Diary) Prepare(s *Services) (commit func()) { return func() { y.services.Store(s) } }

// Close writes what waits.
func (y *Diary) Close() error {
	y.cancel()
	y.wg.Wait()
	y.mu.Lock()
	defer y.mu.Unlock()
	y.write()
	if y.file == nil {
		return nil
	}
	err := y.file.Close()
	y.file = nil
	return err
}

// Add adds an event that was judged.
func (y *Diary) Add(e *verdict.Event) {
	name, _, ok := y.services.Load().name(e.Service)
	if !ok || e.N == 0 {
		return
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	if len(y.open) == 0 {
		y.open = append(y.open, make([]byte, diaryFrame+headLength)...)
		y.base = e.At.UnixMicro()
	}
	y.open = appendEvent(y.open, e, name, y.base)
	y.events.Inc()
	if len(y.open) >= diaryBatch {
		y.write()
	}
}

func (y *Diary) flush() {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.write()
}

// write writes the batch, and begins another one. The caller holds the lock.
func (y *Diary) write() {
	if len(y.open) == 0 {
		return
	}
	y.number++
	appendHead(y.open[diaryFrame:diaryFrame], head{number: y.number, base: y.base})
	batch := y.open[diaryFrame:]
	binary.LittleEndian.PutUint32(y.open, uint32(len(batch))) //nolint:gosec // below diaryMost
	binary.LittleEndian.PutUint32(y.open[4:], crc32.Checksum(batch, castagnoli))
	if err := y.put(y.open); err != nil {
		y.fail(err)
	}
	y.open = y.open[:0]
}

func (y *Diary) put(b []byte) (err error) {
	if y.file != nil && y.size >= y.cfg.Bytes/diaryFiles {
		if err := y.file.Close(); err != nil {
			y.fail(err)
		}
		y.file = nil
		y.trim()
	}
	if y.file == nil {
		if y.file, err = y.create(); err != nil {
			return err
		}
		y.size = 0
	}
	n, err := y.file.Write(b)
	y.size += int64(n)
	return err
}

// create begins a file, whose name sorts behind those of all before.
func (y *Diary) create() (*os.File, error) {
	for at := y.d.Now().UnixNano(); ; at++ {
		name := filepath.Join(y.d.Dir, fmt.Sprintf("%016x%s", at, diarySuffix))
		f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) //nolint:gosec // in our own directory
		switch {
		case err == nil:
			return f, nil
		case !errors.Is(err, fs.ErrExist):
			return nil, err
		}
	}
}

// fail notes that something could not be written. What is half written ends its file.
func (y *Diary) fail(err error) {
	y.errors.Inc()
	if y.file != nil {
		_ = y.file.Close() // the first error is the one to report
		y.file = nil
	}
	if now := y.d.Now(); now.Sub(y.saidBad) > time.Minute {
		y.saidBad = now
		y.d.Log.Warn().Err(err).Msg("what is judged can't be written down: a restart will not know it")
	}
}

// files returns the names of the files, the oldest first.
func (y *Diary) files() ([]string, error) {
	list, err := os.ReadDir(y.d.Dir)
	var names []string
	for _, f := range list {
		if f.Type().IsRegular() && strings.HasSuffix(f.Name(), diarySuffix) {
			names = append(names, f.Name())
		}
	}
	slices.Sort(names)
	return names, err
}

// trim removes the oldest files: those that nobody will read, and those for which there is no room.
func (y *Diary) trim() {
	names, err := y.files()
	if err != nil {
		y.fail(err)
	}
	room := y.cfg.Bytes - y.cfg.Bytes/diaryFiles // for the one that is to come
	for _, name := range slices.Backward(names) {
		path := filepath.Join(y.d.Dir, name)
		info, err := os.Stat(path)
		if err != nil {
			continue
		}
		if room -= info.Size(); room < 0 || y.d.Now().Sub(info.ModTime()) > y.cfg.Keep {
			if err := os.Remove(path); err != nil {
				y.fail(err)
			}
		}
	}
}

// Read calls f with what was judged before this start and is not older than the diary keeps, in order, marked as Past. The event
// is valid during the call. It returns how many there were, and ends early with ctx.
func (y *Diary) Read(ctx context.Context, f func(e *verdict.Event)) (n int) {
	now := y.d.Now()
	for _, name := range y.before {
		err := y.readFile(filepath.Join(y.d.Dir, name), func(e *verdict.Event) bool {
			if age := now.Sub(e.At); age > y.cfg.Keep || age < 0 { // a clock may have been ahead
				return true
			}
			n++
			f(e)
			return ctx.Err() == nil
		})
		if err != nil {
			y.d.Log.Warn().Err(err).Str("file", name).Msg("the rest of a file of what was judged can't be read")
		}
		if ctx.Err() != nil {
			break
		}
	}
	y.before = nil
	y.read.Add(n)
	return n
}

var errDiary = errors.New("the file is damaged, or was not finished")

// readFile calls f with the events of a file until it returns false.
func (y *Diary) readFile(path string, f func(e *verdict.Event) bool) error {
	file, err := os.Open(path) //nolint:gosec // in our own directory
	if err != nil {
		return err
	}
	defer file.Close()
	return y.readBatches(bufio.NewReaderSize(file, 64<<10), f)
}

func (y *Diary) readBatches(r io.Reader, f func(e *verdict.Event) bool) error {
	err := frames(r, func(batch []byte) error {
		more, err := y.readBatch(batch, f)
		if err == nil && !more {
			return errEnough
		}
		return err
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// errEnough ends the reading of a file early.
var errEnough = errors.New("enough")

// frames calls f with the batches of a file until it returns an error.
func frames(r io.Reader, f func(batch []byte) error) error {
	var frame [diaryFrame]byte
	var batch []byte
	for {
		if _, err := io.ReadFull(r, frame[:]); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return errDiary
		}
		n := binary.LittleEndian.Uint32(frame[:])
		if n > diaryMost {
			return errDiary
		}
		batch = slices.Grow(batch[:0], int(n))[:n]
		if _, err := io.ReadFull(r, batch); err != nil || crc32.Checksum(batch, castagnoli) != binary.LittleEndian.Uint32(frame[4:]) {
			return errDiary
		}
		if err := f(batch); err != nil {
			return err
		}
	}
}

func (y *Diary) readBatch(batch []byte, f func(e *verdict.Event) bool) (more bool, err error) {
	h, events, err := readHead(batch)
	if err != nil {
		return false, err
	}
	services := y.services.Load()
	var e verdict.Event
	for len(events) > 0 {
		var name uint32
		if name, events, err = readEvent(&e, events, h.base); err != nil {
			return false, err
		}
		index, known := services.of(name)
		if !known {
			continue
		}
		e.Service, e.Again, e.Past = index, true, true
		if !f(&e) {
			return false, nil
		}
	}
	return true, nil
}
