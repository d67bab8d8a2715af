package training

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
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

// Export joins the factors of a training log with what became known of the subjects, and writes CSV with these factors, as
// formula.ReadRows reads it. Where labels come from is said in person.label. now is used to tell how long ago a challenge
// was shown. The log may be in use; what is not yet written is left out.
func Export(dir string, names []string, w io.Writer, o ExportOptions, now time.Time) (Exported, error) {
	var done Exported
	files, err := logs(dir)
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
	if err := out.Write(append(formula.Columns(), names...)); err != nil {
		return done, err
	}
	row := make([]string, 0, len(names)+8)
	err = joined(files, known, o, now, func(r *record, p *person, label formula.Label, source string) error {
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

// Export writes the log like the function of that name, including what is buffered.
func (t *Log) Export(w io.Writer, o ExportOptions, now time.Time) (Exported, error) {
	if err := t.Flush(); err != nil {
		return Exported{}, err
	}
	return Export(t.dir, t.names, w, o, now)
}

// Row is a row of the log with what is known of its subject. It is valid until the next one.
type Row struct {
	Who     uint64 // the subject, as Log.Who calls it
	Kind    identity.Kind
	At      time.Time
	Service uint16    // the number of the settings by which it was judged
	Factors []float32 // in the order of Deps.Names; NaN: unknown
	Late    bool      // the gateway had answered the subject itself, and the factors reflect that
	Label   formula.Label
	Source  string // of the label
}

// Rows calls f with the rows since a time, in their order, including what is buffered.
func (t *Log) Rows(since, now time.Time, f func(r *Row) error) error {
	if err := t.Flush(); err != nil {
		return err
	}
	files, err := logs(t.dir)
	if err != nil {
		return err
	}
	known, err := readOutcomes(files, new(Exported))
	if err != nil {
		return err
	}
	row := Row{Factors: make([]float32, len(t.names))}
	return joined(files, known, ExportOptions{Since: since}, now, func(r *record, of *person, label formula.Label, source string) error {
		row.Who, row.Kind, row.At, row.Service = r.who, r.subject, time.UnixMilli(r.at), r.service
		row.Late, row.Label, row.Source = of.cut != 0 && r.at >= of.cut, label, source
		for i, name := range t.names {
			row.Factors[i] = float32(math.NaN())
			if k, ok := r.place[name]; ok {
				row.Factors[i] = r.x[k]
			}
		}
		return f(&row)
	})
}

// joined calls f with the rows of a log, and with what is known of their subjects.
func joined(files []string, known map[uint64]*person, o ExportOptions, now time.Time, f func(r *record, p *person, label formula.Label, source string) error) error {
	for _, name := range files {
		_, err := readFile(name, func(r *record) error {
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
		broken, err := readFile(name, func(r *record) error {
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
