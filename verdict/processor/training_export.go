package processor

import (
	"bufio"
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"antirobot/identity"
	"antirobot/verdict/formula"
)

// ExportOptions select what of a training log is written.
type ExportOptions struct {
	Unlabelled bool      // also rows of subjects of which nothing became known
	Since      time.Time // no rows from before
	Labels     OwnLabels // of the operator's own file, which outweigh all others; nil: none
}

// Exported counts what was written.
type Exported struct {
	Rows       int
	Robots     int
	People     int
	Unlabelled int // rows without a label, written or not
	Late       int // rows left out: the gateway had answered the subject itself, and the factors reflect that
	Broken     int // files that end in the middle of a record, as after a crash
}

// ExportTraining joins the factors of a training log with what became known of the subjects, and writes CSV as
// formula.ReadRows reads it. Where labels come from is said in person.label. now is used to tell how long ago a challenge
// was shown. The log may be in use; what is not yet written is left out.
func ExportTraining(dir string, w io.Writer, o ExportOptions, now time.Time) (Exported, error) {
	var done Exported
	files, err := trainingLogs(dir)
	if err != nil {
		return done, err
	}
	if len(files) == 0 {
		return done, fmt.Errorf("%s has no training log: is processor.training.sample above 0?", dir)
	}
	known, err := readOutcomes(files, &done)
	if err != nil {
		return done, err
	}
	out := csv.NewWriter(w)
	names := FactorNames()
	if err := out.Write(append(formula.Columns(), names...)); err != nil {
		return done, err
	}
	row := make([]string, 0, len(names)+8)
	err = joined(files, known, o, now, func(r *trainingRecord, p *person, label formula.Label, source string) error {
		if !done.count(label, p.cut != 0 && r.at >= p.cut, o) {
			return nil
		}
		return out.Write(r.row(row[:0], label, source, names))
	})
	if err != nil {
		return done, err
	}
	out.Flush()
	return done, out.Error()
}

// joined calls f with the rows of a log, and with what is known of their subjects.
func joined(files []string, known map[uint64]*person, o ExportOptions, now time.Time, f func(r *trainingRecord, p *person, label formula.Label, source string) error) error {
	for _, name := range files {
		_, err := readTraining(name, func(r *trainingRecord) error {
			if r.kind != 'V' || r.at < o.Since.UnixMilli() && !o.Since.IsZero() {
				return nil
			}
			p := known[r.who]
			if p == nil {
				p = &person{}
			}
			label, source := p.label(r.subject, now.UnixMilli())
			if own, ok := o.Labels[r.who]; ok {
				label, source = own.Label, own.Source
			}
			return f(r, p, label, source)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// readOutcomes reads what became known of each subject, and what its rows show of it.
func readOutcomes(files []string, done *Exported) (map[uint64]*person, error) {
	known := map[uint64]*person{}
	for _, name := range files {
		broken, err := readTraining(name, func(r *trainingRecord) error {
			p := known[r.who]
			if p == nil {
				p = &person{}
				known[r.who] = p
			}
			if r.kind == 'O' {
				p.note(r.at, r.outcome)
			} else {
				p.see(r)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		if broken {
			done.Broken++
		}
	}
	return known, nil
}

// count counts a row, and reports whether it is to be written.
func (e *Exported) count(label formula.Label, late bool, o ExportOptions) bool {
	switch {
	case late:
		e.Late++
		return false
	case label == formula.Unlabelled:
		e.Unlabelled++
		if !o.Unlabelled {
			return false
		}
	case label == formula.Robot:
		e.Robots++
	default:
		e.People++
	}
	e.Rows++
	return true
}

// trainingRecord is one record; its slices are valid until the next.
type trainingRecord struct {
	kind    byte
	at      int64 // unix milliseconds
	subject identity.Kind
	who     uint64
	outcome outcome
	service uint16 // the number of its settings, see verdict.Settings
	score   float32
	x       []float32 // in the file's order
	place   map[string]int
}

// row writes a record in the order of names, which may differ from the file's.
func (r *trainingRecord) row(row []string, label formula.Label, source string, names []string) []string {
	known := ""
	if label != formula.Unlabelled {
		known = strconv.Itoa(int(label))
	}
	row = append(row, known, source, r.subject.String(), fmt.Sprintf("%016x", r.who),
		time.UnixMilli(r.at).UTC().Format("2006-01-02T15:04:05.000Z"), number(r.score))
	for _, n := range names {
		i, ok := r.place[n]
		if !ok {
			row = append(row, "")
			continue
		}
		row = append(row, number(r.x[i]))
	}
	return row
}

func number(v float32) string {
	if math.IsNaN(float64(v)) {
		return ""
	}
	return strconv.FormatFloat(float64(v), 'g', -1, 32)
}

// readTraining calls f for every record of a file. It reports a file that ends within a record or contains something
// else; what comes before that is read.
func readTraining(name string, f func(*trainingRecord) error) (broken bool, err error) {
	file, err := os.Open(name)
	if err != nil {
		return false, err
	}
	defer file.Close()
	return readTrainingRecords(bufio.NewReaderSize(file, 1<<16), f)
}

func readTrainingRecords(in *bufio.Reader, f func(*trainingRecord) error) (broken bool, err error) {
	head := make([]byte, len(trainingMagic))
	if _, err := io.ReadFull(in, head); err != nil || string(head) != trainingMagic {
		return true, nil //nolint:nilerr // a file that was not written whole, or another one
	}
	var names []string
	if line, err := in.ReadSlice('\n'); err != nil || json.Unmarshal(line, &names) != nil || len(names) > formula.MaxFactors {
		return true, nil //nolint:nilerr // a file that was not written whole
	}
	r := trainingRecord{x: make([]float32, len(names)), place: make(map[string]int, len(names))}
	for i, n := range names {
		r.place[strings.Clone(n)] = i
	}
	var fixed [18]byte
	body := make([]byte, 6+4*len(names))
	for {
		if _, err := io.ReadFull(in, fixed[:]); err != nil {
			return !errors.Is(err, io.EOF), nil
		}
		r.kind, r.at = fixed[0], int64(binary.BigEndian.Uint64(fixed[1:])) //nolint:gosec // as it was written
		r.subject, r.who = identity.Kind(fixed[9]), binary.BigEndian.Uint64(fixed[10:])
		switch r.kind {
		case 'O':
			o, err := in.ReadByte()
			if err != nil {
				return true, nil //nolint:nilerr // as above
			}
			r.outcome = outcome(o)
		case 'V':
			if _, err := io.ReadFull(in, body); err != nil {
				return true, nil //nolint:nilerr // as above
			}
			r.service = binary.BigEndian.Uint16(body)
			r.score = math.Float32frombits(binary.BigEndian.Uint32(body[2:]))
			for i := range r.x {
				r.x[i] = math.Float32frombits(binary.BigEndian.Uint32(body[6+4*i:]))
			}
		default:
			return true, nil
		}
		if err := f(&r); err != nil {
			return false, err
		}
	}
}
