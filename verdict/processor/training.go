package processor

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
	trainingFiles = 8  // max_bytes is divided into this many files
	trainingMost  = 64 // files at most: a gateway that is restarted often creates small ones
	trainingFlush = 5 * time.Second
	trainingMagic = "antirobot training 1\n"
	saltFile      = "salt"
)

// outcome is what became known of a subject, in addition to its factors.
type outcome uint8

const (
	outcomeShown outcome = iota + 1 // a challenge
	outcomeSolved
	outcomeFailed
	outcomeListed  // by a ban entry or a rule; a blocked client reveals nothing about itself
	outcomeCrawler // a verified one
	outcomeWorked  // solved by work of the browser, which robots can do as well as people
	outcomeTrapped // has opened a path that no person finds

	outcomeMarked outcome = 0x20 // and beyond: what somebody says of it, see markOutcome
)

// cut marks that from here on the gateway answered itself: the subject's factors reflect that answer.
const cut outcome = 0x80

// maxOutcomes is how many outcomes of one sort are recorded for a subject while it is remembered.
const maxOutcomes = 4

// training keeps the factors of a sample of the subjects in bounded files, together with what became known of them: the
// data to train models with. The files contain no identities: a subject is a hash with a salt that never leaves the
// directory. Subjects are sampled as a whole, by that hash. Safe for concurrent use; writes are buffered, and whatever
// can't be written is counted and lost.
type training struct {
	cfg  TrainingConfig
	dir  string
	salt [32]byte
	log  zerolog.Logger

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

// newTraining opens the training log in a directory, which it creates; it returns nil if nothing is to be sampled.
func newTraining(cfg TrainingConfig, dir string, log zerolog.Logger, set *metrics.Set) (*training, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Sample == 0 {
		return nil, nil
	}
	t := &training{
		cfg: cfg, dir: dir, log: log, stop: make(chan struct{}), noted: map[notedKey]uint8{},
		vectors:  set.NewCounter("antirobot_training_vectors_total"),
		outcomes: set.NewCounter("antirobot_training_outcomes_total"),
		lost:     set.NewCounter("antirobot_training_lost_total"),
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("training: %w", err)
	}
	if err := t.openSalt(); err != nil {
		return nil, fmt.Errorf("training: %w", err)
	}
	files, err := trainingLogs(dir)
	if err != nil {
		return nil, fmt.Errorf("training: %w", err)
	}
	if len(files) > 0 {
		_, _ = fmt.Sscanf(filepath.Base(files[len(files)-1]), trainingName, &t.number) // files are listed by this pattern
	}
	if err := t.rotate(); err != nil {
		return nil, fmt.Errorf("training: %w", err)
	}
	return t, nil
}

// start begins to write out what is buffered, periodically.
func (t *training) start() { t.wg.Go(t.flushing) }

const trainingName = "%09d.log"

// trainingLogs returns the files in a directory, the oldest first.
func trainingLogs(dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "[0-9]*.log"))
	slices.Sort(files)
	return files, err
}

func (t *training) openSalt() error {
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

// who hashes a subject.
func (t *training) who(s identity.Subject) uint64 {
	var b [49]byte
	copy(b[:], t.salt[:])
	b[32] = byte(s.Kind)
	copy(b[33:], s.ID[:])
	sum := sha256.Sum256(b[:])
	return binary.BigEndian.Uint64(sum[:])
}

// samples reports whether the subject is in the sample, and returns its hash. Whom an operator has labelled always is.
func (t *training) samples(s identity.Subject) (who uint64, in bool) {
	who = t.who(s)
	return who, float64(who>>11)/(1<<53) < t.cfg.Sample || t.markOf(s).Source == label.Operator
}

// observe records the factors of an evaluation, in the order of FactorNames.
func (t *training) observe(sub identity.Subject, service uint16, at time.Time, x []float32, score float32) {
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

// outcome records what an event says about its subject, if anything.
func (t *training) outcome(e *verdict.Event) {
	if o := outcomeOf(e); o != 0 {
		t.tell(e.Subjects[0], e.At, o)
	}
}

// tell records what became known of a subject, if it is in the sample.
func (t *training) tell(sub identity.Subject, at time.Time, o outcome) {
	who, in := t.samples(sub)
	if !in {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.note(sub.Kind, who, at, o)
}

// note records an outcome, unless the file has it often enough. The caller holds the lock.
func (t *training) note(kind identity.Kind, who uint64, at time.Time, o outcome) {
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

func outcomeOf(e *verdict.Event) outcome {
	var stopped outcome
	if e.Mode == verdict.Enforce {
		stopped = cut
	}
	switch e.Kind {
	case verdict.EventShown:
		return outcomeShown | stopped
	case verdict.EventSolved:
		if e.Work {
			return outcomeWorked | stopped
		}
		return outcomeSolved | stopped
	case verdict.EventFailed:
		return outcomeFailed | stopped
	}
	switch e.Cause {
	case verdict.CauseBanList, verdict.CauseRule:
		return outcomeListed | stopped
	}
	if e.Crawler {
		return outcomeCrawler
	}
	return 0
}

// begin writes the head of a record into the log's own buffer: kind, time in milliseconds, kind and hash of the
// subject.
func (t *training) begin(kind byte, subject identity.Kind, who uint64, at time.Time) []byte {
	b := append(t.record[:0], kind)
	b = binary.BigEndian.AppendUint64(b, uint64(at.UnixMilli())) //nolint:gosec // after 1970
	b = append(b, byte(subject))
	return binary.BigEndian.AppendUint64(b, who)
}

// write appends a record. The caller holds the lock.
func (t *training) write(b []byte) bool {
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

func (t *training) append(b []byte) error {
	if t.file == nil || t.size+int64(len(b)) > t.cfg.MaxBytes/trainingFiles {
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
func (t *training) rotate() error {
	if err := t.end(); err != nil {
		return err
	}
	files, err := trainingLogs(t.dir)
	if err != nil {
		return err
	}
	room := t.cfg.MaxBytes - t.cfg.MaxBytes/trainingFiles // besides the new one
	for i := len(files) - 1; i >= 0; i-- {
		info, err := os.Stat(files[i])
		if err != nil {
			return err
		}
		room -= info.Size()
		if room < 0 || len(files)-i >= trainingMost {
			if err := os.Remove(files[i]); err != nil {
				return err
			}
		}
	}
	names, err := json.Marshal(FactorNames())
	if err != nil {
		return err
	}
	t.number++
	clear(t.noted)
	f, err := os.OpenFile(filepath.Join(t.dir, fmt.Sprintf(trainingName, t.number)), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	t.file, t.out = f, bufio.NewWriterSize(f, 1<<16)
	n, err := fmt.Fprintf(t.out, "%s%s\n", trainingMagic, names)
	t.size = int64(n)
	return err
}

// end closes the current file.
func (t *training) end() error {
	if t.file == nil {
		return nil
	}
	err := errors.Join(t.out.Flush(), t.file.Close())
	t.file = nil
	return err
}

// flush writes out what is buffered.
func (t *training) flush() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.file == nil {
		return nil
	}
	return t.out.Flush()
}

func (t *training) flushing() {
	tick := time.NewTicker(trainingFlush)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			_ = t.flush() // the next write reports the failure too, and is counted
		case <-t.stop:
			return
		}
	}
}

// close writes out what is buffered. Nothing may be recorded afterwards.
func (t *training) close() error {
	close(t.stop)
	t.wg.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.end()
}
