package training

import (
	"bufio"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"antirobot/identity"
	"antirobot/verdict"
	"antirobot/verdict/label"
)

const (
	logFiles   = 8  // max_bytes is divided into this many files
	mostFiles  = 64 // files at most: a gateway that is restarted often creates small ones
	flushEvery = 5 * time.Second
	magic      = "antirobot training 1\n"
	saltFile   = "salt"
)

// maxOutcomes is how many outcomes of one sort are recorded for a subject while it is remembered.
const maxOutcomes = 4

// Log keeps the factors of a sample of the subjects in bounded files, together with what became known of them: the data to
// train models with. The files contain no identities: a subject is a hash with a salt that never leaves the
// directory. Subjects are sampled as a whole, by that hash. Safe for concurrent use; writes are buffered, and whatever
// can't be written is counted and lost.
type Log struct {
	cfg   Config
	dir   string
	names []string
	salt  [32]byte
	log   zerolog.Logger

	vectors, outcomes, lost *metrics.Counter

	mu     sync.Mutex
	file   *os.File
	out    *bufio.Writer
	size   int64
	number int
	labels *label.Table // nil: there are none
	failed bool         // the last write failed; reported once
	record []byte
	noted  map[notedKey]uint8

	stop chan struct{}
	wg   sync.WaitGroup
}

type notedKey struct {
	who  uint64
	what outcome
}

// Deps is what a log is made with.
type Deps struct {
	Dir     string       // created if there is none
	Names   []string     // of the factors, in the order of a row
	Labels  *label.Table // what is said of subjects; nil: nothing
	Log     zerolog.Logger
	Metrics *metrics.Set
}

// Open opens the training log in a directory; it returns nil if nothing is to be sampled. The caller calls Start, and Close
// at the end.
func Open(cfg Config, d Deps) (*Log, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Sample == 0 {
		return nil, nil
	}
	t := &Log{
		cfg: cfg, dir: d.Dir, names: d.Names, labels: d.Labels, log: d.Log, stop: make(chan struct{}), noted: map[notedKey]uint8{},
		vectors:  d.Metrics.NewCounter("antirobot_training_vectors_total"),
		outcomes: d.Metrics.NewCounter("antirobot_training_outcomes_total"),
		lost:     d.Metrics.NewCounter("antirobot_training_lost_total"),
	}
	if err := os.MkdirAll(d.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("training: %w", err)
	}
	if err := t.openSalt(); err != nil {
		return nil, fmt.Errorf("training: %w", err)
	}
	files, err := logs(d.Dir)
	if err != nil {
		return nil, fmt.Errorf("training: %w", err)
	}
	if len(files) > 0 {
		_, _ = fmt.Sscanf(filepath.Base(files[len(files)-1]), fileName, &t.number) // files are listed by this pattern
	}
	if err := t.rotate(); err != nil {
		return nil, fmt.Errorf("training: %w", err)
	}
	return t, nil
}

// Start begins to write out what is buffered, periodically.
func (t *Log) Start() { t.wg.Go(t.flushing) }

const fileName = "%09d.log"

// logs returns the files in a directory, the oldest first.
func logs(dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "[0-9]*.log"))
	slices.Sort(files)
	return files, err
}

func (t *Log) openSalt() error {
	name := filepath.Join(t.dir, saltFile)
	salt, err := os.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := rand.Read(t.salt[:]); err != nil {
			return err
		}
		return os.WriteFile(name, t.salt[:], 0o600)
	case err != nil:
		return err
	case len(salt) != len(t.salt):
		return fmt.Errorf("%s has %d bytes instead of %d: remove it, and what is in the log can't be joined with what comes", name, len(salt), len(t.salt))
	}
	copy(t.salt[:], salt)
	return nil
}

// Who returns the hash by which the log calls a subject.
func (t *Log) Who(s identity.Subject) uint64 {
	var b [49]byte
	copy(b[:], t.salt[:])
	b[32] = byte(s.Kind)
	copy(b[33:], s.ID[:])
	sum := sha256.Sum256(b[:])
	return binary.BigEndian.Uint64(sum[:])
}

// Sample returns the share of the subjects that the log keeps.
func (t *Log) Sample() float64 { return t.cfg.Sample }

// Has reports whether the log keeps what becomes known of a subject.
func (t *Log) Has(s identity.Subject) bool {
	_, in := t.samples(s)
	return in
}

// samples reports whether the subject is in the sample, and returns its hash. Whom an operator has labelled always is.
func (t *Log) samples(s identity.Subject) (who uint64, in bool) {
	who = t.Who(s)
	return who, float64(who>>11)/(1<<53) < t.cfg.Sample || t.markOf(s).Source == label.Operator
}

// Observe records the factors of an evaluation, in the order of Deps.Names, and the score they have got.
func (t *Log) Observe(sub identity.Subject, service uint16, at time.Time, x []float32, score float32) {
	who, in := t.samples(sub)
	if !in {
		return
	}
	m := t.markOf(sub)
	t.mu.Lock()
	defer t.mu.Unlock()
	if m.Label != label.None { // beside its rows, whatever file they are in
		t.note(sub.Kind, who, at, markOutcome(m))
	}
	b := t.begin('V', sub.Kind, who, at)
	b = binary.BigEndian.AppendUint16(b, service)
	b = binary.BigEndian.AppendUint32(b, math.Float32bits(score))
	for _, v := range x {
		b = binary.BigEndian.AppendUint32(b, math.Float32bits(v))
	}
	if t.write(b) {
		t.vectors.Inc()
	}
}

// Event records what an event says about its subject, if anything.
func (t *Log) Event(e *verdict.Event) {
	if o := outcomeOf(e); o != 0 {
		t.tell(e.Subjects[0], e.At, o)
	}
}

// Trapped records that a subject has opened a path that no person finds.
func (t *Log) Trapped(s identity.Subject, at time.Time) { t.tell(s, at, outcomeTrapped) }

// Mark records what a service says of a subject.
func (t *Log) Mark(s identity.Subject, at time.Time, m label.Mark) { t.tell(s, at, markOutcome(m)) }

// Say records what an operator says, of any subject: rows of it may be there although it has left the sample.
func (t *Log) Say(s identity.Subject, at time.Time, m label.Mark) {
	t.mu.Lock()
	defer t.mu.Unlock()
	who, o := t.Who(s), markOutcome(m)
	delete(t.noted, notedKey{who, o}) // it has changed its mind, perhaps more than once
	t.note(s.Kind, who, at, o)
}

// markOf returns what the subject is said to be.
func (t *Log) markOf(s identity.Subject) label.Mark {
	if t.labels == nil {
		return label.Mark{}
	}
	return t.labels.Of(s)
}

// tell records what became known of a subject, if it is in the sample.
func (t *Log) tell(sub identity.Subject, at time.Time, o outcome) {
	who, in := t.samples(sub)
	if !in {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.note(sub.Kind, who, at, o)
}

// note records an outcome, unless the file has it often enough. The caller holds the lock.
func (t *Log) note(kind identity.Kind, who uint64, at time.Time, o outcome) {
	key := notedKey{who, o}
	if t.noted[key] == maxOutcomes {
		return
	}
	if len(t.noted) >= 1<<16 {
		clear(t.noted)
	}
	t.noted[key]++
	if t.write(append(t.begin('O', kind, who, at), byte(o))) {
		t.outcomes.Inc()
	}
}

// begin writes the head of a record into the log's own buffer: kind, time in milliseconds, kind and hash of the
// subject.
func (t *Log) begin(kind byte, subject identity.Kind, who uint64, at time.Time) []byte {
	b := append(t.record[:0], kind)
	b = binary.BigEndian.AppendUint64(b, uint64(at.UnixMilli())) //nolint:gosec // after 1970
	b = append(b, byte(subject))
	return binary.BigEndian.AppendUint64(b, who)
}

// write appends a record. The caller holds the lock.
func (t *Log) write(b []byte) bool {
	t.record = b
	err := t.append(b)
	if err != nil {
		t.lost.Inc()
		if !t.failed {
			t.log.Error().Err(err).Msg("training log: factors are lost until it can be written again")
		}
	}
	t.failed = err != nil
	return err == nil
}

func (t *Log) append(b []byte) error {
	if t.file == nil || t.size+int64(len(b)) > t.cfg.MaxBytes/logFiles {
		if err := t.rotate(); err != nil {
			return err
		}
	}
	n, err := t.out.Write(b)
	t.size += int64(n)
	if err != nil {
		_ = t.file.Close() // err already reports what failed
		t.file = nil
	}
	return err
}

// rotate begins a new file, and removes old ones.
func (t *Log) rotate() error {
	if err := t.end(); err != nil {
		return err
	}
	files, err := logs(t.dir)
	if err != nil {
		return err
	}
	room := t.cfg.MaxBytes - t.cfg.MaxBytes/logFiles // besides the new one
	for i := len(files) - 1; i >= 0; i-- {
		info, err := os.Stat(files[i])
		if err != nil {
			return err
		}
		room -= info.Size()
		if room < 0 || len(files)-i >= mostFiles {
			if err := os.Remove(files[i]); err != nil {
				return err
			}
		}
	}
	names, err := json.Marshal(t.names)
	if err != nil {
		return err
	}
	t.number++
	clear(t.noted)
	f, err := os.OpenFile(filepath.Join(t.dir, fmt.Sprintf(fileName, t.number)), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	t.file, t.out = f, bufio.NewWriterSize(f, 1<<16)
	n, err := fmt.Fprintf(t.out, "%s%s\n", magic, names)
	t.size = int64(n)
	return err
}

// end closes the current file.
func (t *Log) end() error {
	if t.file == nil {
		return nil
	}
	err := errors.Join(t.out.Flush(), t.file.Close())
	t.file = nil
	return err
}

// Flush writes out what is buffered.
func (t *Log) Flush() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.file == nil {
		return nil
	}
	return t.out.Flush()
}

func (t *Log) flushing() {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			_ = t.Flush() // the next write reports the failure too, and is counted
		case <-t.stop:
			return
		}
	}
}

// Close writes out what is buffered. Nothing may be recorded afterwards.
func (t *Log) Close() error {
	close(t.stop)
	t.wg.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.end()
}
