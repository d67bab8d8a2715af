package cmd

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"time"

	"antirobot/config"
	"antirobot/identity"
	"antirobot/replay"
	"antirobot/verdict/processor"
)

type factorsFile struct {
	*replay.Factors
	file *lateFile
	w    *bufio.Writer
}

// newFactors prepares the file; it has the table's head once it is opened and closed.
func newFactors(name string) *factorsFile {
	file := &lateFile{name: name}
	w := bufio.NewWriterSize(file, 256<<10)
	return &factorsFile{Factors: replay.NewFactors(w, processor.FactorNames()), file: file, w: w}
}

func (f *factorsFile) open() error {
	if err := f.file.open(); err != nil {
		return fmt.Errorf("--factors: %w", err)
	}
	return nil
}

func (f *factorsFile) close() error {
	if err := errors.Join(f.Flush(), f.w.Flush(), f.file.Close()); err != nil {
		return fmt.Errorf("--factors: %w", err)
	}
	return nil
}

// replayTables are the tables that `replay` writes beside its report. No file is touched before open.
type replayTables struct {
	factors  *factorsFile
	visitors *replay.Visitors
	scores   *lateFile
}

// makeTables reads the labels and prepares the tables that the flags ask for.
func (f *replayFlags) makeTables(r *replay.Runner, cfg *config.Config) (t *replayTables, err error) {
	if f.labels != "" && f.factors == "" && f.scores == "" && !f.learn {
		return nil, misused("--labels: what for? add --factors FILE, --scores FILE, or --learn")
	}
	if f.labels != "" {
		if r.Labels, err = readReplayLabels("--labels", f.labels); err != nil {
			return nil, err
		}
	}
	t = &replayTables{}
	if f.scores != "" {
		if cfg.Formula.Model == "" {
			return nil, misused("--scores: by which formula? name one in formula.model (--config FILE)")
		}
		model, err := config.LoadModel(cfg.Formula.Model)
		if err != nil {
			return nil, err
		}
		t.scores = &lateFile{name: f.scores}
		t.visitors = &replay.Visitors{Model: model, Labels: r.Labels}
		r.Visitors = t.visitors
	}
	if f.factors != "" {
		t.factors = newFactors(f.factors)
		r.Factors = t.factors.Factors
	}
	return t, nil
}

func readReplayLabels(flag, name string) (replay.Labels, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	defer file.Close()
	labels, err := replay.ReadLabels(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", flag, name, err)
	}
	return labels, nil
}

// open makes the files, or empties those of an earlier run.
func (t *replayTables) open() error {
	if t.scores != nil {
		if err := t.scores.open(); err != nil {
			return fmt.Errorf("--scores: %w", err)
		}
	}
	if t.factors != nil {
		return t.factors.open()
	}
	return nil
}

// observer tells all tables of an evaluation; nil: there is none.
func (t *replayTables) observer() processor.Observer {
	switch {
	case t.visitors == nil && t.factors == nil:
		return nil
	case t.visitors == nil:
		return t.factors.Observe
	case t.factors == nil:
		return t.visitors.Observe
	}
	return func(s identity.Subject, service uint16, at time.Time, x []float32, score float32) {
		t.factors.Observe(s, service, at, x, score)
		t.visitors.Observe(s, service, at, x, score)
	}
}

func (t *replayTables) close() error {
	var errs []error
	if t.factors != nil {
		errs = append(errs, t.factors.close())
	}
	if t.scores != nil {
		w := bufio.NewWriter(t.scores)
		if err := errors.Join(t.visitors.Write(w), w.Flush(), t.scores.Close()); err != nil {
			errs = append(errs, fmt.Errorf("--scores: %w", err))
		}
	}
	return errors.Join(errs...)
}
